/// Every set of kernels that this processor runs, bit by bit against the reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "kernels/kernel_set.h"
#include "long_suite.h"

namespace unisono::kernels {
namespace {

using Buffer = std::vector<unsigned char>;
constexpr auto kGuardByte = static_cast<unsigned char>(0xa5);

/// Values that go wrong easily, as bits: zeros, infinities, NaNs of all kinds, denormals, the largest, the smallest
/// normal.
std::vector<std::uint64_t> specials(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x3c00};
    case DType::bf16:
      return {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 1, 0x8001, 0x7f, 0x80, 0x7f7f, 0xff7f, 0x3f80};
    case DType::f32:
      return {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001,
              0xff812345, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff};
    case DType::f64:
      return {0,
              1ull << 63,
              0x7ffull << 52,
              0xfffull << 52,
              0x7ff8ull << 48,
              0xfff8000000000001,
              0x7ff0000000000001,
              1,
              (1ull << 63) + 1,
              (1ull << 52) - 1,
              1ull << 52,
              0x7fefffffffffffff,
              0xffefffffffffffff};
    case DType::boolean:
      return {0, 0, 0, 1, 2, 255};
    default:
      return {0, 1, ~0ull, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f, 0x8000000000000000, 0x80000000, 0x8000, 0x80};
  }
}

