/// The first value of a key, in stores with and without compare_set.

#include "rendezvous/set_first.h"

#include <gtest/gtest.h>

#include "rendezvous/forwarding_store.h"
#include "rendezvous/helpers.h"

namespace unisono::rendezvous {
namespace {

using test::bytes_of;
using test::text_of;

/// As one that a user wrote for torch in Python.
class WithoutCompareSet final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Bytes compare_set(std::string_view, std::span<const std::byte>, std::span<const std::byte>) override {
    throw SystemError("Not implemented.", 0);
  }
};

TEST(SetFirst, TheFirstValueCounts) {
  const std::shared_ptr<Store> plain = make_memory_store();
  for (const auto& store : {plain, std::shared_ptr<Store>(std::make_shared<WithoutCompareSet>(make_memory_store()))}) {
    EXPECT_EQ(text_of(set_first(*store, "key", bytes_of("first"))), "first");
    EXPECT_EQ(text_of(set_first(*store, "key", bytes_of("second"))), "first");
  }
}

}  // namespace
}  // namespace unisono::rendezvous
