#include <gtest/gtest.h>

#include <string>

#include "cli/bench/sizes.h"

namespace unisono::cli {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const char* text) {
  const auto sizes = parse_sizes(text);
  EXPECT_TRUE(sizes) << text << ": " << sizes.status().message();
  return sizes ? *sizes : Sizes{};
}

TEST(BenchSizes, AreListsAndRanges) {
  EXPECT_EQ(sizes_of("8,64K,1M"), (Sizes{8, 65536, 1 << 20}));
  EXPECT_EQ(sizes_of("8:64:x2"), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sizes_of("8:100:x3"), (Sizes{8, 24, 72}));
  EXPECT_EQ(sizes_of("1K:3K:+1K"), (Sizes{1024, 2048, 3072}));
  EXPECT_EQ(sizes_of("0:10:+4"), (Sizes{0, 4, 8}));
  EXPECT_EQ(sizes_of("8:8:x2"), (Sizes{8}));
  EXPECT_EQ(sizes_of("1M, 8:32:x4 ,5"), (Sizes{1 << 20, 8, 32, 5}));
  EXPECT_EQ(sizes_of("8:64M:x2").size(), 24u);
  EXPECT_EQ(sizes_of("8:64M:x2").back(), 64 << 20);
}

TEST(BenchSizes, EndWithoutOverflow) {
  EXPECT_EQ(sizes_of("1G:8000000000G:x1000000000"), (Sizes{1 << 30, std::int64_t{1'000'000'000} << 30}));
  EXPECT_EQ(sizes_of("1:9223372036854775806:x2").size(), 63u);
  EXPECT_EQ(sizes_of("0:9223372036854775806:+4611686018427387904").size(), 2u);
}

struct Mistake {
  const char* text;
  const char* says;
};

TEST(BenchSizes, MistakesAreNamed) {
  for (const Mistake& m :
       std::initializer_list<Mistake>{{"", "empty size"},
                                      {",", "empty size"},
                                      {"8,,16", "empty size"},
                                      {"8,", "empty size"},
                                      {"lots", "\"lots\" is not a size"},
                                      {"-8", "not a size"},
                                      {"8:64M", "not a range"},
                                      {"8:64M:x2:x2", "not a range"},
                                      {":", "not a range"},
                                      {":64M:x2", "not a size"},
                                      {"8::x2", "not a size"},
                                      {"8:64M:", "not a step"},
                                      {"8:64M:2", "not a step"},
                                      {"8:64M:x1", "not a step"},
                                      {"8:64M:x0", "not a step"},
                                      {"8:64M:x", "not a step"},
                                      {"8:64M:x1.5", "not a step"},
                                      {"8:64M:x-2", "not a step"},
                                      {"8:64M:+0", "not a step"},
                                      {"8:64M:+", "not a step"},
                                      {"8:64M:-8", "not a step"},
                                      {"64M:8:x2", "descends: write the smaller size first, 8:64M:x2"},
                                      {"64K:8:+8", "descends"},
                                      {"0:64K:x2", "does not move"},
                                      {"1:64M:+1", "more than 10000 sizes"},
                                      {"8,1:2:x2,16:8:x2", "descends"}}) {
    const auto sizes = parse_sizes(m.text);
    ASSERT_FALSE(sizes) << m.text;
    EXPECT_NE(sizes.status().message().find(m.says), std::string::npos) << m.text << ": " << sizes.status().message();
  }
}

}  // namespace
}  // namespace unisono::cli
