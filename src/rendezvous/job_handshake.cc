#include "rendezvous/job_handshake.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "rendezvous/crypto.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {
namespace {

constexpr std::array<std::byte, 8> kMagic = {std::byte{'U'}, std::byte{'N'}, std::byte{'I'}, std::byte{'S'},
                                             std::byte{'O'}, std::byte{'N'}, std::byte{'O'}, std::byte{0x01}};
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 12;  // magic, version, type, code (16 bits, little endian)
constexpr std::size_t kIdBytes = 16;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;

enum class Type : std::uint8_t { hello = 1, acceptor_proof = 2, dialer_proof = 3, welcome = 4, refusal = 5 };

/// Why a side refuses; the other one turns it into a sentence.
enum class Refusal : std::uint16_t { version = 1, job = 2, purpose = 3, identity = 4, secret = 5, protocol = 6 };

constexpr std::size_t body_bytes(Type type) noexcept {
  switch (type) {
    case Type::hello:
      return kMacBytes + kIdBytes + kIdBytes + kNonceBytes;  // hash of the job, own id, wanted id, nonce
    case Type::acceptor_proof:
      return kIdBytes + kNonceBytes + kMacBytes;
    case Type::dialer_proof:
    case Type::welcome:
      return kMacBytes;
    case Type::refusal:
      return 0;
  }
  return 0;
}

std::string_view label_of(Type type) noexcept {
  switch (type) {
    case Type::acceptor_proof:
      return "unisono acceptor proof";
    case Type::dialer_proof:
      return "unisono dialer proof";
    default:
      return "unisono acceptor welcome";
  }
}

std::span<const std::byte> as_span(std::string_view text) { return std::as_bytes(std::span(text)); }

void append(Bytes& to, std::span<const std::byte> part) { to.insert(to.end(), part.begin(), part.end()); }

void append_id(Bytes& to, const PeerId& id) {
  for (const std::uint64_t half : {id.high, id.low})
    for (int shift = 56; shift >= 0; shift -= 8) to.push_back(static_cast<std::byte>((half >> shift) & 0xff));
}

PeerId read_id(std::span<const std::byte> from) {
  PeerId id;
  for (std::size_t i = 0; i < 8; i++) id.high = (id.high << 8) | static_cast<std::uint8_t>(from[i]);
  for (std::size_t i = 8; i < 16; i++) id.low = (id.low << 8) | static_cast<std::uint8_t>(from[i]);
  return id;
}

Bytes random_nonce() {
  Bytes nonce(kNonceBytes);
  if (::getentropy(nonce.data(), nonce.size()) != 0) throw std::runtime_error("getentropy failed");
  return nonce;
}

/// What a stranger sent, for a log line: printable characters and \xNN.
std::string quoted(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes.first(std::min<std::size_t>(bytes.size(), 24))) {
    const auto c = static_cast<unsigned>(b);
    if (c >= 32 && c < 127)
      text.push_back(static_cast<char>(c));
    else
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", c);
  }
  return text;
}

std::string_view sentence_of_refused(Refusal why) noexcept {
  switch (why) {
    case Refusal::version:
      return "the other side refused: it speaks another version of the handshake";
    case Refusal::job:
      return "the other side refused: it belongs to another job (UNISONO_JOB differs)";
    case Refusal::purpose:
      return "the other side refused: this is not the kind of connection it serves (wrong port?)";
    case Refusal::identity:
      return "the other side refused: the process that was asked for is no longer there";
    case Refusal::secret:
      return "the other side refused: it knows another job secret";
    case Refusal::protocol:
      return "the other side refused: it could not make sense of what we sent";
  }
  return "the other side refused, for a reason this version does not know";
}

/// What all connections of a factory share. The key is derived, so that the secret itself is used for nothing else.
struct Identity {
  PeerId self;
  Purpose purpose = Purpose::link;
  Digest job_hash{};
  Digest key{};

  Identity(PeerId self_, std::string_view job, const Secret& secret, Purpose purpose_)
      : self(self_), purpose(purpose_), job_hash(sha256(as_span(job))) {
    Bytes label;
    append(label, as_span("unisono job key v1:"));
    append(label, as_span(job));
    key = hmac_sha256(secret.bytes(), label);
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  ~Identity() { ::explicit_bzero(key.data(), key.size()); }
};

/// Reading and writing messages; the two roles say what they mean.
class Conversation : public Handshake {
 public:
  explicit Conversation(std::shared_ptr<const Identity> us) : us_(std::move(us)) {}

