/// The handshake accepts its own kind and nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/helpers.h"

namespace unisono::rendezvous {
namespace {

using test::bytes_of;
using test::kOtherSecretText;
using test::secret;
using ::testing::HasSubstr;
using State = Handshake::State;

constexpr PeerId kAlice{1, 2}, kBob{3, 4}, kCarol{5, 6};

std::shared_ptr<HandshakeFactory> factory(PeerId self, std::string job = "job", Secret s = secret(),
                                          Purpose purpose = Purpose::link) {
  return make_handshake_factory(self, std::move(job), std::move(s), purpose);
}

/// One side, with what became of it.
struct Side {
  std::unique_ptr<Handshake> handshake;
  State state = State::more;
  void feed(std::span<const std::byte> bytes) {
    while (!bytes.empty() && state == State::more) {
      std::size_t consumed = 0;
      state = handshake->feed(bytes, consumed);
      bytes = bytes.subspan(consumed);
    }
  }
};

/// What was said, message by message: even ones by the dialer.
using Messages = std::vector<Bytes>;

/// Carry messages to and fro until nobody says anything more; `alter` may change each on its way.
Messages converse(
    Side& dialer, Side& acceptor,
    const std::function<void(std::size_t number, Bytes& message)>& alter = [](std::size_t, Bytes&) {}) {
  Messages said;
  for (int silent = 0; silent < 2;) {
    Side& from = said.size() % 2 == 0 ? dialer : acceptor;
    Side& to = said.size() % 2 == 0 ? acceptor : dialer;
    Bytes message = from.handshake->take_output();
    silent = message.empty() ? silent + 1 : 0;
    said.push_back(message);
    alter(said.size() - 1, message);
    to.feed(message);
  }
  while (!said.empty() && said.back().empty()) said.pop_back();
  return said;
}

struct Pair {
  Side dialer, acceptor;
  Pair(HandshakeFactory& d, HandshakeFactory& a, PeerId to) : dialer{d.dial(to)}, acceptor{a.accept()} {}
};

TEST(Handshake, BothLearnWhoTheOtherIs) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair p(*a, *b, kBob);
  const auto said = converse(p.dialer, p.acceptor);
  EXPECT_EQ(said.size(), 4u);
  ASSERT_EQ(p.dialer.state, State::done);
  ASSERT_EQ(p.acceptor.state, State::done);
  EXPECT_EQ(p.dialer.handshake->peer(), kBob);
  EXPECT_EQ(p.acceptor.handshake->peer(), kAlice);
}

TEST(Handshake, DialingAnybodyFindsOutWho) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair p(*a, *b, PeerId{});
  converse(p.dialer, p.acceptor);
  ASSERT_EQ(p.dialer.state, State::done);
  EXPECT_EQ(p.dialer.handshake->peer(), kBob);
}

TEST(Handshake, WorksByteByByteAndLeavesWhatFollows) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair p(*a, *b, kBob);
  for (int round = 0; round < 3; round++)
    for (auto [from, to] : {std::pair{&p.dialer, &p.acceptor}, std::pair{&p.acceptor, &p.dialer}}) {
      const Bytes message = from->handshake->take_output();
      for (const std::byte& b1 : message) to->feed({&b1, 1});
    }
  EXPECT_EQ(p.dialer.state, State::done);
  EXPECT_EQ(p.acceptor.state, State::done);

  Pair q(*a, *b, kBob);
  q.acceptor.feed(q.dialer.handshake->take_output());
  q.dialer.feed(q.acceptor.handshake->take_output());
  Bytes last = q.dialer.handshake->take_output();
  const std::size_t proof = last.size();
  last.insert(last.end(), 5, std::byte{7});
  std::size_t consumed = 0;
  EXPECT_EQ(q.acceptor.handshake->feed(last, consumed), State::done);
  EXPECT_EQ(consumed, proof);
}

TEST(Handshake, EveryFlippedBitOfEveryMessageIsRejected) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair clean(*a, *b, kBob);
  const auto said = converse(clean.dialer, clean.acceptor);
  ASSERT_EQ(said.size(), 4u);
  for (std::size_t number = 0; number < said.size(); number++)
    for (std::size_t at = 0; at < said[number].size(); at++)
      for (int bit = 0; bit < 8; bit++) {
        Pair p(*a, *b, kBob);
        converse(p.dialer, p.acceptor, [&](std::size_t n, Bytes& message) {
          if (n == number && at < message.size()) message[at] ^= std::byte(1 << bit);
        });
        // The dialer is done last, so it never is; the acceptor is when only its own last word was altered.
        EXPECT_NE(p.dialer.state, State::done) << "message " << number << " byte " << at << " bit " << bit;
        if (number < 3) {
          EXPECT_NE(p.acceptor.state, State::done) << "message " << number << " byte " << at << " bit " << bit;
        }
      }
}

TEST(Handshake, EveryTruncationWaitsForMore) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair clean(*a, *b, kBob);
  const auto said = converse(clean.dialer, clean.acceptor);
  for (std::size_t keep = 0; keep < said[0].size(); keep++) {
    Side acceptor{b->accept()};
    acceptor.feed(std::span(said[0]).first(keep));
    EXPECT_EQ(acceptor.state, State::more);
    EXPECT_TRUE(acceptor.handshake->take_output().empty());
  }
}

TEST(Handshake, WrongSecretIsToldToBothAtOnce) {
  auto a = factory(kAlice), b = factory(kBob, "job", secret(kOtherSecretText));
  Pair p(*a, *b, kBob);
  converse(p.dialer, p.acceptor);
  EXPECT_EQ(p.dialer.state, State::rejected);
  EXPECT_EQ(p.acceptor.state, State::rejected);
  EXPECT_THAT(p.dialer.handshake->reason(), HasSubstr("another job secret"));
  EXPECT_THAT(p.acceptor.handshake->reason(), HasSubstr("another job secret"));
}

