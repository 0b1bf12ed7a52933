#pragma once
/// A store that asks another one: the base of those that keep something beside it.

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/answer_by.h"
#include "rendezvous/when_gone.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// Thread-safety: that of the other store.
class ForwardingStore : public Store, public KeepsLastWords, public AnswersInTime {
 public:
  explicit ForwardingStore(std::shared_ptr<Store> to) : to_(std::move(to)) {}
  void set(std::string_view key, std::span<const std::byte> value) override { to_->set(key, value); }
  Bytes get(std::string_view key, Duration timeout) override { return to_->get(key, timeout); }
  std::int64_t add(std::string_view key, std::int64_t delta) override { return to_->add(key, delta); }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    return to_->compare_set(key, expected, desired);
  }
  bool check(std::span<const std::string> keys) override { return to_->check(keys); }
  void wait(std::span<const std::string> keys, Duration timeout) override { to_->wait(keys, timeout); }
  bool erase(std::string_view key) override { return to_->erase(key); }
  std::string describe() const override { return to_->describe(); }
  bool set_when_gone(std::string_view key, std::span<const std::byte> value) override {
    return rendezvous::set_when_gone(*to_, key, value);
  }
  bool can_notice() const noexcept override { return keeps_last_words(*to_); }
  std::shared_ptr<Store> answering_by(TimePoint deadline) override { return rendezvous::answering_by(*to_, deadline); }

 protected:
  /// Let go of the other store; nothing may be asked after that.
  void leave() noexcept { to_.reset(); }

 private:
  std::shared_ptr<Store> to_;
};

}  // namespace unisono::rendezvous
