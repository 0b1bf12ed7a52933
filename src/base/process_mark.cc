#include "base/process_mark.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace unisono {

namespace {

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

/// A page of zeros in every child; nullptr where the kernel has no such pages (before Linux 4.14).
void* wiped_page() noexcept {
  void* page = ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, page_bytes(), MADV_WIPEONFORK) == 0) return page;
  ::munmap(page, page_bytes());
  return nullptr;
}

}  // namespace

ProcessMark::ProcessMark() noexcept : page_(nullptr), pid_(::getpid()) {
  if (void* page = wiped_page()) page_ = new (page) std::atomic<unsigned>(1);
}

ProcessMark::~ProcessMark() {
  if (page_ != nullptr) ::munmap(page_, page_bytes());
}

bool ProcessMark::same_pid() const noexcept { return ::getpid() == pid_; }

Status ProcessMark::check(const std::string& what) const {
  if (here()) return {};
  return Status::invalid(
      fmt::format("{} was made by process {}, and this is process {}, a forked child of it: only the parent can use "
                  "it. Hand the data to the parent (a pipe, multiprocessing.Queue) and make the call there",
                  what, pid_, ::getpid()));
}

}  // namespace unisono
