#pragma once
/// Memory that the other ranks on this host can reach: collectives on it copy nothing.

#include <cstddef>
#include <memory>
#include <span>

#include "unisono/export.hpp"

namespace unisono {

namespace detail {
class Allocation;
}

/// Memory from Group::allocate or Context::allocate. Use it, or any part of it, as the input or output of collectives: where
/// the buffers of all ranks that need be are such memory, ranks on one host read and write them directly. Elsewhere it is
/// ordinary memory, so a program need not ask.
///
/// Page-aligned, from 2 MiB up on huge pages where the system has them. Contents are
/// not defined at first. May outlive its group and context. After fork() a child has a copy of its own (as of memory that is registered:
/// registration.hpp); only the parent gives the memory back.
///
/// When a collective fails, no other rank touches its buffers after the call has thrown. Where a rank neither notices the failure nor dies
/// within a second (because it is stopped, say), a Buffer that took part gets other pages with the same contents at the same address: it is
/// ordinary memory from then on (shared() is false), and the log says so.
///
/// Thread-safety: different Buffers from any thread; one Buffer as any value.
class UNISONO_API Buffer {
 public:
  Buffer() = default;  ///< empty
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();  ///< gives the memory back; no operation may be using it

  std::byte* data() const noexcept;
  std::size_t size() const noexcept;  ///< in bytes, as asked for
  /// Whether other ranks on this host can reach it; false where shared memory is not used (UNISONO_TRANSPORT=tcp), and after the failure above.
  bool shared() const noexcept;
  /// As elements of T; a rest too small for one is left out.
  template <class T>
  std::span<T> span() const noexcept {
    return {reinterpret_cast<T*>(data()), size() / sizeof(T)};
  }
  explicit operator bool() const noexcept { return impl_ != nullptr; }

 private:
  friend class Group;
  friend class Context;
  explicit Buffer(std::shared_ptr<detail::Allocation> impl);
  std::shared_ptr<detail::Allocation> impl_;
};

}  // namespace unisono
