/// What ranks of one host share memory with.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/device_memory.h"
#include "base/fd.h"
#include "base/handshake.h"
#include "base/malloc_mapping.h"
#include "base/map_query.h"
#include "cli/doctor_probes.h"
#include "rendezvous/host_identity.h"

namespace unisono::cli {
namespace {

constexpr const char* kGroup = "shared memory";

/// A probe's outcome: empty when it worked, else what failed.
std::string failed(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

std::string try_memfd(Fd& memory) {
  constexpr std::size_t kBytes = 1u << 20;
  memory = Fd(::memfd_create("unisono-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return failed("memfd_create");
  if (::ftruncate(memory.get(), kBytes) != 0) return failed("ftruncate");
  if (::fallocate(memory.get(), 0, 0, kBytes) != 0) return failed("fallocate");
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return failed("mmap");
  std::memset(mapped, 1, kBytes);
  ::munmap(mapped, kBytes);
  return "";
}

std::string try_seals(const Fd& memory) {
  if (!memory) return "there is no memfd to seal";
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return failed("F_ADD_SEALS");
  if (::ftruncate(memory.get(), 0) == 0) return "a sealed memfd could be cut";
  return "";
}

/// Hand a descriptor over, as ranks do with their segments.
std::string try_passing(const Fd& memory) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair");
  const Fd a(ends[0]), b(ends[1]);
  const int sent = memory ? memory.get() : a.get();
  char byte = 'x';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &sent, sizeof sent);
  if (::sendmsg(a.get(), &message, MSG_NOSIGNAL) != 1) return failed("sendmsg with SCM_RIGHTS");
  message.msg_controllen = sizeof control;
  if (::recvmsg(b.get(), &message, MSG_CMSG_CLOEXEC) != 1) return failed("recvmsg with SCM_RIGHTS");
  head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return "the descriptor did not arrive";
  int received = -1;
  std::memcpy(&received, CMSG_DATA(head), sizeof received);
  const Fd owned(received);
  return "";
}

std::string try_abstract_socket() {
  const std::string name = "unisono-doctor-" + to_string(random_peer_id());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || !client) return failed("socket");
  if (::bind(listener.get(), at, length) != 0) return failed("bind");
  if (::listen(listener.get(), 1) != 0) return failed("listen");
  if (::connect(client.get(), at, length) != 0) return failed("connect");
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return failed("SO_PEERCRED");
  return peer.uid == ::geteuid() ? "" : "the kernel names another user as the peer";
}

/// A process whose end is seen through its pidfd.
std::string try_pidfd() {
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) ::_exit(0);
  const Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0u)));
  std::string outcome = fd ? "" : failed("pidfd_open");
  constexpr int kPatience = 5000;
  pollfd p{fd.get(), POLLIN, 0};
  if (fd && ::poll(&p, 1, kPatience) != 1) outcome = "the end of a process was not seen";
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return outcome;
}

/// Read a word of a child's memory.
std::string try_cross_memory() {
  int word = 1;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("pipe2");
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) {  // stays until the pipe ends
    ::close(ends[1]);
    char byte;
    (void)!::read(ends[0], &byte, 1);
    ::_exit(0);
  }
  int copy = 0;
  iovec to{&copy, sizeof copy}, from{&word, sizeof word};
  const ssize_t n = ::process_vm_readv(child, &to, 1, &from, 1, 0);
  const std::string outcome = n == static_cast<ssize_t>(sizeof copy) && copy == 1 ? "" : failed("process_vm_readv");
  writer.reset();
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return outcome;
}

/// Why large arrays are not shared by themselves, or empty (group/adopter.h).
std::string private_memory_stays() {
  if (!MapQuery::open()) return "this system cannot tell quickly what has been freed (Linux 6.11 can)";
  constexpr std::size_t kLarge = 40 << 20;  // more than malloc takes from its heap
  const std::vector<std::byte> large(kLarge);
  if (mapped_by_malloc(large.data()) == 0) return "malloc is not glibc's here, or process_vm_readv is forbidden";
  return device_with_memory();
}

void add(Findings& findings, const char* name, const std::string& failure, const char* works, const char* advice) {
  if (failure.empty())
    findings.push_back({kGroup, name, Health::good, works, ""});
  else
    findings.push_back({kGroup, name, Health::missing, failure, advice});
}

}  // namespace

void examine_shared_memory(Findings& findings) {
  Fd memory;
  add(findings, "memfd", try_memfd(memory), "works", "allow memfd_create in the sandbox's seccomp profile");
  add(findings, "seals", try_seals(memory), "work: nobody can cut memory that others have mapped",
      "memfd needs Linux 3.17 with sealing");
  add(findings, "descriptors", try_passing(memory), "pass through unix sockets", "allow SCM_RIGHTS in the sandbox");
  add(findings, "abstract sockets", try_abstract_socket(), "work, with the peer's user",
      "allow AF_UNIX sockets in the sandbox");
  add(findings, "pidfd", try_pidfd(), "works: the end of a rank is seen at once",
      "pidfd_open needs Linux 5.3 and a seccomp profile that knows it");
  const std::string cross = try_cross_memory();
  std::string scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  findings.push_back(
      {kGroup, "cross memory", Health::note,
       fmt::format("{}{}",
                   cross.empty() ? "process_vm_readv of a child works: what is private may be copied once"
                                 : cross + ": what is private is copied twice",
                   scope.empty() ? "" : ", ptrace_scope " + scope),
       ""});
  const std::string private_for = private_memory_stays();
  findings.push_back({kGroup, "large arrays", Health::note,
                      private_for.empty()
                          ? "are shared by themselves once collectives came back to them, and not copied then"
                          : private_for + ": they are copied, unless they are registered or from Group::allocate",
                      ""});
  const auto here = rendezvous::this_host();
  if (!here)
    findings.push_back({kGroup, "identity", Health::missing, here.status().message(), "mount /proc"});
  else
    findings.push_back({kGroup, "identity",
                        here->pid_namespace != 0 && here->user_namespace != 0 ? Health::good : Health::missing,
                        fmt::format("boot {}, user {}, namespaces pid {} user {} net {}", here->boot_id.substr(0, 8),
                                    here->uid, here->pid_namespace, here->user_namespace, here->net_namespace),
                        here->pid_namespace != 0 && here->user_namespace != 0
                            ? ""
                            : "make /proc/self/ns readable: without it no two ranks count as neighbours"});
}

}  // namespace unisono::cli
