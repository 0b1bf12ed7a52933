/// The two ways of a link through memory, the ring and the lane beside it, and what a broken peer may leave in them.

#include "transport/shm/channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "segments.h"
#include "site.h"

namespace unisono::transport::shm {
namespace {

using test::make_doorbell;
using test::make_segment;
using transport::test::pattern;

/// Two channels face to face without a transport.
struct Face {
  explicit Face(std::uint64_t ring) : one(make_segment(16 << 20)), two(make_segment(16 << 20)) {
    a = Channel::create(one, ring).value();
    b = Channel::create(two, ring).value();
    EXPECT_TRUE(a->bind(PeerView::of(two, make_doorbell()), b->block()).ok());
    EXPECT_TRUE(b->bind(PeerView::of(one, make_doorbell()), a->block()).ok());
  }
  ControlBlock& block_of_a() { return *reinterpret_cast<ControlBlock*>(one->base() + a->block()); }
  ControlBlock& block_of_b() { return *reinterpret_cast<ControlBlock*>(two->base() + b->block()); }
  static Io write(Channel& channel, std::span<const std::byte> bytes) {
    const ConstPart part[1] = {bytes};
    return channel.write(part);
  }
  static Io read(Channel& channel, std::span<std::byte> bytes) {
    const MutablePart part[1] = {bytes};
    return channel.read(part);
  }
  std::shared_ptr<Segment> one, two;
  std::shared_ptr<Channel> a, b;
};

TEST(Channel, WrapsAroundAtEveryOffset) {
  Face face(4096);
  std::mt19937 random(3);
  std::uint64_t sent = 0, got = 0;
  const auto stream = pattern(1 << 20, 8);
  std::vector<std::byte> in(stream.size());
  while (got < stream.size()) {
    const std::size_t out = std::min<std::size_t>(random() % 5000, stream.size() - sent);
    const Io wrote = Face::write(*face.a, std::span(stream).subspan(sent, out));
    ASSERT_EQ(wrote.state, Io::State::ok);
    sent += wrote.bytes;
    ASSERT_LE(sent - got, 4096u + kLaneLines * kLine);
    const Io read =
        Face::read(*face.b, std::span(in).subspan(got, std::min<std::size_t>(random() % 5000, in.size() - got)));
    ASSERT_EQ(read.state, Io::State::ok);
    got += read.bytes;
  }
  EXPECT_TRUE(in == stream);
}

/// Short and long writes by turns, and reads that end anywhere: in short ones, between them, in the ring behind them.
TEST(Channel, ShortWritesKeepTheirPlaceAmongLongOnes) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    Face face(4096);
    std::mt19937 random(seed);
    const auto stream = pattern(1 << 18, seed);
    std::vector<std::byte> in(stream.size());
    std::size_t sent = 0, got = 0;
    while (got < stream.size()) {
      for (auto i = random() % 12; i > 0; i--) {
        const std::size_t most = random() % 8 == 0 ? 2 * kMostInLane : random() % 4 == 0 ? 700 : 232;
        sent += Face::write(*face.a, std::span(stream).subspan(sent, std::min(random() % most, stream.size() - sent)))
                    .bytes;
      }
      for (auto i = random() % 12; i > 0; i--) {
        const std::size_t most = random() % 4 == 0 ? 5000 : 150;
        const std::size_t before = got;
        got += Face::read(*face.b, std::span(in).subspan(got, std::min(random() % most, in.size() - got))).bytes;
        ASSERT_TRUE(std::ranges::equal(std::span(in).subspan(before, got - before),
                                       std::span(stream).subspan(before, got - before)))
            << before;
      }
      ASSERT_LE(got, sent);
    }
    EXPECT_EQ(in, stream);
  }
}

