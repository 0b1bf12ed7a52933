#include "adoption.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Logging.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "world.h"

namespace unisono::torch_backend {
namespace {

constexpr std::size_t kLeast = 256 << 10;       // below, staging costs less than finding out what the memory is
constexpr std::uint64_t kUses = 3;              // what has come back twice will come again
constexpr std::uint64_t kWorth = 128ULL << 20;  // bytes of collectives that pay for registering, whatever the size

using Handle = std::shared_ptr<Adopted>;

void free_adopted(void* context) { delete static_cast<Handle*>(context); }

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Adopted::~Adopted() {
  if (registration_) *total_ -= bytes_;
  registration_.discard();
}

std::shared_ptr<Adopted> Adopted::of(const at::Tensor& t) {
  const c10::DataPtr& memory = t.storage().data_ptr();
  return memory.get_deleter() == &free_adopted ? *static_cast<Handle*>(memory.get_context()) : nullptr;
}

std::shared_ptr<Adopter> Adopter::from_environment() {
  const char* text = std::getenv("UNISONO_SHARE_MEMORY");
  const std::string_view chosen = text == nullptr || *text == '\0' ? "1" : text;
  TORCH_CHECK(chosen == "0" || chosen == "1", "unisono: UNISONO_SHARE_MEMORY=", chosen, " is neither 0 nor 1");
  return std::make_shared<Adopter>(chosen == "1");
}

/// The record takes the memory's place in the storage. The address stays, so whoever reads it meanwhile sees nothing of that.
std::shared_ptr<Adopted> Adopter::record_of(const at::Tensor& t) {
  if (auto known = Adopted::of(t)) return known;
  c10::StorageImpl& storage = *t.storage().unsafeGetStorageImpl();
  c10::DataPtr& memory = storage._mutable_data_ptr_no_checks();
  const bool ordinary = memory.get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter() &&
                        memory.get_context() == memory.get() && memory.device().is_cpu();
  if (!ordinary) return nullptr;
  void* const data = memory.get();
  const c10::Device device = memory.device();
  auto handle = std::make_unique<Handle>();
  *handle = std::make_shared<Adopted>(std::move(memory), storage.nbytes());
  auto made = *handle;
  memory = c10::DataPtr(data, handle.release(), &free_adopted, device);
  return made;
}

std::shared_ptr<void> Adopter::begin(const std::shared_ptr<World>& world, int ranks, const at::Tensor& t,
                                     bool reached) {
  if (!enabled_ || t.storage().nbytes() < kLeast) return nullptr;
  const std::lock_guard lock(mutex_);
  auto record = record_of(t);
  if (record == nullptr || record->refused_) return record;
  // Pages change only while all of the memory is this collective's: nobody else may write to it then, by the rules of all collectives. Known to its storage
  // and here, so to no other one.
  const bool whole = t.nbytes() == record->bytes_, alone = whole && record.use_count() == 2;
  if (record->registration_) {
    if (!alone || (!forks_ && record->world_.lock() == world)) return record;
    record->shared_ = false;
    record->registration_.release();
    record->uses_ = 0;
    *total_ -= record->bytes_;
  }
  if (!reached || forks_ || !whole) return record;
  record->uses_++;
  if (alone && record->uses_ >= kUses && record->uses_ * record->bytes_ >= kWorth) adopt(world, ranks, *record, t);
  return record;
}

void Adopter::adopt(const std::shared_ptr<World>& world, int ranks, Adopted& record, const at::Tensor& t) {
  try {
    if (*total_ + record.bytes_ > machine_memory() / 8 / static_cast<std::uint64_t>(ranks))
      throw SystemError("an eighth of the machine's memory is shared by itself already", ENOMEM);
    TORCH_CHECK(world->context.on_one_node(), "it may lie on several NUMA nodes, and would come to lie on one");
    TORCH_CHECK(!t.is_pinned(), "a device may read or write it (it is pinned)");
    record.registration_ = world->context.register_buffer(record.memory_.get(), record.bytes_);
    record.shared_ = record.registration_.shared();
    record.world_ = world;
    record.total_ = total_;
    *total_ += record.bytes_;
    LOG(INFO) << "unisono: collectives came back to a tensor of " << record.bytes_ << " bytes " << record.uses_
              << " times: its memory is shared with the ranks of this host (UNISONO_SHARE_MEMORY=0 keeps it private)";
  } catch (const SystemError& e) {  // no room, for now
    record.uses_ = 0;
    LOG(INFO) << "unisono: the memory of a tensor of " << record.bytes_ << " bytes is private for now: " << e.what();
  } catch (const std::exception& e) {
    record.refused_ = true;
    LOG(INFO) << "unisono: the memory of a tensor of " << record.bytes_ << " bytes stays private: " << e.what();
  }
}

void Adopter::forked() noexcept {
  const std::lock_guard lock(mutex_);
  if (forks_ || *total_ == 0) return;
  forks_ = true;
  LOG(INFO)
      << "unisono: this process forks, which copies tensors whose memory is shared by itself: they become private";
}

}  // namespace unisono::torch_backend
