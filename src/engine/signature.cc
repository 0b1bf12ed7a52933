#include "engine/signature.h"

#include <fmt/format.h>

namespace unisono::engine {

// Bits of `what`, from the lowest: collective 4, dtype 4, op 4, uneven 4, algorithm 16, root 32.
Signature Signature::make(const Fields& f, std::uint64_t count) noexcept {
  const auto bits = [](auto value, int shift) { return static_cast<std::uint64_t>(value) << shift; };
  return {bits(f.collective, 0) | bits(f.dtype, 4) | bits(f.op, 8) | bits(f.uneven, 12) |
              bits(static_cast<std::uint16_t>(f.algorithm), 16) | bits(static_cast<std::uint32_t>(f.root), 32),
          count};
}

Signature::Fields Signature::fields() const noexcept {
  Fields f;
  f.collective = static_cast<Collective>((what & 15) % kCollectives);
  f.dtype = static_cast<DType>((what >> 4 & 15) % kDTypes);
  f.op = static_cast<ReduceOp>((what >> 8 & 15) % kReduceOps);
  f.uneven = (what >> 12 & 15) != 0;
  f.algorithm = static_cast<int>(what >> 16 & 0xffff);
  f.root = static_cast<int>(what >> 32);
  return f;
}

std::string Signature::describe() const {
  const Fields f = fields();
  std::string text(name_of(f.collective));
  if (f.collective == Collective::barrier) return text;
  text += fmt::format(" {}", name_of(f.dtype));
  if (reduces(f.collective)) text += fmt::format(" {}", name_of(f.op));
  if (f.uneven)
    text += f.collective == Collective::all_to_all
                ? std::string(" with counts for each rank")
                : fmt::format(" with counts for each rank (hash {:08x})", count & 0xffffffff);
  else
    text += fmt::format(" of {} element{} ({})", count, count == 1 ? "" : "s",
                        describe_bytes(static_cast<std::int64_t>(count * size_of(f.dtype))));
  if (rooted(f.collective)) text += fmt::format(" root {}", f.root);
  if (f.algorithm != 0) text += fmt::format(" by algorithm {}", f.algorithm - 1);
  return text;
}

std::string describe_bytes(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const double kib = static_cast<double>(bytes) / 1024;
  if (kib < 1024) return fmt::format("{:.1f} KiB", kib);
  if (kib < 1024 * 1024) return fmt::format("{:.1f} MiB", kib / 1024);
  return fmt::format("{:.1f} GiB", kib / 1024 / 1024);
}

}  // namespace unisono::engine