/// Whole short writes looked at where they lie, or read: what comes is the same stream.
TEST(Channel, GivesWhatIsInFrontWhereItLies) {
  std::size_t seen = 0;
  for (unsigned seed = 1; seed <= 20; seed++) {
    Face face(4096);
    std::mt19937 random(seed);
    const auto stream = pattern(1 << 17, seed);
    std::vector<std::byte> in;
    std::array<std::byte, 150> piece;
    for (std::size_t sent = 0; in.size() < stream.size();) {
      for (auto i = random() % 6; i > 0; i--) {
        const std::size_t most = random() % 8 == 0 ? 2 * kMostInLane : random() % 4 == 0 ? 700 : 116;
        sent += Face::write(*face.a, std::span(stream).subspan(sent, std::min(random() % most, stream.size() - sent)))
                    .bytes;
      }
      for (auto i = random() % 16; i > 0; i--) {
        const std::size_t before = in.size();
        const ConstPart front = face.b->front();
        if (!front.empty() && random() % 2 == 0) {
          in.insert(in.end(), front.begin(), front.end());
          face.b->drop_front();
          seen++;
        } else {
          EXPECT_EQ(front.empty() && in.size() < sent, face.b->front().empty() && face.b->has_other_input());
          const Io io = Face::read(*face.b, std::span(piece).first(random() % 2 == 0 ? piece.size() : random() % 100));
          in.insert(in.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(io.bytes));
        }
        ASSERT_LE(in.size(), sent);
        const std::size_t come = in.size() - before;
        ASSERT_TRUE(std::ranges::equal(std::span(in).subspan(before), std::span(stream).subspan(before, come)))
            << before;
      }
    }
    EXPECT_EQ(in, stream);
  }
  EXPECT_GT(seen, 100u);
}

TEST(Channel, ShortAndLongWritesOfAnotherThread) {
  Face face(4096);
  const auto stream = pattern(1 << 20, 5);
  std::thread writer([&] {
    std::mt19937 random(1);
    for (std::size_t sent = 0; sent < stream.size();)
      sent += Face::write(*face.a,
                          std::span(stream).subspan(sent, std::min<std::size_t>(random() % 300, stream.size() - sent)))
                  .bytes;
  });
  std::vector<std::byte> in(stream.size());
  std::mt19937 random(2);
  for (std::size_t got = 0; got < in.size();)
    got +=
        Face::read(*face.b, std::span(in).subspan(got, std::min<std::size_t>(random() % 300, in.size() - got))).bytes;
  writer.join();
  EXPECT_TRUE(in == stream);
}

TEST(Channel, TakesARingOnlyWhenItWrites) {
  Face face(1 << 20);
  constexpr std::uint64_t kWithoutRing = 24 << 10;
  EXPECT_LT(face.one->allocated(), kWithoutRing);
  const auto word = pattern(8, 1);
  for (std::size_t i = 0; i < kLaneLines - 1; i++) EXPECT_EQ(Face::write(*face.a, word).bytes, 8u);
  EXPECT_LT(face.one->allocated(), kWithoutRing) << "there is room for short ones beside it";
  EXPECT_EQ(Face::write(*face.a, word).bytes, 8u);
  EXPECT_GE(face.one->allocated(), 1u << 20);
  EXPECT_LT(face.two->allocated(), kWithoutRing);
}

TEST(Channel, SaysWhenThereIsNoMemoryForItsRing) {
  Face face(1ull << 26);  // more than the segment
  const auto word = pattern(kMostInLane + 1, 1);
  const Io io = Face::write(*face.a, word);
  EXPECT_EQ(io.state, Io::State::failed);
  EXPECT_EQ(io.error, ENOMEM);
}