  std::vector<std::byte> take_output() override { return std::exchange(output_, {}); }
  PeerId peer() const override { return peer_; }
  std::string reason() const override { return reason_; }

  State feed(std::span<const std::byte> input, std::size_t& consumed) override {
    consumed = 0;
    while (state_ == State::more && consumed < input.size()) {
      const std::size_t wanted = needed() - message_.size();
      const auto part = input.subspan(consumed, std::min(wanted, input.size() - consumed));
      append(message_, part);
      consumed += part.size();
      if (!header_is_ours()) break;
      if (message_.size() >= kHeaderBytes && message_.size() == needed()) take_message();
    }
    return state_;
  }

 protected:
  /// The message is complete, of the type that was expected, and at `message_`.
  virtual void on_message(Type type, std::span<const std::byte> body) = 0;
  virtual bool expects(Type type) const = 0;

  std::uint16_t code() const { return static_cast<std::uint16_t>(at(10) | (at(11) << 8)); }

  /// Append a message with `body`, and with a mac when its type has one; it becomes part of the transcript.
  void send(Type type, std::uint16_t code, std::span<const std::byte> body) {
    Bytes message(kMagic.begin(), kMagic.end());
    message.push_back(std::byte{kVersion});
    message.push_back(static_cast<std::byte>(type));
    message.push_back(static_cast<std::byte>(code & 0xff));
    message.push_back(static_cast<std::byte>(code >> 8));
    append(message, body);
    if (type != Type::hello && type != Type::refusal) append(message, mac(type, message));
    append(transcript_, message);
    append(output_, message);
  }

  /// Whether the received message ends with the mac that only somebody with our key can have made.
  bool proven(Type type) const {
    const auto unsigned_part = std::span(message_).first(message_.size() - kMacBytes);
    return equal_in_constant_time(mac(type, unsigned_part), std::span(message_).last(kMacBytes));
  }

  void accept_message() { append(transcript_, message_); }
  void finish(const PeerId& peer) {
    peer_ = peer;
    state_ = State::done;
  }
  void reject(std::string reason) {
    reason_ = std::move(reason);
    state_ = State::rejected;
  }
  void refuse(Refusal why, std::string reason) {
    send(Type::refusal, static_cast<std::uint16_t>(why), {});
    reject(std::move(reason));
  }

  std::shared_ptr<const Identity> us_;

 private:
  unsigned at(std::size_t i) const { return static_cast<unsigned>(message_[i]); }
  std::size_t needed() const {
    return message_.size() < kHeaderBytes ? kHeaderBytes : kHeaderBytes + body_bytes(static_cast<Type>(at(9)));
  }
  Digest mac(Type type, std::span<const std::byte> message) const {
    Bytes signed_bytes;
    append(signed_bytes, as_span(label_of(type)));
    signed_bytes.push_back(std::byte{0});
    append(signed_bytes, transcript_);
    append(signed_bytes, message);
    return hmac_sha256(us_->key, signed_bytes);
  }

  /// Look at as much of the header as is there. A stranger is not answered: it would not understand.
  bool header_is_ours() {
    const std::size_t n = std::min(message_.size(), kMagic.size());
    if (!std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(n), message_.begin())) {
      reject(fmt::format("not a unisono process: it sent \"{}\"", quoted(message_)));
      return false;
    }
    if (message_.size() < kHeaderBytes) return true;
    const auto type = static_cast<Type>(at(9));
    if (at(8) != kVersion) {
      if (type == Type::refusal)
        reject(std::string(sentence_of_refused(Refusal::version)));
      else
        refuse(Refusal::version, fmt::format("the other side speaks version {} of the handshake, this is version {}: "
                                             "install the same unisono everywhere",
                                             at(8), kVersion));
      return false;
    }
    if (type != Type::refusal && !expects(type)) {
      refuse(Refusal::protocol, fmt::format("the other side sent handshake message {} out of order", at(9)));
      return false;
    }
    return true;
  }

