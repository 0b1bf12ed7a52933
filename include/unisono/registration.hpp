#pragma once
/// A program's own memory, made reachable for the other ranks on this host: collectives on it copy nothing.

#include <cstddef>
#include <memory>

#include "unisono/export.hpp"

namespace unisono {

namespace detail {
class RegistrationImpl;
}

/// Memory that Group::register_buffer or Context::register_buffer has registered. As long as this lives, collectives on it, or on any part
/// of it, are as quick as on a Buffer; otherwise it stays what it was, at the same addresses, with the same contents.
///
/// Its whole pages are exchanged for pages of shared memory. Bytes beside it that share a page with its first or last ones are neither moved
/// nor shown to anybody. The rules:
/// - While it is registered or released nobody else writes to it, and no operation uses it: what is written meanwhile may be lost.
/// - It is released before it is freed, unmapped or resized. (When that is forgotten, release leaves alone what is not the registered
///   memory any more. Collectives on what lies at its address next notice from Linux 6.11 on; before, they give wrong results.)
/// - It is not memory that a device reads or writes (cudaHostRegister, RDMA): the device would go on with the pages that were exchanged.
/// - fork(): the child has pages of its own, as of all its parent's memory. For that fork() makes one copy, which takes as long as copying does, and which all
///   children share until they write: those that are made before the contents change, too. It is freed when the last of them has ended and the parent begins
///   another operation. Without memory for it the child says so, and is ended by SIGSEGV where it touches what was registered. Children
///   that only exec (posix_spawn, system, vfork) copy nothing. Children that were made around the C library (the bare system call) share it.
/// - Registering takes as long as about six copies of it, releasing three, and both need room for a second one meanwhile: it is for memory
///   that is used often.
///
/// May outlive its group and context. A collective that fails leaves it as it leaves a Buffer (buffer.hpp).
/// Thread-safety: different ones from any thread; one as any value.
class UNISONO_API Registration {
 public:
  Registration() = default;  ///< empty
  Registration(Registration&&) noexcept = default;
  Registration& operator=(Registration&&) noexcept = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();  ///< release()

  /// The memory is private again, with what it contains. Blocks for about three copies of it. Nothing in a forked child, whose copy is
  /// private already. When the system has no memory for that, the log says so and the pages stay shared.
  void release() noexcept;
  /// release() of memory that is about to be freed: what it contains is lost, and nothing is copied.
  void discard() noexcept;
  std::byte* data() const noexcept;
  std::size_t size() const noexcept;  ///< in bytes, as given
  /// Whether other ranks on this host can reach it; false where shared memory is not used (UNISONO_TRANSPORT=tcp), and for memory that
  /// covers no whole page, and after a collective whose failure not all ranks have noticed (buffer.hpp). Such memory works as ever.
  bool shared() const noexcept;
  explicit operator bool() const noexcept { return impl_ != nullptr; }

 private:
  friend class Group;
  friend class Context;
  explicit Registration(std::shared_ptr<detail::RegistrationImpl> impl);
  std::shared_ptr<detail::RegistrationImpl> impl_;
};

}  // namespace unisono
