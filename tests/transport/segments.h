#pragma once
/// Segments and doorbells without a transport.

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cstdint>
#include <memory>

#include "transport/shm/segment.h"

namespace unisono::transport::shm::test {

inline std::shared_ptr<Segment> make_segment(std::uint64_t bytes) {
  auto segment = Segment::create(bytes, Logger(LogLevel::off, ""));
  EXPECT_TRUE(segment.ok()) << segment.status().message();
  return std::move(segment).value();
}
inline std::shared_ptr<const Fd> make_doorbell() {
  return std::make_shared<const Fd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

}  // namespace unisono::transport::shm::test
