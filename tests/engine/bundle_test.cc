#include "engine/bundle.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "engine/fake_link.h"

namespace unisono::engine {
namespace {

using test::FakeLink;
using transport::ConstPart;

constexpr std::uint64_t kGroup = 5;
constexpr Sharing kSharing{3, 64, 16, 100};

/// The receiving side: does with heads and parts what the messenger does.
class Reader final : public FrameHandler {
 public:
  std::optional<Sink> on_frame(Stream& stream, const FrameHeader& header) override {
    if (header.kind == FrameKind::part) {
      Sink sink;
      const auto found = assembly.find(header, sink);
      if (found == Assembly::Found::later) return std::nullopt;
      if (found == Assembly::Found::never) stream.reject();
      return sink;
    }
    heard.emplace_back(header.length, '.');
    Sink sink;
    sink.parts = {std::as_writable_bytes(std::span(heard.back().data(), heard.back().size()))};
    return sink;
  }
  void on_payload(Stream& stream, const FrameHeader& header, Sink& sink) override {
    if (header.kind == FrameKind::part)
      complete += assembly.arrived(header).has_value();
    else if ((header.flags & kInParts) == 0)
      complete++;
    else if (!assembly.begin(header, std::move(sink)))
      stream.reject();
  }

  Assembly assembly;
  int complete = 0;
  std::deque<std::string> heard;  ///< payloads, in the order in which their frames were matched
};

/// A bundle over fake links, and the streams at their other ends.
struct Pair {
  explicit Pair(int links) {
    for (int i = 0; i < links; i++) {
      bundle.add(std::make_unique<Stream>(std::make_unique<FakeLink>(10 + i), 0), deferred);
      others.push_back(std::make_unique<Stream>(std::make_unique<FakeLink>(20 + i), 0));
    }
  }
  FakeLink& near(int i) { return static_cast<FakeLink&>(bundle.streams()[static_cast<std::size_t>(i)]->link()); }
  FakeLink& far(int i) { return static_cast<FakeLink&>(others[static_cast<std::size_t>(i)]->link()); }
  /// What one link has taken arrives at its other end.
  void carry(int i) { far(i).input += std::exchange(near(i).output, ""); }
  bool read(int i) { return others[static_cast<std::size_t>(i)]->read(reader); }
  void send(const std::string& text, StepFlag* flag = nullptr, std::shared_ptr<Completion> completion = nullptr) {
    OutFrame frame;
    frame.header.kind = FrameKind::message;
    frame.header.group = kGroup;
    frame.header.length = text.size();
    frame.parts = {std::as_bytes(std::span(text.data(), text.size() / 3)),
                   std::as_bytes(std::span(text.data(), text.size())).subspan(text.size() / 3)};
    frame.flag = flag;
    frame.completion = std::move(completion);
    bundle.enqueue(std::move(frame), deferred);
  }
  void flush() {
    for (const auto& s : bundle.streams()) bundle.flush(*s, deferred);
  }