/// An ordinary number of the type, of modest size, so that sums and products stay finite for a while.
std::uint64_t ordinary(DType dtype, std::mt19937_64& random) {
  const auto value = static_cast<double>(static_cast<std::int64_t>(random() % 4001) - 2000) / 128.0;
  const auto f = static_cast<float>(value);
  std::uint64_t bits = random();
  if (dtype == DType::f16) bits = f32_to_f16(f);
  if (dtype == DType::bf16) bits = f32_to_bf16(f);
  if (dtype == DType::f32) std::memcpy(&bits, &f, sizeof(f));
  if (dtype == DType::f64) std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

void put(Buffer& buffer, DType dtype, std::size_t offset, std::uint64_t bits) {
  std::memcpy(buffer.data() + offset, &bits, size_of(dtype));  // little end first, as on every machine we run on
}

/// Of a complex number, what its parts are; of others themselves.
DType part_of(DType dtype) {
  if (dtype == DType::c64) return DType::f32;
  return dtype == DType::c128 ? DType::f64 : dtype;
}

/// A pool of random elements, of which `rare` in 8 are special; sources are cut from it at random places.
class Values {
 public:
  Values(DType dtype, unsigned rare, std::uint64_t seed) : dtype_(dtype), random_(seed), pool_(kPool * size_of(dtype)) {
    const DType part = part_of(dtype);
    const auto special = specials(part);
    for (std::size_t at = 0; at < pool_.size(); at += size_of(part)) {
      const bool odd = random_() % 8 < rare;
      put(pool_, part, at, odd ? special[random_() % special.size()] : ordinary(part, random_));
    }
  }

  /// `count` elements at `offset` of a buffer that has guard bytes around them.
  Buffer source(std::size_t count, std::size_t offset) {
    Buffer buffer(offset + count * size_of(dtype_) + 64, kGuardByte);
    const std::size_t from = random_() % (kPool - count) * size_of(dtype_);
    std::memcpy(buffer.data() + offset, pool_.data() + from, count * size_of(dtype_));
    return buffer;
  }

 private:
  static constexpr std::size_t kPool = 1 << 17;
  DType dtype_;
  std::mt19937_64 random_;
  Buffer pool_;
};

/// Who is written: buffers of their own, or one of the sources.
enum class Target { separate, first, last, both_sources, both_separate };
constexpr Target kTargets[] = {Target::separate, Target::first, Target::last, Target::both_sources,
                               Target::both_separate};

struct Case {
  Reduce what;
  std::size_t k, count;
  std::vector<std::size_t> offsets;  ///< in bytes: of the sources, then dst, then dst2
  Target target;
};

/// Runs one set on copies of the sources and returns every byte of every buffer afterwards.
template <class F>
std::vector<Buffer> run(const F& reduce, const Case& c, std::vector<Buffer> buffers) {
  std::vector<const void*> src;
  for (std::size_t q = 0; q < c.k; q++) src.push_back(buffers[q].data() + c.offsets[q]);
  const auto at = [&](std::size_t q) { return static_cast<void*>(buffers[q].data() + c.offsets[q]); };
  void* dst = at(c.k);
  void* dst2 = nullptr;
  switch (c.target) {
    case Target::separate:
      break;
    case Target::first:
      dst = at(0);
      break;
    case Target::last:
      dst = at(c.k - 1);
      break;
    case Target::both_sources:
      dst = at(0);
      dst2 = c.k > 1 ? at(c.k - 1) : at(c.k + 1);
      break;
    case Target::both_separate:
      dst2 = at(c.k + 1);
      break;
  }
  reduce(c.what, dst, dst2, src, c.count);
  return buffers;
}

void check(const KernelSet& set, const Case& c, const std::vector<Buffer>& buffers) {
  const auto by_set = [&](auto&&... a) { set.reduce(a...); };
  const auto by_reference = [](auto&&... a) { reduce_reference(a...); };
  const auto got = run(by_set, c, buffers);
  const auto expected = run(by_reference, c, buffers);
  if (got == expected) return;
  for (std::size_t b = 0; b < got.size(); b++)
    for (std::size_t i = 0; i < got[b].size(); i++)
      ASSERT_EQ(int{got[b][i]}, int{expected[b][i]})
          << set.name << " " << name_of(c.what.op) << " of " << name_of(c.what.dtype) << " divisor " << c.what.divisor
          << " k " << c.k << " count " << c.count << " target " << static_cast<int>(c.target) << ": buffer " << b
          << " byte " << static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(c.offsets[b])
          << " from its start";
}

class Sets : public testing::TestWithParam<std::tuple<const KernelSet*, DType>> {
 protected:
  const KernelSet& set() const { return *std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }

  /// Calls f for each op that the type has, and for the averages' divisors.
  template <class F>
  void for_each_op(const F& f) const {
    for (int i = 0; i < kReduceOps; i++) {
      const auto op = static_cast<ReduceOp>(i);
      if (supports(op, dtype())) f(Reduce{dtype(), op, op == ReduceOp::avg ? 3 : 1});
    }
    f(Reduce{dtype(), ReduceOp::sum, 7});
    f(Reduce{dtype(), supports(ReduceOp::max, dtype()) ? ReduceOp::max : ReduceOp::product, 7});
  }

  void check_all_targets(const Reduce& what, std::size_t k, std::size_t count, Values& values) const {
    for (std::size_t shift = 0; shift < 5; shift++) {
      Case c{what, k, count, {}, Target::separate};
      std::vector<Buffer> buffers;
      // Shifted by 0 to 3 elements, differently for each buffer; and by bytes that no type likes.
      for (std::size_t q = 0; q < k + 2; q++) {
        c.offsets.push_back(shift == 4 ? 1 + q % 3 : (shift + q) % 4 * size_of(dtype()));
        buffers.push_back(values.source(count, c.offsets.back()));
      }
      c.target = kTargets[shift];
      check(set(), c, buffers);
      if (shift == 0)
        for (const Target target : kTargets) check(set(), c = {what, k, count, c.offsets, target}, buffers);
    }
  }
};

TEST_P(Sets, EqualTheReference) {
  Values values(dtype(), 2, 1);
  for_each_op([&](const Reduce& what) {
    for (const std::size_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
      for (const std::size_t count : {1, 3, 7, 17, 63, 131, 257}) {
        check_all_targets(what, k, count, values);
        if (HasFatalFailure()) return;
      }
  });
}

/// Every length up to beyond the largest block that is handled at once: each way of ending.
TEST_P(Sets, EveryCount) {
  Values values(dtype(), 1, 2);
  for_each_op([&](const Reduce& what) {
    for (std::size_t count = 0; count < 280; count += count < 70 ? 1 : 3) {
      check_all_targets(what, 2, count, values);
      if (HasFatalFailure()) return;
    }
  });
}

/// More sources than are read side by side, and enough elements for the blocks that are then summed group by group.
TEST_P(Sets, ManySources) {
  Values values(dtype(), 1, 4);
  const std::size_t count = 8192 / size_of(dtype()) + 13;
  for_each_op([&](const Reduce& what) {
    for (const std::size_t k : {8, 9, 16, 17, 25}) {
      check_all_targets(what, k, count, values);
      if (HasFatalFailure()) return;
    }
  });
}

/// One result for many places: as when an owner writes the sum over everybody's input, where each of them lies.
TEST_P(Sets, EveryDestination) {
  Values values(dtype(), 1, 5);
  const std::size_t count = 8192 / size_of(dtype()) + 13;
  for_each_op([&](const Reduce& what) {
    for (const std::size_t k : {2, 3, 8, 17}) {
      std::vector<Buffer> buffers;
      for (std::size_t q = 0; q < k + 1; q++) buffers.push_back(values.source(count, q % 4 * size_of(dtype())));
      auto got = buffers, expected = buffers;
      const auto places = [&](std::vector<Buffer>& in) {
        std::vector<void*> at;
        for (std::size_t q = 0; q < in.size(); q++) at.push_back(in[q].data() + q % 4 * size_of(dtype()));
        return at;
      };
      const auto dst = places(got), wanted = places(expected);
      const std::vector<const void*> src(dst.begin(), dst.begin() + static_cast<std::ptrdiff_t>(k));
      const std::vector<const void*> same(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(k));
      set().reduce(what, std::span<void* const>(dst), src, count);
      reduce_reference(what, std::span<void* const>(wanted), same, count);
      ASSERT_EQ(got, expected) << set().name << " " << name_of(what.op) << " of " << name_of(what.dtype) << " k " << k;
    }
  });
}

/// Stores around the caches, aligned or not.
TEST_P(Sets, Streaming) {
  Values values(dtype(), 1, 6);
  const std::size_t count = 80000 / size_of(dtype()) + 13;  // past one turn at several places, not a multiple of one
  for_each_op([&](Reduce what) {
    for (const std::size_t shift : {0, 1, 5}) {
      std::vector<Buffer> sources;
      for (int q = 0; q < 3; q++) sources.push_back(values.source(count, 0));
      std::vector<const void*> src;
      for (const Buffer& s : sources) src.push_back(s.data());
      const std::size_t bytes = count * size_of(dtype());
      alignas(64) static std::byte got[2][81024];
      std::vector<std::byte> expected(bytes), again(bytes);
      void* const dst[] = {got[0] + shift * size_of(dtype()), got[1]};
      what.around = 1;  // the first, but not the other
      what.far = true;
      set().reduce(what, dst, src, count);
      void* const wanted[] = {expected.data(), again.data()};
      reduce_reference(what, wanted, src, count);
      for (void* const d : dst)
        ASSERT_EQ(std::memcmp(d, expected.data(), bytes), 0) << set().name << " " << name_of(what.op) << " " << shift;
    }
  });
}

/// In place from and to memory, at several places and asked for ahead: as many sources and destinations as there are loops of their own for, and others.
TEST_P(Sets, FromMemoryInPlace) {
  Values values(dtype(), 1, 8);
  const std::size_t count = 80000 / size_of(dtype()) + 13;
  constexpr std::pair<std::size_t, std::size_t> kCases[] = {{2, 1}, {2, 2}, {3, 3}, {4, 4}, {8, 8}};
  for_each_op([&](Reduce what) {
    what.far = true;
    for (const auto& [k, dsts] : kCases) {
      std::vector<Buffer> got;
      for (std::size_t q = 0; q < k; q++) got.push_back(values.source(count, 0));
      std::vector<Buffer> expected = got;
      std::vector<void*> dst, wanted;
      for (std::size_t q = 0; q < k; q++) dst.push_back(got[q].data()), wanted.push_back(expected[q].data());
      const std::vector<const void*> src(dst.begin(), dst.end()), same(wanted.begin(), wanted.end());
      set().reduce(what, std::span(dst).first(dsts), src, count);
      reduce_reference(what, std::span(wanted).first(dsts), same, count);
      ASSERT_EQ(got, expected) << set().name << " " << name_of(what.op) << " of " << name_of(dtype()) << " k " << k;
    }
  });
}

/// More destinations than a mask has bits, at all distances from an aligned address.
TEST_P(Sets, StreamingToMany) {
  Values values(dtype(), 1, 7);
  const std::size_t count = 700;
  const std::size_t bytes = count * size_of(dtype());
  const Buffer a = values.source(count, 0), b = values.source(count, 0);
  const std::vector<const void*> src{a.data(), b.data()};
  std::vector<Buffer> expected(1, Buffer(bytes));
  const Reduce plain{dtype(), supports(ReduceOp::sum, dtype()) ? ReduceOp::sum : ReduceOp::bor, 1};
  void* const wanted[] = {expected[0].data()};
  reduce_reference(plain, wanted, src, count);
  for (const bool aligned : {true, false})
    for (const std::uint32_t around : {~0U, 1U << 31, 0x80000001U, 6U}) {
      std::vector<Buffer> results(40, Buffer(bytes + 256));
      std::vector<void*> dst;
      for (std::size_t j = 0; j < results.size(); j++) {
        const auto start = reinterpret_cast<std::uintptr_t>(results[j].data());
        dst.push_back(results[j].data() + (64 - start % 64) % 64 + (aligned ? 0 : j % 5 * size_of(dtype())));
      }
      Reduce what = plain;
      what.around = around;
      what.far = true;
      set().reduce(what, dst, src, count);
      for (std::size_t j = 0; j < dst.size(); j++)
        ASSERT_EQ(std::memcmp(dst[j], expected[0].data(), bytes), 0) << set().name << " " << around << " " << j;
    }
}

/// Every special value against every other, on both sides.
TEST_P(Sets, EveryPairOfSpecials) {
  const auto special = specials(dtype());
  const std::size_t n = special.size() * special.size();
  std::vector<Buffer> buffers(4, Buffer(n * size_of(dtype()), kGuardByte));
  for (std::size_t i = 0; i < n; i++) {
    put(buffers[0], dtype(), i * size_of(dtype()), special[i / special.size()]);
    put(buffers[1], dtype(), i * size_of(dtype()), special[i % special.size()]);
  }
  for_each_op([&](const Reduce& what) { check(set(), {what, 2, n, {0, 0, 0, 0}, Target::separate}, buffers); });
}

class FloatingSets : public Sets {};

/// A NaN in any one place of any one source reaches exactly that element of the result.
TEST_P(FloatingSets, NanAtEveryPosition) {
  Values values(dtype(), 0, 3);
  const std::uint64_t nan = specials(dtype())[5];
  constexpr std::size_t kCount = 133;
  for_each_op([&](const Reduce& what) {
    for (std::size_t q = 0; q < 3; q++)
      for (std::size_t i = 0; i < kCount; i++) {
        Case c{what, 3, kCount, {0, 0, 0, 0, 0}, Target::separate};
        std::vector<Buffer> buffers;
        for (int b = 0; b < 5; b++) buffers.push_back(values.source(kCount, 0));
        put(buffers[q], dtype(), i * size_of(dtype()), nan);
        check(set(), c, buffers);
        if (HasFatalFailure()) return;
      }
  });
}

std::string set_name(const testing::TestParamInfo<Sets::ParamType>& info) {
  return std::string(std::get<0>(info.param)->name) + "_" + std::string(name_of(std::get<1>(info.param)));
}
std::vector<const KernelSet*> vector_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet& set : kernel_sets())
    if (std::string(set.name) != "scalar") sets.push_back(&set);
  return sets;
}
std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypes; i++) types.push_back(static_cast<DType>(i));
  return types;
}
std::vector<DType> floating_types() { return {DType::f16, DType::bf16, DType::f32, DType::f64}; }
INSTANTIATE_TEST_SUITE_P(All, Sets, testing::Combine(testing::ValuesIn(vector_sets()), testing::ValuesIn(all_types())),
                         set_name);
