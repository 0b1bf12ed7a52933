#include "engine/inbox.h"

#include <gtest/gtest.h>

#include <cstring>

namespace unisono::engine {
namespace {

const Signature kSum = Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 0, false, 0}, 4);
const Signature kMax = Signature::make({Collective::all_reduce, DType::f32, ReduceOp::max, 0, false, 0}, 4);

FrameHeader frame(std::uint64_t sequence, std::uint32_t ordinal, std::uint64_t length,
                  const Signature& signature = kSum) {
  FrameHeader h;
  h.group = 1;
  h.sequence = sequence;
  h.ordinal = ordinal;
  h.length = length;
  h.signature = signature;
  return h;
}

FrameHeader message(std::int64_t tag, std::uint64_t length) {
  FrameHeader h;
  h.kind = FrameKind::message;
  h.group = 1;
  h.sequence = static_cast<std::uint64_t>(tag);
  h.length = length;
  return h;
}

/// As a stream does it: ask for a sink, fill it, say that it is full.
std::optional<Discord> arrive(Inbox& inbox, int rank, const FrameHeader& header, const std::string& text,
                              Deferred& deferred) {
  std::optional<Discord> discord;
  auto sink = inbox.on_frame(rank, header, discord);
  if (discord) return discord;
  std::size_t at = 0;
  for (auto& part : sink->parts) {
    const std::size_t take = std::min(part.size(), text.size() - at);
    std::memcpy(part.data(), text.data() + at, take);
    at += take;
  }
  inbox.on_payload(rank, header, *sink, deferred);
  return std::nullopt;
}

std::vector<transport::MutablePart> parts(std::string& buffer) {
  return {std::as_writable_bytes(std::span(buffer.data(), buffer.size()))};
}

Sink to(std::string& buffer, StepFlag* flag) {
  Sink sink;
  sink.parts = parts(buffer);
  sink.flag = flag;
  return sink;
}

TEST(Inbox, WhatCameBeforeItsSumIsAddedWhenThatIsPosted) {
  Inbox inbox(2);
  Deferred deferred;
  std::string sum(4, 1);
  StepFlag flag{1};
  EXPECT_FALSE(arrive(inbox, 1, frame(1, 0, 4), "abcd", deferred));
  EXPECT_FALSE(inbox.begin(1, kSum));
  const auto fold = std::make_shared<Fold>();
  fold->what = {DType::u8, ReduceOp::sum, 1};
  fold->results = {reinterpret_cast<std::byte*>(sum.data())};
  fold->operands = {reinterpret_cast<const std::byte*>(sum.data()), nullptr};
  Sink into = to(sum, &flag);
  into.parts = {};
  into.fold = fold;
  EXPECT_FALSE(inbox.post(1, frame(1, 0, 4), std::move(into)));
  EXPECT_EQ(sum, "bcde");
  EXPECT_EQ(flag.load(), kStepDone);
}

TEST(Inbox, PostedThenArrived) {
  Inbox inbox(2);
  Deferred deferred;
  std::string buffer(4, '.');
  StepFlag flag{1};
  EXPECT_FALSE(inbox.begin(1, kSum));
  EXPECT_FALSE(inbox.post(1, frame(1, 0, 4), to(buffer, &flag)));
  EXPECT_FALSE(arrive(inbox, 1, frame(1, 0, 4), "abcd", deferred));
  EXPECT_EQ(buffer, "abcd");
  EXPECT_EQ(flag.load(), kStepDone);
}

TEST(Inbox, EarlyFramesWaitForTheirOperation) {
  Inbox inbox(2);
  Deferred deferred;
  std::string buffer(4, '.');
  StepFlag flag{1};
  EXPECT_FALSE(arrive(inbox, 1, frame(2, 5, 4), "late", deferred));
  EXPECT_FALSE(inbox.begin(1, kSum));
  inbox.end(1);
  EXPECT_FALSE(inbox.begin(2, kSum));
  EXPECT_FALSE(inbox.post(1, frame(2, 5, 4), to(buffer, &flag)));
  EXPECT_EQ(buffer, "late");
  EXPECT_EQ(flag.load(), kStepDone);
}

