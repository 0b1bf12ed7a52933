#include "engine/handover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace unisono::engine {
namespace {

constexpr std::uint64_t kTurn = 1 << 20;

/// Both sides of a message, as two processes have them.
struct Message {
  explicit Message(std::size_t bytes, bool in_front = true) : from(bytes), to(bytes, std::byte{0xee}) {
    for (std::size_t i = 0; i < bytes; i++) from[i] = static_cast<std::byte>(i * 7 >> 8 ^ i);
    record.bytes = bytes;
    record.slice = Handover::slice_for(bytes);
    record.owner_in_front = in_front ? 1 : 0;
    sender = std::make_unique<Handover>(record, Handover::kSender, from.data());
    receiver = std::make_unique<Handover>(record, Handover::kReceiver, from.data());
  }
  void take(std::uint64_t target = 1) { receiver->take(to.data(), to.size(), target); }

  std::vector<std::byte> from, to;
  HandoverRecord record;
  std::unique_ptr<Handover> sender, receiver;
  FasterWay sending, receiving;
};

TEST(Handover, EitherSideOrBothCopyAll) {
  for (const std::size_t bytes : {kHandedOver, kHandedOver + 1, std::size_t{1'000'001}, std::size_t{16 << 20}})
    for (const bool in_front : {false, true})
      for (const int who : {1, 2, 3}) {
        if (bytes > 1'000'001 && who != 3) continue;  // one that goes around the caches is enough
        Message m(bytes, in_front);
        EXPECT_EQ(m.sender->target(), 0U);
        m.take(4096);
        EXPECT_EQ(m.sender->target(), 4096U);
        m.sender->open_target(m.to.data());
        const auto all = [](Handover& side, FasterWay& ways) {
          while (side.copy(kTurn, ways)) {
          }
        };
        std::thread other([&] {
          if ((who & 1) != 0) all(*m.sender, m.sending);
        });
        if ((who & 2) != 0) all(*m.receiver, m.receiving);
        other.join();
        EXPECT_TRUE(m.sender->complete() && m.receiver->complete());
        EXPECT_EQ(m.from, m.to) << bytes << " bytes, by " << who;
      }
}

/// Private memory of two processes, of which each can read or write the other's: here both are one.
class Both final : public transport::SharedView {
 public:
  const std::byte* at(std::uint64_t, std::uint64_t) const noexcept override { return nullptr; }
  std::byte* writable(std::uint64_t, std::uint64_t) noexcept override { return nullptr; }
  void map_now(std::uint64_t, std::uint64_t, bool) noexcept override {}
  bool reads_memory() const noexcept override { return true; }
  int read_memory(std::span<const transport::MutablePart> parts, std::uint64_t from) noexcept override {
    if (refuses_reads) return ENOMEM;
    for (const transport::MutablePart& part : parts) {
      std::memcpy(part.data(), reinterpret_cast<const void*>(from), part.size());
      from += part.size();
    }
    return 0;
  }
  bool writes_memory() const noexcept override { return true; }
  int write_memory(std::span<const transport::Area> areas, const std::byte* from, std::size_t bytes) noexcept override {
    for (const transport::Area& area : areas) {
      const std::size_t n = std::min<std::size_t>(area.bytes, bytes);
      std::memcpy(reinterpret_cast<void*>(area.address.load()), from, n);
      from += n, bytes -= n;
    }
    return bytes == 0 ? 0 : EFAULT;
  }
  std::uint64_t address_of(std::uint64_t) const noexcept override { return 0; }
  void wake() noexcept override {}
  void wake_after_fence() noexcept override {}
  int waits_on() const noexcept override { return -1; }
  bool alive() const noexcept override { return true; }
  bool refuses_reads = false;
};

/// A message in private memory, and where its receiver has it.
struct PrivateMessage : Message {
  explicit PrivateMessage(std::size_t bytes) : Message(bytes) {
    record.private_source = 1;
    record.slice = Landing::slice_for(bytes);
    sender = std::make_unique<Handover>(record, Handover::kSender, from.data());
    receiver = std::make_unique<Handover>(record, Handover::kReceiver, from.data());
    landing.open(to.data(), bytes, record.slice);
  }
  bool copy(Handover& side) { return side.copy_through_kernel(1, both, error); }
  Landing landing;
  Both both;
  int error = 0;
};

TEST(Handover, OfPrivateMemoryBothCopy) {
  for (const std::size_t bytes :
       {kHandedOverPrivate, std::size_t{3'000'001}, std::size_t{(4 << 20) + 1}, std::size_t{40 << 20}}) {
    PrivateMessage m(bytes);
    EXPECT_LE(m.sender->slices(), Landing::kMostSlices);
    EXPECT_FALSE(m.copy(*m.sender) || m.copy(*m.receiver)) << "nobody has taken it";
    m.take();
    m.sender->open_landing(&m.landing);
    int of_sender = 0, of_receiver = 0;
    while (!m.receiver->complete()) {
      of_sender += m.copy(*m.sender) ? 1 : 0;
      of_receiver += m.copy(*m.receiver) ? 1 : 0;
    }
    EXPECT_GT(of_sender, 1);
    EXPECT_GT(of_receiver, 1);
    EXPECT_TRUE(m.sender->complete() && m.from == m.to) << bytes;
  }
}

TEST(Handover, WhatCannotBeWrittenToIsRead) {
  PrivateMessage m(2 << 20);
  m.take();
  m.sender->open_landing(&m.landing);
  m.landing.take_back();
  EXPECT_FALSE(m.copy(*m.sender));
  EXPECT_EQ(m.error, 0);
  EXPECT_FALSE(m.sender->given_up() || m.sender->declined());
  while (m.copy(*m.receiver)) {
  }
  EXPECT_TRUE(m.receiver->complete() && m.from == m.to);
}

TEST(Handover, WhatCannotBeReadIsSaid) {
  PrivateMessage m(2 << 20);
  m.take();
  m.both.refuses_reads = true;
  EXPECT_FALSE(m.copy(*m.receiver));
  EXPECT_EQ(m.error, ENOMEM);
  EXPECT_FALSE(m.receiver->complete());
  m.receiver->stop();
  EXPECT_TRUE(m.receiver->quiet()) << "it does not count as being copied";
}

TEST(Handover, WhatHasNoRoomIsNotWritten) {
  Message m(1 << 20);
  const std::size_t room = 100'001;
  m.receiver->take(m.to.data(), room, 0);
  EXPECT_EQ(m.sender->target(), 0U);
  while (m.receiver->copy(kTurn, m.receiving)) {
  }
  EXPECT_TRUE(m.receiver->complete());
  EXPECT_TRUE(std::equal(m.to.begin(), m.to.begin() + static_cast<std::ptrdiff_t>(room), m.from.begin()));
  EXPECT_TRUE(std::all_of(m.to.begin() + static_cast<std::ptrdiff_t>(room), m.to.end(),
                          [](std::byte b) { return b == std::byte{0xee}; }));
}

TEST(Handover, WhatIsTakenCannotBeWithdrawn) {
  Message one(1 << 20), other(1 << 20);
  EXPECT_TRUE(one.sender->withdraw());
  EXPECT_TRUE(Handover::withdrawn(one.record));
  one.take();
  EXPECT_FALSE(one.receiver->copy(kTurn, one.receiving));
  EXPECT_TRUE(one.receiver->given_up() && !one.receiver->complete());
  other.take();
  EXPECT_FALSE(other.sender->withdraw());
  EXPECT_TRUE(other.receiver->copy(kTurn, other.receiving));
}

TEST(Handover, NothingIsWrittenOnceASideHasStoppedAndIsQuiet) {
  for (int round = 0; round < 20; round++) {
    Message m(2 << 20);
    m.take();
    m.sender->open_target(m.to.data());
    std::thread sender([&] {
      while (m.sender->copy(1, m.sending)) {
      }
    });
    m.receiver->copy(kTurn, m.receiving);
    m.receiver->stop();
    while (!m.receiver->quiet()) std::this_thread::yield();
    std::fill(m.to.begin(), m.to.end(), std::byte{0x11});  // the caller's again
    sender.join();
    EXPECT_TRUE(std::all_of(m.to.begin(), m.to.end(), [](std::byte b) { return b == std::byte{0x11}; }));
    EXPECT_TRUE(m.sender->declined() || m.sender->complete());
  }
}

TEST(Handover, WhatIsTornIsNotComplete) {
  Message m(1 << 20);
  m.take();
  m.sender->stop();
  m.sender->tear();
  EXPECT_FALSE(m.receiver->copy(kTurn, m.receiving));
  EXPECT_FALSE(m.receiver->complete());
  Message late(1 << 20);
  late.take();
  while (late.receiver->copy(kTurn, late.receiving)) {
  }
  late.sender->tear();
  EXPECT_FALSE(late.receiver->complete());
}

}  // namespace
}  // namespace unisono::engine