  Deferred deferred;
  Bundle bundle{kSharing};
  std::vector<std::unique_ptr<Stream>> others;
  Reader reader;
};

std::string text_of(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(bytes, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

TEST(Bundle, FramesArriveInOrderWhateverTheStreamsDo) {
  for (unsigned seed = 1; seed <= 200; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int links = 1 + static_cast<int>(random() % 4);
    Pair p(links);
    std::deque<std::string> sent;
    std::deque<StepFlag> flags;
    for (int i = 0; i < 20; i++) {
      sent.push_back(
          text_of(random() % 2 == 0 ? random() % 40 : random() % 6000, seed * 100 + static_cast<unsigned>(i)));
      p.send(sent.back(), &flags.emplace_back(0));
    }
    for (int turn = 0; turn < 100000 && p.reader.complete < 20; turn++) {
      const int i = static_cast<int>(random() % static_cast<unsigned>(links));
      p.near(i).room += random() % 200;
      p.bundle.flush(*p.bundle.streams()[static_cast<std::size_t>(i)], p.deferred);
      const int k = static_cast<int>(random() % static_cast<unsigned>(links));
      if (random() % 3 == 0) p.carry(k);
      p.read(k);
    }
    ASSERT_EQ(p.reader.complete, 20);
    EXPECT_EQ(p.reader.heard, sent);
    EXPECT_TRUE(p.reader.assembly.empty());
    EXPECT_TRUE(p.bundle.idle());
    for (const StepFlag& flag : flags) EXPECT_EQ(flag.load(), kStepDone);
  }
}

TEST(Bundle, LargeFramesUseAllStreamsAndSmallOnesTheFirst) {
  Pair p(3);
  for (int i = 0; i < 3; i++) p.near(i).room = 1 << 20;
  const std::string small = text_of(63, 1), large = text_of(3000, 2);
  p.send(small);
  EXPECT_EQ(p.near(0).output.size(), sizeof(BriefHeader) + small.size());
  EXPECT_TRUE(p.near(1).output.empty());
  p.send(large);
  for (int i = 0; i < 3; i++) EXPECT_GE(p.near(i).output.size(), 900u) << i;
  p.bundle.use(1);
  for (int i = 0; i < 3; i++) p.near(i).output.clear();
  p.send(large);
  EXPECT_EQ(p.near(0).output.size(), sizeof(BriefHeader) + large.size());
}

TEST(Bundle, AStreamWithoutRoomCarriesLess) {
  Pair p(2);
  p.near(0).room = 1 << 20;
  p.near(1).room = 10;
  const std::string large = text_of(1000, 1);  // read until the flag says so
  StepFlag flag{0};
  p.send(large, &flag);
  EXPECT_EQ(p.near(1).output.size(), 10u);
  EXPECT_GT(p.near(0).output.size(), 900u) << "all but the part that the other stream has";
  EXPECT_NE(flag.load(), kStepDone);
  p.near(1).room = 1 << 20;
  p.flush();
  EXPECT_EQ(flag.load(), kStepDone);
}

TEST(Bundle, WhatNobodyHasTheBeginningOfIsForgotten) {
  Pair p(2);
  std::string large = text_of(1000, 1);
  const auto completion = std::make_shared<Completion>();
  p.send(large, nullptr, completion);
  p.bundle.forget(kGroup, completion.get(), Status::aborted("no more"), p.deferred);
  EXPECT_TRUE(completion->done());
  EXPECT_FALSE(completion->status().ok());
  for (int i = 0; i < 2; i++) p.near(i).room = 1 << 20;
  p.flush();
  EXPECT_TRUE(p.near(0).output.empty());
  EXPECT_TRUE(p.near(1).output.empty());
  EXPECT_TRUE(p.bundle.idle());
}

TEST(Bundle, WhatIsBegunIsSentToItsEndWithoutTheCallersMemory) {
  Pair p(2);
  const std::string expected = text_of(1000, 1);
  {
    const auto large = std::make_unique<std::string>(expected);
    const auto completion = std::make_shared<Completion>();
    p.near(1).room = 30;  // the head itself is not written yet
    p.send(*large, nullptr, completion);
    p.bundle.forget(kGroup, completion.get(), Status::aborted("no more"), p.deferred);
    EXPECT_TRUE(completion->done());
    large->assign(large->size(), '!');
  }
  for (int i = 0; i < 2; i++) p.near(i).room = 1 << 20;
  p.flush();
  for (int i = 0; i < 2; i++) p.carry(i);
  for (int turn = 0; turn < 4; turn++)
    for (int i = 0; i < 2; i++) p.read(i);
  ASSERT_EQ(p.reader.complete, 1);
  EXPECT_EQ(p.reader.heard[0], expected);
}

TEST(Bundle, TheReceiversMemoryIsLetGoOf) {
  Assembly assembly;
  std::string place(100, '.');
  FrameHeader head, part;
  head.kind = FrameKind::message;
  head.group = part.group = kGroup;
  head.flags = kInParts;
  head.length = place.size();
  part.kind = FrameKind::part;
  part.length = 40;
  Sink into;
  EXPECT_EQ(assembly.find(part, into), Assembly::Found::later);
  const auto completion = std::make_shared<Completion>();
  Sink sink;
  sink.parts = {std::as_writable_bytes(std::span(place.data(), place.size()))};
  sink.completion = completion;
  ASSERT_TRUE(assembly.begin(head, sink));
  part.place = 60;
  ASSERT_EQ(assembly.find(part, into), Assembly::Found::yes);
  ASSERT_EQ(into.parts.size(), 1u);
  EXPECT_EQ(into.parts[0].data(), std::as_writable_bytes(std::span(place.data(), place.size())).data() + 60);
  Deferred deferred;
  assembly.forget(kGroup, completion.get(), Status::aborted("no more"), deferred);
  EXPECT_TRUE(completion->done());
  ASSERT_EQ(assembly.find(part, into), Assembly::Found::yes);
  EXPECT_TRUE(into.parts.empty()) << "its bytes go nowhere";
}

TEST(Bundle, PartsThatMakeNoSenseEndTheStream) {
  const auto part_of = [](std::uint64_t number, std::uint64_t place, std::uint64_t length) {
    FrameHeader part;
    part.kind = FrameKind::part;
    part.sequence = number;
    part.place = place;
    part.length = length;
    return part;
  };
  FrameHeader head;
  head.flags = kInParts;
  head.length = 100;
  const auto bytes = [](const FrameHeader& h) { return std::string(reinterpret_cast<const char*>(&h), sizeof h); };
  for (const FrameHeader& bad : {part_of(0, 61, 40), part_of(0, ~0ull, 40), part_of(0, 0, 101)}) {
    Pair p(1);
    p.far(0).input = bytes(head) + bytes(bad) + std::string(50, 'x');
    while (p.read(0)) {
    }
    EXPECT_EQ(p.others[0]->state(), Stream::State::failed);
    EXPECT_EQ(p.others[0]->error(), EPROTO);
  }
  Pair p(1);
  head.place = 7;  // not the next one
  p.far(0).input = bytes(head);
  while (p.read(0)) {
  }
  EXPECT_EQ(p.others[0]->state(), Stream::State::failed);
}

TEST(Bundle, GoodbyeLeavesBehindEverythingElse) {
  Pair p(3);
  const std::string large = text_of(5000, 1);
  p.send(large);
  p.bundle.say_goodbye(p.deferred);
  EXPECT_FALSE(p.bundle.idle());
  for (int turn = 0; turn < 1000; turn++) {
    p.near(turn % 3).room += 50;
    p.flush();
  }
  EXPECT_TRUE(p.bundle.idle());
  for (int i = 0; i < 3; i++) {
    FrameHeader end;
    const std::string& all = p.near(i).output;
    ASSERT_GE(all.size(), sizeof end);
    std::memcpy(&end, all.data() + all.size() - sizeof end, sizeof end);
    EXPECT_EQ(end.kind, i == 0 ? FrameKind::goodbye : FrameKind::last);
    p.carry(i);
  }
  for (int turn = 0; turn < 10; turn++)
    for (int i = 0; i < 3; i++) p.read(i);
  EXPECT_EQ(p.reader.heard[0], large);
}

}  // namespace
}  // namespace unisono::engine