TEST(Inbox, AnotherSignatureIsDiscordWheneverItComes) {
  Deferred deferred;
  Inbox early(2);
  EXPECT_FALSE(arrive(early, 1, frame(1, 0, 4, kMax), "xxxx", deferred));
  ASSERT_TRUE(early.begin(1, kSum));

  Inbox during(2);
  EXPECT_FALSE(during.begin(1, kSum));
  auto discord = arrive(during, 1, frame(1, 0, 4, kMax), "xxxx", deferred);
  ASSERT_TRUE(discord);
  EXPECT_EQ(discord->rank, 1);
  EXPECT_EQ(discord->ours, kSum);
  EXPECT_EQ(discord->theirs, kMax);

  Inbox after(2);
  EXPECT_FALSE(after.begin(1, kSum));
  after.end(1);
  EXPECT_TRUE(arrive(after, 1, frame(1, 0, 4, kMax), "xxxx", deferred));
}

TEST(Inbox, WhoIsPatientLeavesALargeFrameUntilItsReceiveIsPosted) {
  constexpr std::uint64_t kLarge = 64 << 10;
  Inbox inbox(2);
  std::optional<Discord> discord;
  EXPECT_FALSE(inbox.begin(1, kSum));
  EXPECT_FALSE(inbox.on_frame(1, frame(1, 0, kLarge), discord, true));
  EXPECT_TRUE(inbox.on_frame(1, frame(1, 1, 64), discord, true)) << "a small one is cheaper to copy than to wait for";
  std::string buffer(kLarge, '.');
  StepFlag flag{1};
  EXPECT_FALSE(inbox.post(1, frame(1, 0, kLarge), to(buffer, &flag)));
  const auto sink = inbox.on_frame(1, frame(1, 0, kLarge), discord, true);
  ASSERT_TRUE(sink);
  EXPECT_EQ(reinterpret_cast<char*>(sink->parts[0].data()), buffer.data());
  EXPECT_TRUE(inbox.on_frame(1, frame(1, 2, kLarge), discord, false)) << "in the end it is kept";
  EXPECT_FALSE(discord);
}

TEST(Inbox, TheMemoryOfADeliveredFrameServesTheNextOne) {
  Inbox inbox(2);
  Deferred deferred;
  std::optional<Discord> discord;
  const std::byte* memory = nullptr;
  for (std::uint64_t sequence = 1; sequence <= 3; sequence++) {
    const std::string text(static_cast<std::size_t>(1000 - sequence), static_cast<char>('a' + sequence));
    const FrameHeader header = frame(sequence, 0, text.size());
    auto sink = inbox.on_frame(1, header, discord);
    ASSERT_TRUE(sink);
    ASSERT_EQ(sink->parts[0].size(), text.size());
    if (memory != nullptr) {
      EXPECT_EQ(sink->parts[0].data(), memory);
    }
    memory = sink->parts[0].data();
    std::memcpy(sink->parts[0].data(), text.data(), text.size());
    inbox.on_payload(1, header, *sink, deferred);
    EXPECT_FALSE(inbox.begin(sequence, kSum));
    std::string buffer(text.size(), '.');
    StepFlag flag{1};
    EXPECT_FALSE(inbox.post(1, header, to(buffer, &flag)));
    EXPECT_EQ(buffer, text);
    inbox.end(sequence);
  }
}

TEST(Inbox, AMessageOfAnotherSizeIsDiscord) {
  Deferred deferred;
  Inbox inbox(2);
  std::string buffer(4, '.');
  StepFlag flag{1};
  EXPECT_FALSE(inbox.begin(1, kSum));
  EXPECT_FALSE(inbox.post(1, frame(1, 0, 4), to(buffer, &flag)));
  EXPECT_TRUE(arrive(inbox, 1, frame(1, 0, 8), "toomuch!", deferred));
  EXPECT_EQ(buffer, "....");
}

