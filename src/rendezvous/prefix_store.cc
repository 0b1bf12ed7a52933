/// All keys of another store under a prefix.

#include <fmt/format.h>

#include "rendezvous/answer_by.h"
#include "rendezvous/when_gone.h"
#include "unisono/error.hpp"
#include "unisono/store.hpp"

namespace unisono {
namespace {

class PrefixStore final : public Store, public rendezvous::KeepsLastWords, public rendezvous::AnswersInTime {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> inner)
      : prefix_(std::move(prefix) + "/"), inner_(std::move(inner)) {}

  void set(std::string_view key, std::span<const std::byte> value) override { inner_->set(full(key), value); }
  Bytes get(std::string_view key, Duration timeout) override { return inner_->get(full(key), timeout); }
  std::int64_t add(std::string_view key, std::int64_t delta) override { return inner_->add(full(key), delta); }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    return inner_->compare_set(full(key), expected, desired);
  }
  bool check(std::span<const std::string> keys) override { return inner_->check(full(keys)); }
  void wait(std::span<const std::string> keys, Duration timeout) override { inner_->wait(full(keys), timeout); }
  bool erase(std::string_view key) override { return inner_->erase(full(key)); }
  bool set_when_gone(std::string_view key, std::span<const std::byte> value) override {
    return rendezvous::set_when_gone(*inner_, full(key), value);
  }
  bool can_notice() const noexcept override { return rendezvous::keeps_last_words(*inner_); }
  std::shared_ptr<Store> answering_by(TimePoint deadline) override {
    auto inner = rendezvous::answering_by(*inner_, deadline);
    if (inner == nullptr) return nullptr;
    return std::make_shared<PrefixStore>(prefix_.substr(0, prefix_.size() - 1), std::move(inner));
  }
  std::string describe() const override { return fmt::format("{} under \"{}\"", inner_->describe(), prefix_); }

 private:
  std::string full(std::string_view key) const {
    // An empty key is refused by the inner store only if it stays empty.
    if (key.empty()) throw InvalidArgument("a store key is empty");
    return prefix_ + std::string(key);
  }
  std::vector<std::string> full(std::span<const std::string> keys) const {
    std::vector<std::string> result;
    result.reserve(keys.size());
    for (const auto& key : keys) result.push_back(full(key));
    return result;
  }

  std::string prefix_;
  std::shared_ptr<Store> inner_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> inner) {
  if (!inner) throw InvalidArgument("make_prefix_store: the inner store is null");
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(inner));
}

}  // namespace unisono
