#include "rendezvous/attendance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

namespace unisono::rendezvous {

Status missing_ranks(std::string_view where, int size, const std::vector<int>& missing, Duration timeout) {
  return Status::timeout(
      fmt::format("only {} of {} ranks joined within {:.0f} s at the {}; missing: rank{} {}. Look at what {} printed, "
                  "or whether "
                  "the job was started with another size",
                  size - static_cast<int>(missing.size()), size, std::chrono::duration<double>(timeout).count(), where,
                  missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), missing.size() == 1 ? "it" : "they"),
      missing);
}

Status check_rank(int rank, int size) {
  if (size < 1) return Status::invalid(fmt::format("a job of {} ranks: at least 1 is needed", size));
  if (rank < 0 || rank >= size)
    return Status::invalid(fmt::format("rank {} of a job of {} ranks: ranks go from 0 to {}", rank, size, size - 1));
  return {};
}

}  // namespace unisono::rendezvous