TEST(Channel, DoesNotFollowAPeersNonsense) {
  constexpr std::uint64_t kLong = kMostInLane + 1;
  std::byte in[kLong];
  const auto word = pattern(kLong, 1);
  for (const std::uint64_t nonsense : {~std::uint64_t{0}, std::uint64_t{1} << 40, kLong + 8192 + 1}) {
    Face face(8192);
    ASSERT_EQ(Face::write(*face.a, word).bytes, kLong);
    face.block_of_a().head.store(nonsense);
    const Io io = Face::read(*face.b, in);
    EXPECT_EQ(io.state, Io::State::failed);
    EXPECT_EQ(io.error, EPROTO);
    EXPECT_EQ(Face::read(*face.b, in).state, Io::State::failed) << "and stays so";
  }
  for (const std::uint64_t nonsense : {kLong + 1, std::uint64_t{1} << 40}) {
    Face face(8192);
    ASSERT_EQ(Face::write(*face.a, word).bytes, kLong);
    face.block_of_b().tail.store(nonsense);
    const auto much = pattern(16384, 1);
    EXPECT_EQ(Face::write(*face.a, much).state, Io::State::failed);
  }
  for (const std::size_t before : {std::size_t{0}, std::size_t{1}, kLaneLines - 4})
    for (const std::uint32_t nonsense : {0u, static_cast<std::uint32_t>(kMostInLane + 1), LaneLine::kTurn}) {
      Face face(4096);
      for (std::size_t i = 0; i < before; i++) ASSERT_EQ(Face::write(*face.a, std::span(word).first(8)).bytes, 8u);
      ASSERT_EQ(Face::read(*face.b, std::span(in).first(8 * before)).bytes, 8 * before);
      ASSERT_EQ(Face::write(*face.a, std::span(word).first(8)).bytes, 8u);
      face.block_of_a().lane[before].bytes = nonsense;
      if (nonsense == LaneLine::kTurn) face.block_of_a().lane[0].bytes = nonsense;
      if (nonsense == LaneLine::kTurn && before > 0) face.block_of_a().lane[0].stamp.store(8 * before + 1);
      EXPECT_LE(face.b->front().size(), kMostInLane) << nonsense;
      EXPECT_EQ(Face::read(*face.b, in).state, Io::State::failed) << nonsense << " behind " << before;
    }
  {  // within the bounds of one, but not of the lane
    Face face(4096);
    for (std::size_t i = 0; i < kLaneLines - 4; i++)
      ASSERT_EQ(Face::write(*face.a, std::span(word).first(8)).bytes, 8u);
    ASSERT_EQ(Face::read(*face.b, std::span(in).first(8 * (kLaneLines - 4))).bytes, 8 * (kLaneLines - 4));
    ASSERT_EQ(Face::write(*face.a, std::span(word).first(8)).bytes, 8u);
    face.block_of_a().lane[kLaneLines - 4].bytes = kMostInLane;
    EXPECT_TRUE(face.b->front().empty());
    EXPECT_EQ(Face::read(*face.b, in).state, Io::State::failed);
  }
  for (const std::uint64_t nonsense : {~0ull, 1ull << 40}) {  // the lane counts as full
    Face face(4096);
    face.block_of_b().lane_read.store(nonsense);
    for (std::size_t i = 0; i < kLaneLines; i++) EXPECT_EQ(Face::write(*face.a, std::span(word).first(8)).bytes, 8u);
  }
  for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::uint64_t>{~0ull, 4096},
                                      {4096, 3000},
                                      {4096, 1ull << 40},
                                      {4096, 0},
                                      {(16ull << 20) - 64, 4096}}) {
    Face face(4096);
    face.block_of_a().ring_bytes.store(bytes);
    face.block_of_a().ring_offset.store(offset);
    EXPECT_EQ(Face::read(*face.b, in).state, Io::State::failed) << offset << " " << bytes;
  }
  auto channel = Channel::create(make_segment(1 << 20), 4096).value();
  for (const std::uint64_t block : {0ull, 4097ull, 1ull << 20, ~0ull})
    EXPECT_FALSE(channel->bind(PeerView::of(make_segment(1 << 20), make_doorbell()), block).ok()) << block;
}

}  // namespace
}  // namespace unisono::transport::shm