TEST(Handshake, NoSecretIsAnotherSecret) {
  auto a = factory(kAlice, "job", Secret{}), b = factory(kBob);
  Pair p(*a, *b, kBob);
  converse(p.dialer, p.acceptor);
  EXPECT_EQ(p.dialer.state, State::rejected);
  EXPECT_EQ(p.acceptor.state, State::rejected);
}

TEST(Handshake, WithoutSecretsTheJobKeepsStraysOut) {
  auto a = factory(kAlice, "job", Secret{}), b = factory(kBob, "job", Secret{}),
       stray = factory(kCarol, "jab", Secret{});
  Pair p(*a, *b, kBob);
  converse(p.dialer, p.acceptor);
  EXPECT_EQ(p.acceptor.state, State::done);
  Pair q(*stray, *b, kBob);
  converse(q.dialer, q.acceptor);
  EXPECT_EQ(q.acceptor.state, State::rejected);
}

TEST(Handshake, AnotherJobIsNamedAsSuch) {
  auto a = factory(kAlice, "one"), b = factory(kBob, "two");
  Pair p(*a, *b, kBob);
  converse(p.dialer, p.acceptor);
  EXPECT_THAT(p.acceptor.handshake->reason(), HasSubstr("another job (UNISONO_JOB"));
  EXPECT_THAT(p.dialer.handshake->reason(), HasSubstr("another job (UNISONO_JOB"));
}

TEST(Handshake, AnotherPurposeIsRefused) {
  auto a = factory(kAlice, "job", secret(), Purpose::store), b = factory(kBob);
  Pair p(*a, *b, PeerId{});
  converse(p.dialer, p.acceptor);
  EXPECT_EQ(p.acceptor.state, State::rejected);
  EXPECT_THAT(p.dialer.handshake->reason(), HasSubstr("not the kind of connection"));
}

TEST(Handshake, SomebodyElseAtTheAddressIsRefused) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair p(*a, *b, kCarol);
  converse(p.dialer, p.acceptor);
  EXPECT_EQ(p.dialer.state, State::rejected);
  EXPECT_THAT(p.acceptor.handshake->reason(), HasSubstr(to_string(kCarol)));
}

TEST(Handshake, OneselfIsRefused) {
  auto a = factory(kAlice);
  Pair p(*a, *a, PeerId{});
  converse(p.dialer, p.acceptor);
  EXPECT_EQ(p.dialer.state, State::rejected);
  EXPECT_THAT(p.acceptor.handshake->reason(), HasSubstr("itself"));
}

TEST(Handshake, ReplayOfARecordedDialerIsRejected) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair clean(*a, *b, kBob);
  const auto said = converse(clean.dialer, clean.acceptor);
  Side acceptor{b->accept()};
  acceptor.feed(said[0]);
  acceptor.feed(said[2]);
  EXPECT_EQ(acceptor.state, State::rejected);
}

TEST(Handshake, ReplayOfARecordedAcceptorIsRejected) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair clean(*a, *b, kBob);
  const auto said = converse(clean.dialer, clean.acceptor);
  Side dialer{a->dial(kBob)};
  dialer.feed(said[1]);
  EXPECT_EQ(dialer.state, State::rejected);
}

TEST(Handshake, ReflectionIsRejected) {
  auto a = factory(kAlice);
  Side dialer{a->dial(kBob)};
  dialer.feed(dialer.handshake->take_output());  // its own hello comes back
  EXPECT_EQ(dialer.state, State::rejected);

  // The acceptor's own proof, sent back as the dialer's: both end with a mac, over different labels.
  auto b = factory(kBob);
  Pair p(*a, *b, kBob);
  p.acceptor.feed(p.dialer.handshake->take_output());
  Bytes proof = p.acceptor.handshake->take_output();
  Bytes forged(proof.begin(), proof.begin() + 12);
  forged[9] = std::byte{3};
  forged.insert(forged.end(), proof.end() - 32, proof.end());
  p.acceptor.feed(forged);
  EXPECT_EQ(p.acceptor.state, State::rejected);
}

TEST(Handshake, OtherProtocolsAreRefusedAtTheirFirstByteWithoutAnAnswer) {
  auto b = factory(kBob);
  for (const std::string_view stranger : {"GET /metrics HTTP/1.1\r\n", "\x16\x03\x01", "SSH-2.0-OpenSSH", "PING"}) {
    Side acceptor{b->accept()};
    acceptor.feed(bytes_of(stranger.substr(0, 1)));
    EXPECT_EQ(acceptor.state, State::rejected) << stranger;
    EXPECT_THAT(acceptor.handshake->reason(), HasSubstr("not a unisono process"));
    EXPECT_TRUE(acceptor.handshake->take_output().empty());
  }
}

TEST(Handshake, AnotherVersionIsNamed) {
  auto a = factory(kAlice), b = factory(kBob);
  Pair p(*a, *b, kBob);
  converse(p.dialer, p.acceptor, [](std::size_t n, Bytes& message) {
    if (n == 0) message[8] = std::byte{2};
  });
  EXPECT_EQ(p.acceptor.state, State::rejected);
  EXPECT_THAT(p.acceptor.handshake->reason(), HasSubstr("version 2"));
  EXPECT_EQ(p.dialer.state, State::rejected);
  EXPECT_THAT(p.dialer.handshake->reason(), HasSubstr("another version"));
}

}  // namespace
}  // namespace unisono::rendezvous
