#pragma once
/// What measuring the way to another rank is made of.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "group/group_impl.h"

namespace unisono::detail {

/// Messages to and from one other rank of a group, under a tag that no program uses. Each call blocks until its message has gone or
/// come, for at most the group's timeout, and throws as any operation does. Thread-safety: the thread that makes the group.
class Talk {
 public:
  /// `what`: for errors, "measuring a link"; not copied. `most`: bytes of the largest message.
  Talk(GroupImpl& group, int other, std::int64_t tag, const char* what, std::size_t most)
      : data(most), group_(group), other_(other), tag_(tag), what_(what) {}

  void send(std::size_t bytes) {
    group_.wait(group_.send(std::span(data).first(bytes), other_, tag_, group_.default_timeout()),
                group_.default_timeout(), {what_}, true);
  }
  void receive(std::size_t bytes) {
    group_.wait(group_.receive(std::span(data).first(bytes), other_, tag_, group_.default_timeout()),
                group_.default_timeout(), {what_}, true);
  }
  /// Both at once, as collectives do: the first half of `data` goes while the second comes.
  void exchange(std::size_t bytes) {
    const std::span all(data);
    const auto came = group_.receive(all.subspan(all.size() / 2, bytes), other_, tag_, group_.default_timeout());
    try {
      send(bytes);
    } catch (...) {
      try {  // nothing may come into `data` once it is gone
        group_.wait(came, Duration::zero(), {what_}, true);
      } catch (const std::exception&) {  // it says the same
      }
      throw;
    }
    group_.wait(came, group_.default_timeout(), {what_}, true);
  }

  std::vector<std::byte> data;  ///< what is sent, and what has come

 private:
  GroupImpl& group_;
  int other_;
  std::int64_t tag_;
  const char* what_;
};

}  // namespace unisono::detail
