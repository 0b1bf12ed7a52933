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
    text.emplace_back(header.length, '.');
    Sink sink;
    sink.parts = {std::as_writable_bytes(std::span(text.back().data(), text.back().size()))};
    return sink;
  }
  void on_payload(Stream&, const FrameHeader&, Sink&) override { complete++; }

  bool willing = true;
  int asked = 0, complete = 0;
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

}  // namespace
}  // namespace unisono::engine