INSTANTIATE_TEST_SUITE_P(All, FloatingSets,
                         testing::Combine(testing::ValuesIn(vector_sets()), testing::ValuesIn(floating_types())),
                         set_name);
// Elsewhere than on x86 and Arm the reference is all there is.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Sets);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FloatingSets);

/// Every value of the narrow floats through the conversions of the kernels themselves, both ways.
TEST(SetsConvert, EveryHalf) {
  std::vector<std::uint16_t> all(65536), got(65536), expected(65536);
  for (std::size_t i = 0; i < all.size(); i++) all[i] = static_cast<std::uint16_t>(i);
  const void* src[] = {all.data()};
  for (const KernelSet& set : kernel_sets())
    for (const DType dtype : {DType::f16, DType::bf16}) {
      set.reduce({dtype, ReduceOp::sum, 1}, got.data(), nullptr, src, all.size());
      reduce_reference({dtype, ReduceOp::sum, 1}, expected.data(), nullptr, src, all.size());
      ASSERT_EQ(got, expected) << set.name << " " << name_of(dtype);
    }
}

/// Every f16 plus a tiny or an equal one: results between two f16s, denormal ones and overflow included, are rounded to
/// even.
TEST(SetsConvert, EveryRounding) {
  std::vector<std::uint16_t> all(65536), other(65536), got(65536), expected(65536);
  for (std::size_t i = 0; i < all.size(); i++) all[i] = static_cast<std::uint16_t>(i);
  const void* src[] = {all.data(), other.data()};
  for (const KernelSet& set : kernel_sets())
    for (const DType dtype : {DType::f16, DType::bf16})
      for (const std::uint32_t distance : {0u, 1u, 0x400u, 0x2c00u, 0x8000u, 0x8123u})
        for (const std::int32_t divisor : {1, 3, 4096}) {
          for (std::size_t i = 0; i < all.size(); i++) other[i] = static_cast<std::uint16_t>(i - distance);
          set.reduce({dtype, ReduceOp::avg, divisor}, got.data(), nullptr, src, all.size());
          reduce_reference({dtype, ReduceOp::avg, divisor}, expected.data(), nullptr, src, all.size());
          ASSERT_EQ(got, expected) << set.name << " " << name_of(dtype) << " " << distance << " / " << divisor;
        }
}