/// Sockets of ranks that nothing is awaited from are not asked: who forgets a rank here waits for it in vain for a while, who never forgets asks for nothing.
TEST(Inbox, SaysWhomItAwaits) {
  Inbox inbox(3);
  Deferred deferred;
  std::string a(4, '.'), b(4, '.');
  StepFlag flag{0};
  EXPECT_FALSE(inbox.begin(1, kSum));
  EXPECT_FALSE(inbox.awaits());
  EXPECT_FALSE(inbox.post(1, frame(1, 0, 4), to(a, &flag)));
  EXPECT_FALSE(inbox.post(1, frame(1, 1, 4), to(b, &flag)));
  EXPECT_TRUE(inbox.awaits());
  EXPECT_TRUE(inbox.awaits(1));
  EXPECT_FALSE(inbox.awaits(2));
  EXPECT_FALSE(arrive(inbox, 1, frame(1, 1, 4), "abcd", deferred));
  EXPECT_TRUE(inbox.awaits(1)) << "one of two has come";
  EXPECT_FALSE(arrive(inbox, 1, frame(1, 0, 4), "abcd", deferred));
  EXPECT_FALSE(inbox.awaits());
  EXPECT_FALSE(inbox.awaits(1));

  EXPECT_FALSE(inbox.post(2, frame(1, 2, 4), to(a, &flag)));
  inbox.end(1);
  EXPECT_FALSE(inbox.awaits(2)) << "over, by a failure";

  EXPECT_FALSE(arrive(inbox, 2, frame(2, 0, 4), "abcd", deferred));
  EXPECT_FALSE(inbox.begin(2, kSum));
  EXPECT_FALSE(inbox.post(2, frame(2, 0, 4), to(a, &flag)));
  EXPECT_FALSE(inbox.awaits()) << "it was there";
}

TEST(Inbox, AMessageFromAnybodyIsAwaitedFromAll) {
  Inbox inbox(3);
  Deferred deferred;
  std::string buffer(4, '.');
  inbox.post_message(2, 7, parts(buffer)[0], std::make_shared<Completion>(), deferred);
  EXPECT_TRUE(inbox.awaits());
  EXPECT_TRUE(inbox.awaits(2));
  EXPECT_FALSE(inbox.awaits(1));
  inbox.post_message(-1, 8, parts(buffer)[0], std::make_shared<Completion>(), deferred);
  EXPECT_TRUE(inbox.awaits(1));
  arrive(inbox, 1, message(8, 4), "abcd", deferred);
  EXPECT_FALSE(inbox.awaits(1));
  EXPECT_TRUE(inbox.awaits(2));
}

TEST(Inbox, MessagesMatchBySourceAndTagInOrder) {
  Deferred deferred;
  Inbox inbox(3);
  EXPECT_FALSE(arrive(inbox, 1, message(7, 1), "a", deferred));
  EXPECT_FALSE(arrive(inbox, 1, message(7, 1), "b", deferred));
  EXPECT_FALSE(arrive(inbox, 2, message(7, 1), "c", deferred));
  EXPECT_FALSE(arrive(inbox, 2, message(8, 1), "d", deferred));
  std::string got;
  for (const auto& [source, tag] : std::vector<std::pair<int, int>>{{2, 8}, {1, 7}, {-1, 7}, {2, 7}}) {
    std::string one(1, '.');
    auto completion = std::make_shared<Completion>();
    inbox.post_message(source, tag, parts(one)[0], completion, deferred);
    ASSERT_TRUE(completion->done());
    got += one;
  }
  EXPECT_EQ(got, "dabc");
}

TEST(Inbox, ATooLargeMessageIsAnErrorThatSaysSo) {
  Deferred deferred;
  Inbox inbox(2);
  std::string buffer(2, '.');
  auto completion = std::make_shared<Completion>();
  inbox.post_message(1, 0, parts(buffer)[0], completion, deferred);
  EXPECT_FALSE(arrive(inbox, 1, message(0, 5), "hello", deferred));
  ASSERT_TRUE(completion->done());
  EXPECT_EQ(completion->status().code(), Code::invalid_argument);
  EXPECT_NE(completion->status().message().find("5 bytes from rank 1"), std::string::npos);
}

TEST(Inbox, ForgottenMemoryIsNotTouched) {
  Deferred deferred;
  Inbox inbox(2);
  std::string buffer(4, '.');
  auto completion = std::make_shared<Completion>();
  inbox.post_message(1, 0, parts(buffer)[0], completion, deferred);
  inbox.forget(completion.get(), Status::timeout("too late"), deferred);
  ASSERT_TRUE(completion->done());
  EXPECT_EQ(completion->status().code(), Code::timeout);
  EXPECT_FALSE(arrive(inbox, 1, message(0, 4), "data", deferred));
  EXPECT_EQ(buffer, "....");
}

}  // namespace
}  // namespace unisono::engine
