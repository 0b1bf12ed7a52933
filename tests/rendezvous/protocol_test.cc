/// The store's wire format: what is encoded comes back, however it is cut; what is not is refused, whatever it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "rendezvous/helpers.h"
#include "rendezvous/key_values.h"
#include "rendezvous/store_protocol.h"

namespace unisono::rendezvous {
namespace {

using test::bytes_of;

std::vector<StoreRequest> samples() {
  StoreRequest wait{StoreOp::wait, {"a", "b", "c"}, {}, {}};
  wait.timeout = std::chrono::seconds(3);
  return {{StoreOp::set, {"key"}, bytes_of("value"), {}},
          {StoreOp::compare_set, {"k"}, bytes_of("new"), bytes_of("old")},
          {StoreOp::add, {"n"}, {}, {}, -5},
          wait,
          {StoreOp::check, {}, {}, {}}};
}

void expect_equal(const StoreRequest& a, const StoreRequest& b) {
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.expected, b.expected);
  EXPECT_EQ(a.delta, b.delta);
  EXPECT_EQ(a.timeout, b.timeout);
}

std::span<const std::byte> body_of(const Bytes& frame) { return std::span(frame).subspan(4); }

TEST(StoreProtocol, RequestsComeBack) {
  for (const auto& request : samples()) {
    const auto decoded = decode_request(body_of(encode(request)));
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    expect_equal(*decoded, request);
  }
}

TEST(StoreProtocol, ResponsesComeBack) {
  StoreResponse r;
  r.code = StoreCode::timeout;
  r.number = -7;
  r.missing = {"x", "y"};
  r.message = "why";
  r.value = std::make_shared<const Bytes>(bytes_of("payload"));
  Bytes frame = encode_head(r);
  frame.insert(frame.end(), r.value->begin(), r.value->end());
  const auto decoded = decode_response(body_of(frame));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->code, r.code);
  EXPECT_EQ(decoded->number, r.number);
  EXPECT_EQ(decoded->missing, r.missing);
  EXPECT_EQ(decoded->message, r.message);
  EXPECT_EQ(*decoded->value, *r.value);
}

TEST(StoreProtocol, FramesComeOutWhereverTheStreamIsCut) {
  Bytes stream;
  for (const auto& request : samples()) {
    const Bytes frame = encode(request);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (std::size_t cut = 0; cut <= stream.size(); cut++) {
    FrameReader reader;
    std::vector<StoreRequest> got;
    for (const auto part :
         {std::span<const std::byte>(stream).first(cut), std::span<const std::byte>(stream).subspan(cut)}) {
      ASSERT_TRUE(reader.feed(part).ok());
      while (auto frame = reader.next()) got.push_back(value_or_throw(decode_request(*frame)));
    }
    const auto expected = samples();
    ASSERT_EQ(got.size(), expected.size()) << "cut at " << cut;
    for (std::size_t i = 0; i < got.size(); i++) expect_equal(got[i], expected[i]);
    EXPECT_EQ(reader.buffered(), 0u);
  }
}

TEST(StoreProtocol, EveryTruncatedBodyIsRefused) {
  for (const auto& request : samples()) {
    const Bytes frame = encode(request);
    const auto body = body_of(frame);
    for (std::size_t keep = 0; keep < body.size(); keep++) EXPECT_FALSE(decode_request(body.first(keep)).ok());
    Bytes longer(body.begin(), body.end());
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_request(longer).ok());
  }
}

TEST(StoreProtocol, RandomBytesNeverDoMoreThanFail) {
  std::mt19937_64 random(42);
  int accepted = 0;
  for (int i = 0; i < 20000; i++) {
    Bytes body = encode(samples()[i % samples().size()]);
    body.erase(body.begin(), body.begin() + 4);
    for (int flips = 0; flips < 3; flips++) body[random() % body.size()] = static_cast<std::byte>(random());
    const auto decoded = decode_request(body);
    if (!decoded.ok()) continue;
    accepted++;  // then it must be encodable again to the very same bytes
    const Bytes again = encode(*decoded);
    EXPECT_EQ(Bytes(again.begin() + 4, again.end()), body);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 20000);
}

TEST(StoreProtocol, AnEnormousLengthIsRefusedBeforeItIsBuffered) {
  FrameReader reader;
  EXPECT_FALSE(reader.feed(bytes_of("\xff\xff\xff\xff")).ok());
  // "GET /" read as a length.
  FrameReader http;
  EXPECT_FALSE(http.feed(bytes_of("GET / HTTP/1.1")).ok());
}

TEST(StoreProtocol, MoreKeysThanBytesAreRefusedWithoutAllocatingThem) {
  Bytes body = encode({StoreOp::check, {}, {}, {}});
  body.erase(body.begin(), body.begin() + 4);
  for (std::size_t i = 17; i < 21; i++) body[i] = std::byte{0xff};  // the count of keys
  EXPECT_FALSE(decode_request(body).ok());
}

TEST(KeyValues, RefusesWhatDoesNotFit) {
  KeyValues values(1000);
  const auto set = [&](std::string key, std::size_t n) {
    return values.apply({StoreOp::set, {std::move(key)}, Bytes(n), {}}).code;
  };
  EXPECT_EQ(set("a", 500), StoreCode::ok);
  EXPECT_EQ(set("b", 500), StoreCode::full);
  EXPECT_EQ(set("a", 100), StoreCode::ok);  // replaced, not added
  EXPECT_EQ(set("b", 500), StoreCode::ok);
  EXPECT_EQ(values.apply({StoreOp::erase, {"a"}, {}, {}}).number, 1);
  EXPECT_EQ(values.apply({StoreOp::erase, {"b"}, {}, {}}).number, 1);
  EXPECT_EQ(values.bytes(), 0u);
}

}  // namespace
}  // namespace unisono::rendezvous
