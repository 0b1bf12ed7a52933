#include "engine/stream.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/fake_link.h"

namespace unisono::engine {
namespace {

using test::FakeLink;

/// Takes every frame when it is `willing`.
class Keeper final : public FrameHandler {
 public:
  std::optional<Sink> on_frame(Stream&, const FrameHeader& header) override {
    asked++;
    if (!willing) return std::nullopt;
    last = header;
    text.emplace_back(header.length, '.');
    Sink sink;
    sink.parts = {std::as_writable_bytes(std::span(text.back().data(), text.back().size()))};
    return sink;
  }
  void on_payload(Stream&, const FrameHeader&, Sink&) override { complete++; }

  bool willing = true;
  int asked = 0, complete = 0;
  FrameHeader last;
  std::deque<std::string> text;
};

std::string frame_of(const std::string& payload) {
  FrameHeader header;
  header.length = payload.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + payload;
}

struct Fixture {
  explicit Fixture(int fd) : stream(std::make_unique<FakeLink>(fd), 0) {}
  FakeLink& link() { return static_cast<FakeLink&>(stream.link()); }
  Stream stream;
  Keeper keeper;
};

TEST(Stream, ASocketThatGaveLessThanWasAskedForIsNotAskedAgain) {
  Fixture f(7);
  f.link().input = frame_of("hello") + frame_of("world");
  EXPECT_TRUE(f.stream.read(f.keeper));
  EXPECT_EQ(f.keeper.complete, 2);
  EXPECT_EQ(f.link().reads, 1);
  EXPECT_FALSE(f.stream.read(f.keeper));
  EXPECT_EQ(f.link().reads, 2);
}

TEST(Stream, AFrameInPiecesIsPutTogether) {
  const std::string payload(100'000, 'x');
  const std::string all = frame_of(payload);
  Fixture f(7);
  for (std::size_t at = 0; at < all.size(); at += 7001) {
    f.link().input += all.substr(at, 7001);
    EXPECT_TRUE(f.stream.read(f.keeper));
  }
  ASSERT_EQ(f.keeper.complete, 1);
  EXPECT_EQ(f.keeper.text[0], payload);
}

FrameHeader header_of(std::size_t length, std::uint64_t sequence = 0) {
  FrameHeader header;
  header.length = length;
  header.sequence = sequence;
  return header;
}

std::string collected(Stream& stream, std::size_t length, int looks, std::uint64_t sequence = 0) {
  std::string into(length, '.');
  const auto bytes = std::as_writable_bytes(std::span(into.data(), into.size()));
  const auto found = stream.collect(header_of(length, sequence), bytes, nullptr, looks);
  return found == Stream::Found::all ? into : "nothing";
}

TEST(Stream, AFrameThatIsLookedForIsTakenAndWhatIsBehindItIsLeft) {
  for (const int fd : {7, -1}) {
    Fixture f(fd);
    f.link().input = frame_of("hello") + frame_of("") + frame_of("world");
    EXPECT_EQ(collected(f.stream, 5, 1), "hello");
    EXPECT_EQ(collected(f.stream, 0, 1), "");
    f.stream.read(f.keeper);
    ASSERT_EQ(f.keeper.complete, 1) << fd;
    EXPECT_EQ(f.keeper.text[0], "world");
  }
}

TEST(Stream, AFrameThatIsLookedForMayComeInPieces) {
  const std::string payload(20'000, 'x');
  const std::string all = frame_of(payload);
  for (const int fd : {7, -1}) {
    Fixture f(fd);
    std::string into(payload.size(), '.');
    StepFlag flag{0};
    const auto look = [&](std::size_t from, std::size_t to) {
      f.link().input += all.substr(from, to - from);
      return f.stream.collect(header_of(payload.size()), std::as_writable_bytes(std::span(into)), &flag, 3);
    };
    EXPECT_EQ(look(0, 30), Stream::Found::nothing_yet);
    EXPECT_EQ(look(30, 64), Stream::Found::a_part) << "nothing but its header";
    EXPECT_EQ(look(64, 64), Stream::Found::a_part);
    EXPECT_EQ(look(64, 7000), Stream::Found::a_part);
    EXPECT_EQ(look(7000, all.size()), Stream::Found::all);
    EXPECT_EQ(into, payload);
    EXPECT_EQ(flag, 0) << "who was told so need not be told by it";
    EXPECT_FALSE(f.stream.within_frame());
  }
}

TEST(Stream, OfAFrameThatIsLookedForTheRestIsRead) {
  Fixture f(7);
  const std::string payload(20'000, 'x');
  const std::string all = frame_of(payload);
  std::string into(payload.size(), '.');
  StepFlag flag{0}, others{0};
  const auto look = [&](StepFlag* whose) {
    return f.stream.collect(header_of(payload.size()), std::as_writable_bytes(std::span(into)), whose, 3);
  };
  f.link().input = all.substr(0, 9000);
  EXPECT_EQ(look(&flag), Stream::Found::a_part);
  EXPECT_EQ(look(&others), Stream::Found::something_else) << "what is on its way is somebody else's";
  f.link().input = all.substr(9000) + frame_of("behind it");
  f.stream.read(f.keeper);
  EXPECT_EQ(into, payload);
  ASSERT_EQ(f.keeper.complete, 2) << "the handler is told, whose the flag is to set";
  EXPECT_EQ(f.keeper.text.at(0), "behind it");
  EXPECT_EQ(look(&flag), Stream::Found::nothing_yet);
}

TEST(Stream, AnotherFrameThanTheOneThatIsLookedForIsLeft) {
  Fixture f(7);
  f.link().input = frame_of("hello");
  EXPECT_EQ(collected(f.stream, 5, 9, 1), "nothing") << "another sequence number";
  EXPECT_EQ(collected(f.stream, 4, 9), "nothing") << "another length";
  EXPECT_EQ(f.link().reads, 1) << "what it is shows with the first bytes";
  EXPECT_EQ(collected(f.stream, 5, 0), "hello") << "it is here, nobody need look";
  f.link().input = frame_of("world").substr(0, 64);
  f.keeper.willing = false;
  f.stream.read(f.keeper);
  EXPECT_EQ(collected(f.stream, 5, 9), "nothing") << "its head is taken";
}

TEST(Stream, AShortFrameGoesOutInOnePiece) {
  Fixture f(7);
  f.link().room = 1000;
  const std::string text = "hello";
  FrameHeader header;
  header.length = text.size();
  EXPECT_EQ(f.stream.write_now(header, std::as_bytes(std::span(text))), 69u);
  EXPECT_EQ(f.link().output, frame_of(text));
  EXPECT_EQ(f.link().most_parts, 1u);
}

/// Adds every frame to what it has.
class Adder final : public FrameHandler {
 public:
  explicit Adder(std::vector<std::int32_t>& sum) : sum_(sum) {}
  std::optional<Sink> on_frame(Stream&, const FrameHeader&) override {
    auto fold = std::make_shared<Fold>();
    fold->what = {DType::i32, ReduceOp::sum, 1};
    fold->results = {reinterpret_cast<std::byte*>(sum_.data())};
    fold->operands = {nullptr, reinterpret_cast<const std::byte*>(sum_.data())};
    Sink sink;
    sink.fold = fold;
    return sink;
  }
  void on_payload(Stream&, const FrameHeader&, Sink&) override { complete++; }
  int complete = 0;

 private:
  std::vector<std::int32_t>& sum_;
};

TEST(Stream, WhatIsReducedAsItComesMayComeInAnyPieces) {
  // Three pieces of a fold and a bit, and frames so short that they are there with their header.
  for (const std::size_t count : {std::size_t{1}, std::size_t{700}, 3 * Fold::piece_bytes() / 4 + 5}) {
    std::vector<std::int32_t> sum(count), payload(count);
    for (std::size_t i = 0; i < count; i++) {
      sum[i] = static_cast<std::int32_t>(i);
      payload[i] = static_cast<std::int32_t>(7 * i + 1);
    }
    const std::string all = frame_of({reinterpret_cast<const char*>(payload.data()), count * sizeof(std::int32_t)});
    Fixture f(7);
    Adder adder(sum);
    for (std::size_t at = 0; at < 2 * all.size(); at += 29'999) {
      f.link().input += (all + all).substr(at, 29'999);
      EXPECT_TRUE(f.stream.read(adder));
    }
    ASSERT_EQ(adder.complete, 2);
    for (std::size_t i = 0; i < count; i++) ASSERT_EQ(sum[i], static_cast<std::int32_t>(15 * i + 2)) << i << count;
  }
}

TEST(Stream, WhatIsForgottenIsReducedNoFurther) {
  const std::size_t count = Fold::piece_bytes();
  std::vector<std::int32_t> sum(count, 1);
  const std::vector<std::int32_t> payload(count, 2);
  const std::string all = frame_of({reinterpret_cast<const char*>(payload.data()), count * sizeof(std::int32_t)});
  Fixture f(7);
  Adder adder(sum);
  f.link().input = all.substr(0, all.size() / 2 + 16);
  EXPECT_TRUE(f.stream.read(adder));
  Deferred none;
  f.stream.forget(0, nullptr, {}, none);
  f.link().input = all.substr(all.size() / 2 + 16);
  EXPECT_TRUE(f.stream.read(adder));
  EXPECT_EQ(adder.complete, 1);
  EXPECT_EQ(sum.front(), 3);
  EXPECT_EQ(sum.back(), 1);
}

TEST(Stream, ItIsPatientForABoundedNumberOfQuestions) {
  Fixture socket(7), memory(-1);
  for (Fixture* f : {&socket, &memory}) {
    f->keeper.willing = false;
    f->link().input = frame_of(std::string(100, 'x'));
    f->stream.read(f->keeper);
    bool moved = true;
    for (int i = 0; i < 1000 && f->stream.patient(); i++) moved = f->stream.read(f->keeper);
    EXPECT_FALSE(f->stream.patient());
    EXPECT_EQ(moved, f == &memory) << "nothing wakes who sleeps while a frame lies in memory, so it has to look again";
    EXPECT_FALSE(f->stream.read(f->keeper));
    f->keeper.willing = true;
    EXPECT_TRUE(f->stream.read(f->keeper));
    EXPECT_EQ(f->keeper.complete, 1);
  }
}

TEST(Stream, AFrameAndItsHeaderLeaveInOneCallAndAFullSocketIsLeftAlone) {
  const std::string payload(1 << 20, 'x');
  Fixture f(7);
  Deferred deferred;
  for (int i = 0; i < 3; i++) {
    OutFrame frame;
    frame.header.length = payload.size();
    frame.parts = {std::as_bytes(std::span(payload.data(), payload.size()))};
    f.stream.enqueue(std::move(frame));
  }
  f.link().room = payload.size() + sizeof(FrameHeader) + 10;
  EXPECT_TRUE(f.stream.flush(deferred));
  EXPECT_EQ(f.link().writes, 2);
  EXPECT_FALSE(f.stream.idle());
  f.link().room = 10 << 20;
  EXPECT_TRUE(f.stream.flush(deferred));
  EXPECT_EQ(f.link().writes, 4);
  EXPECT_TRUE(f.stream.idle());
  EXPECT_EQ(f.link().output, frame_of(payload) + frame_of(payload) + frame_of(payload));
}

FrameHeader message_of(const std::string& payload) {
  FrameHeader header;
  header.kind = FrameKind::message;
  header.group = 7;
  header.sequence = 5;
  header.length = payload.size();
  return header;
}

transport::ConstPart bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Stream, ShortMessagesHaveAShortHeaderWhicheverWayTheyLeave) {
  const std::string most(BriefHeader::kMost, 'm'), more(BriefHeader::kMost + 1, 'n'), none;
  for (const std::size_t room : {0, 1, 10, 30, 200}) {
    Fixture sender(7);
    Deferred deferred;
    sender.link().room = room;
    for (const std::string* text : {&most, &none, &more}) {
      OutFrame frame;
      frame.header = message_of(*text);
      frame.parts = {bytes_of_text(*text)};
      frame.written = sender.stream.write_now(frame.header, bytes_of_text(*text));
      if (frame.written < frame.size()) sender.stream.enqueue(std::move(frame));
    }
    sender.link().room = 1 << 20;
    sender.stream.flush(deferred);
    const std::string all = sender.link().output;
    EXPECT_EQ(all.size(), 2 * sizeof(BriefHeader) + most.size() + sizeof(FrameHeader) + more.size());
    for (const int fd : {7, -1})
      for (const std::size_t piece : {1, 5, 23, 24, 25, 48, 1000}) {
        Fixture receiver(fd);
        for (std::size_t at = 0; at < all.size(); at += piece) {
          receiver.link().input += all.substr(at, piece);
          receiver.stream.read(receiver.keeper);
        }
        ASSERT_EQ(receiver.keeper.complete, 3) << room << " " << piece;
        EXPECT_EQ(receiver.keeper.text, (std::deque<std::string>{most, none, more}));
        EXPECT_EQ(receiver.keeper.last.sequence, 5u);
        EXPECT_EQ(receiver.keeper.last.group, 7u);
      }
  }
}

TEST(Stream, NothingIsWrittenPastWhatIsQueued) {
  Fixture f(7);
  Deferred deferred;
  const std::string first = "first", second = "second";
  OutFrame frame;
  frame.header = message_of(first);
  frame.parts = {bytes_of_text(first)};
  f.stream.enqueue(std::move(frame));
  f.link().room = 1000;
  EXPECT_EQ(f.stream.write_now(message_of(second), bytes_of_text(second)), 0u);
  EXPECT_TRUE(f.stream.flush(deferred));
  EXPECT_EQ(f.stream.write_now(message_of(second), bytes_of_text(second)), sizeof(BriefHeader) + second.size());
}

}  // namespace
}  // namespace unisono::engine
