#pragma once
/// The definition of done for a transport: every one passes this, threads and processes alike. Meeting and parting:
/// contract_test.cc; bytes: contract_streams_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arena.h"

namespace unisono::transport::test {

class Contract : public testing::TestWithParam<Arena> {
 protected:
  /// Fewer bytes where every byte is its own call.
  std::size_t scaled(std::size_t n) const { return GetParam().faulty ? n / 32 : n / kSlow; }
};

/// Ends a test politely: nobody hangs up before both are through.
inline void finish(Site& site, std::unique_ptr<Link>& link, Board& board) {
  board.meet(site);
  site.drop(link);
}

}  // namespace unisono::transport::test