/// Every narrow float plus every other, by each set and the next: what the best one adds by instructions of its own is what f32 sums are rounded to. (The last
/// vector set against the reference: above.)
TEST(SetsConvert, EverySumOfTwo) {
#ifdef __OPTIMIZE__
  const bool every = test::long_suite();
  const std::size_t kAll = every ? 1 : 7, kSome = every ? 61 : 251;
#else
  constexpr std::size_t kAll = 251, kSome = 1021;
#endif
  const auto sets = vector_sets();
  std::vector<std::uint16_t> all(65536), other(65536), got(65536), expected(65536);
  for (std::size_t i = 0; i < all.size(); i++) all[i] = static_cast<std::uint16_t>(i);
  const void* src[] = {all.data(), other.data()};
  for (std::size_t s = 0; s + 1 < sets.size(); s++)
    for (const DType dtype : {DType::f16, DType::bf16})
      for (std::size_t value = 0; value < all.size(); value += s == 0 ? kAll : kSome) {
        std::fill(other.begin(), other.end(), static_cast<std::uint16_t>(value));
        sets[s]->reduce({dtype, ReduceOp::sum, 1}, got.data(), nullptr, src, all.size());
        sets[s + 1]->reduce({dtype, ReduceOp::sum, 1}, expected.data(), nullptr, src, all.size());
        ASSERT_EQ(got, expected) << sets[s]->name << ", " << sets[s + 1]->name << ": " << name_of(dtype) << " + "
                                 << value;
      }
}

