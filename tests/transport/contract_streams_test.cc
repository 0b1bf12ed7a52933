/// The contract's part about bytes: every one arrives, once and in order, whatever the pieces.

#include <random>

#include "contract.h"

namespace unisono::transport::test {
namespace {

/// Sends a stream in pieces of random sizes and reads the other's, both at once, with random scatter and gather lists.
void exchange_streams(Site& site, Link& link, std::size_t bytes, std::uint64_t seed_out, std::uint64_t seed_in) {
  const auto out = pattern(bytes, seed_out);
  const auto expected = pattern(bytes, seed_in);
  std::vector<std::byte> in(bytes);
  std::size_t sent = 0, got = 0;
  std::mt19937_64 random(seed_out);
  const auto cut = [&](auto whole, auto& parts) {
    while (!whole.empty() && parts.size() < 7) {
      const std::size_t limit = random() % 3 == 0 ? 100000 : 300;
      const std::size_t n = std::min<std::size_t>(whole.size(), random() % limit);
      parts.push_back(whole.first(n));
      whole = whole.subspan(n);
    }
  };
  const bool done = site.until(
      [&] {
        while (sent < bytes) {
          std::vector<ConstPart> parts;
          cut(ConstPart(out).subspan(sent), parts);
          std::size_t offered = 0;
          for (const auto& part : parts) offered += part.size();
          const Io io = link.write(parts);
          EXPECT_EQ(io.state, Io::State::ok);
          EXPECT_LE(io.bytes, offered);
          if (io.state != Io::State::ok) return true;
          sent += io.bytes;
          if (offered > 0 && io.bytes == 0) break;
        }
        if (link.fd() >= 0) site.poller->want_write(link.fd(), sent < bytes);
        while (got < bytes) {
          std::vector<MutablePart> parts;
          cut(MutablePart(in).subspan(got), parts);
          std::size_t asked = 0;
          for (const auto& part : parts) asked += part.size();
          const Io io = link.read(parts);
          EXPECT_EQ(io.state, Io::State::ok);
          if (io.state != Io::State::ok) return true;
          got += io.bytes;
          if (asked > 0 && io.bytes == 0) break;
        }
        return sent == bytes && got == bytes;
      },
      100s);
  EXPECT_TRUE(done) << "stuck: sent " << sent << ", got " << got << " of " << bytes;
  EXPECT_TRUE(in == expected) << "the bytes differ";
  EXPECT_LT(link.round_trip(), 1s);
  EXPECT_EQ(link.round_trip() > 0s, link.fd() >= 0) << "what was sent to a socket has been acknowledged";
}
TEST_P(Contract, CarriesStreamsBothWaysAtOnce) {
  const std::size_t bytes = scaled(8 << 20);
  const auto role = [&](std::uint64_t out, std::uint64_t in) {
    return [=](Site& site, std::unique_ptr<Link> link, Board& board) {
      exchange_streams(site, *link, bytes, out, in);
      finish(site, link, board);
    };
  };
  run_linked(GetParam(), role(1, 2), role(2, 1));
}

TEST_P(Contract, CarriesMuchThroughLittle) {
  Options options;
  options.ring_bytes = 4096;
  const std::size_t bytes = scaled(4 << 20);
  run_linked(
      GetParam(),
      [&](Site& site, std::unique_ptr<Link> link, Board& board) {
        EXPECT_TRUE(site.write_all(*link, pattern(bytes, 3)));
        finish(site, link, board);
      },
      [&](Site& site, std::unique_ptr<Link> link, Board& board) {
        std::vector<std::byte> in(bytes);
        EXPECT_TRUE(site.read_all(*link, in));
        EXPECT_TRUE(in == pattern(bytes, 3));
        finish(site, link, board);
      },
      options);
}

TEST_P(Contract, TakesEmptyAndHugeGatherLists) {
  run_linked(
      GetParam(),
      [&](Site& site, std::unique_ptr<Link> link, Board& board) {
        EXPECT_EQ(link->write({}).bytes, 0u);
        const ConstPart nothing[3] = {};
        const Io io = link->write(nothing);
        EXPECT_EQ(io.state, Io::State::ok);
        EXPECT_EQ(io.bytes, 0u);
        const auto bytes = pattern(5000, 4);
        std::vector<ConstPart> parts;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          parts.push_back(ConstPart(bytes).subspan(i, 1));
          parts.push_back({});
        }
        std::size_t sent = 0;
        EXPECT_TRUE(site.until([&] {
          while (sent < bytes.size()) {
            const Io wrote = link->write(std::span(parts).subspan(2 * sent));
            EXPECT_EQ(wrote.state, Io::State::ok);
            if (wrote.bytes == 0) return false;
            sent += wrote.bytes;
          }
          return true;
        }));
        finish(site, link, board);
      },
      [&](Site& site, std::unique_ptr<Link> link, Board& board) {
        EXPECT_EQ(link->read({}).state, Io::State::ok);
        const MutablePart nothing[3] = {};
        EXPECT_EQ(link->read(nothing).state, Io::State::ok);
        std::vector<std::byte> in(5000);
        EXPECT_TRUE(site.read_all(*link, in));
        EXPECT_TRUE(in == pattern(5000, 4));
        finish(site, link, board);
      });
}

TEST_P(Contract, DeliversEverythingWrittenBeforeClosing) {
  run_linked(
      GetParam(),
      [&](Site& site, std::unique_ptr<Link> link, Board& board) {
        EXPECT_TRUE(site.write_all(*link, pattern(60000, 5)));
        board.meet(site);  // the reader has not begun
        site.drop(link);
        board.meet(site);
        // Held-back bytes and lingering ends are the transport's business now.
        EXPECT_TRUE(site.meanwhile([&] { return board.word(0).load() == 1; }));
      },
      [&](Site& site, std::unique_ptr<Link> link, Board& board) {
        const std::byte unread[100] = {};
        EXPECT_TRUE(site.write_all(*link, unread));  // the other never reads these
        board.meet(site);
        board.meet(site);
        std::vector<std::byte> in;
        EXPECT_EQ(site.read_to_end(*link, in), Io::State::closed);
        EXPECT_TRUE(in == pattern(60000, 5)) << in.size() << " bytes";
        // Writing to somebody who left fails, at once or when the network has found out.
        EXPECT_TRUE(site.meanwhile([&] {
          const ConstPart part[1] = {unread};
          return link->write(part).state == Io::State::failed;
        }));
        board.word(0).store(1);
      });
}

}  // namespace
}  // namespace unisono::transport::test
