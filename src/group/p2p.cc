/// Point to point.

#include <fmt/format.h>

#include "group/group_impl.h"

namespace unisono::detail {

std::shared_ptr<engine::Completion> GroupImpl::send(std::span<const std::byte> data, int dst, std::int64_t tag) {
  check_usable();
  if (dst < 0 || dst >= size())
    throw InvalidArgument(fmt::format("send to rank {} on group \"{}\": it has ranks 0 to {}. Nothing was sent", dst,
                                      parts_.name, size() - 1));
  if (dst == rank())
    throw InvalidArgument(
        fmt::format("send from rank {} to itself on group \"{}\": a rank cannot send to itself; copy the data instead. "
                    "Nothing was sent",
                    dst, parts_.name));
  if (data.data() == nullptr && !data.empty()) throw InvalidArgument("send: data is null. Nothing was sent");
  return parts_.context->messenger->send_message(parts_.id, dst, tag, data);
}

std::shared_ptr<engine::Completion> GroupImpl::receive(std::span<std::byte> data, int src, std::int64_t tag) {
  check_usable();
  if (src < kAnyRank || src >= size())
    throw InvalidArgument(fmt::format("recv from rank {} on group \"{}\": it has ranks 0 to {}, or -1 for any", src,
                                      parts_.name, size() - 1));
  if (src == rank())
    throw InvalidArgument(fmt::format(
        "recv on rank {} from itself on group \"{}\": a rank cannot send to itself, so this would wait for ever", src,
        parts_.name));
  if (size() == 1)
    throw InvalidArgument(fmt::format("recv on group \"{}\": it has one rank, so nobody can send", parts_.name));
  if (data.data() == nullptr && !data.empty()) throw InvalidArgument("recv: data is null");
  return parts_.context->messenger->receive_message(parts_.id, src, tag, data);
}

}  // namespace unisono::detail