  void take_message() {
    const auto type = static_cast<Type>(at(9));
    if (type == Type::refusal)
      reject(std::string(sentence_of_refused(static_cast<Refusal>(code()))));
    else
      on_message(type, std::span<const std::byte>(message_).subspan(kHeaderBytes));
    message_.clear();
  }

  State state_ = State::more;
  Bytes message_;     // the one being received
  Bytes transcript_;  // all before it, both ways, in order
  Bytes output_;
  PeerId peer_;
  std::string reason_;
};

constexpr std::string_view kWrongSecret =
    "the other side knows another job secret (or the connection was tampered with)";

class Dialer final : public Conversation {
 public:
  Dialer(std::shared_ptr<const Identity> us, const PeerId& to) : Conversation(std::move(us)), to_(to) {
    Bytes body(us_->job_hash.begin(), us_->job_hash.end());
    append_id(body, us_->self);
    append_id(body, to_);
    append(body, random_nonce());
    send(Type::hello, static_cast<std::uint16_t>(us_->purpose), body);
  }

 private:
  bool expects(Type type) const override { return type == (proved_ ? Type::welcome : Type::acceptor_proof); }

  void on_message(Type type, std::span<const std::byte> body) override {
    if (!proven(type)) return refuse(Refusal::secret, std::string(kWrongSecret));
    accept_message();
    if (type == Type::welcome) return finish(found_);
    found_ = read_id(body);
    if (found_ != PeerId{} && found_ == us_->self) return refuse(Refusal::identity, "connected to itself");
    if (to_ != PeerId{} && found_ != to_)
      return refuse(Refusal::identity, fmt::format("process {} answers where {} was expected: its address belongs to "
                                                   "another process now",
                                                   to_string(found_), to_string(to_)));
    proved_ = true;
    send(Type::dialer_proof, 0, {});
  }

  PeerId to_, found_;
  bool proved_ = false;
};

class Acceptor final : public Conversation {
 public:
  using Conversation::Conversation;

 private:
  bool expects(Type type) const override { return type == (proved_ ? Type::dialer_proof : Type::hello); }

  void on_message(Type type, std::span<const std::byte> body) override {
    if (type == Type::hello) return on_hello(body);
    if (!proven(type)) return refuse(Refusal::secret, std::string(kWrongSecret));
    accept_message();
    send(Type::welcome, 0, {});
    finish(found_);
  }

  void on_hello(std::span<const std::byte> body) {
    if (!equal_in_constant_time(body.first(kMacBytes), us_->job_hash))
      return refuse(Refusal::job, "the other side belongs to another job (UNISONO_JOB differs)");
    if (code() != static_cast<std::uint16_t>(us_->purpose))
      return refuse(Refusal::purpose, "the other side wants another kind of connection");
    found_ = read_id(body.subspan(kMacBytes, kIdBytes));
    const PeerId wanted = read_id(body.subspan(kMacBytes + kIdBytes, kIdBytes));
    if (wanted != PeerId{} && wanted != us_->self)
      return refuse(Refusal::identity, fmt::format("the other side asks for process {}, this is {}", to_string(wanted),
                                                   to_string(us_->self)));
    if (found_ != PeerId{} && found_ == us_->self) return refuse(Refusal::identity, "connected to itself");
    accept_message();
    proved_ = true;
    Bytes reply;
    append_id(reply, us_->self);
    append(reply, random_nonce());
    send(Type::acceptor_proof, 0, reply);
  }

  PeerId found_;
  bool proved_ = false;
};

class JobHandshakeFactory final : public HandshakeFactory {
 public:
  explicit JobHandshakeFactory(std::shared_ptr<const Identity> us) : us_(std::move(us)) {}
  std::unique_ptr<Handshake> dial(const PeerId& to) override { return std::make_unique<Dialer>(us_, to); }
  std::unique_ptr<Handshake> accept() override { return std::make_unique<Acceptor>(us_); }

 private:
  std::shared_ptr<const Identity> us_;
};

}  // namespace

std::shared_ptr<HandshakeFactory> make_handshake_factory(PeerId self, const std::string& job, const Secret& secret,
                                                         Purpose purpose) {
  return std::make_shared<JobHandshakeFactory>(std::make_shared<const Identity>(self, job, secret, purpose));
}

}  // namespace unisono::rendezvous