#ifdef __SSE2__
/// A thread that flushes denormals (torch.set_flush_denormal) gets the same f16 as others: by none of the ways are they f32 denormals.
TEST(SetsConvert, F16OfThreadsThatFlushDenormals) {
  std::vector<std::uint16_t> all(65536), other(65536), got(65536), expected(65536);
  for (std::size_t i = 0; i < all.size(); i++) {
    all[i] = static_cast<std::uint16_t>(i);
    other[i] = static_cast<std::uint16_t>(i * 40503 + 0x8001);
  }
  const void* src[] = {all.data(), other.data()};
  const unsigned before = _mm_getcsr();
  for (const KernelSet* set : vector_sets()) {
    reduce_reference({DType::f16, ReduceOp::sum, 1}, expected.data(), nullptr, src, all.size());
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON | 0x40);  // and denormals are zero
    set->reduce({DType::f16, ReduceOp::sum, 1}, got.data(), nullptr, src, all.size());
    _mm_setcsr(before);
    EXPECT_EQ(got, expected) << set->name;
  }
}
#endif

TEST(KernelSets, AreChosenByName) {
  const auto sets = kernel_sets();
  ASSERT_FALSE(sets.empty());
  EXPECT_STREQ(sets.back().name, "scalar");
  for (const KernelSet& set : sets) EXPECT_EQ(&choose_kernel_set(set.name), &set);
  EXPECT_EQ(&choose_kernel_set(""), &sets.front());
  EXPECT_EQ(&choose_kernel_set("no such set"), &sets.front());
}

TEST(KernelSets, TheOneInUseIsOneOfThem) { EXPECT_STREQ(choose_kernel_set(kernel_set()).name, kernel_set()); }

TEST(KernelSets, HaveExactlyWhatIsSupported) {
  for (const KernelSet& set : kernel_sets())
    for (int op = 0; op < kReduceOps; op++)
      for (int dtype = 0; dtype < kDTypes; dtype++)
        EXPECT_EQ(set.table->reduce[op][dtype] != nullptr,
                  supports(static_cast<ReduceOp>(op), static_cast<DType>(dtype)))
            << set.name << " " << op << " " << dtype;
}

}  // namespace
}  // namespace unisono::kernels
