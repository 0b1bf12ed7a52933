#pragma once
/// What the groups of one process share.

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/memory_binder.h"
#include "base/process_mark.h"
#include "engine/domain.h"
#include "engine/messenger.h"
#include "engine/wait_cycles.h"
#include "group/adopter.h"
#include "group/buffer_checks.h"
#include "group/buffers.h"
#include "group/progress.h"
#include "group/scratch.h"
#include "rendezvous/host_identity.h"
#include "transport/transports.h"
#include "unisono/config.hpp"

namespace unisono::detail {

/// What can be known to be wrong with them before anybody is met.
Status check_settings(const Config& config);

/// Thread-safety: any thread. Lives as long as a group (or the Context) refers to it; its end is a goodbye to all peers. In a forked child nothing of it
/// works, and its end does nothing: peers, connections and shared memory are its parent's.
class ContextImpl {
 public:
  /// `hub`: ranks are threads of this process. Throws what went wrong. The last reference may go on the progress thread (a
  /// callback that drops a group): that thread cannot wait for its own end, so another one then does.
  static std::shared_ptr<ContextImpl> create(Config config, std::shared_ptr<transport::InprocHub> hub,
                                             std::shared_ptr<MemoryBinder> binder = make_memory_binder());
  ContextImpl(Config config, std::shared_ptr<transport::InprocHub> hub, std::shared_ptr<MemoryBinder> binder);
  ~ContextImpl();
  ContextImpl(const ContextImpl&) = delete;
  ContextImpl& operator=(const ContextImpl&) = delete;

  /// The transport for peers on other hosts, made when it is first needed. `addresses` of the interfaces to listen on.
  Result<std::size_t> tcp(const std::vector<std::string>& addresses);

  /// The ranks of a group on this host, this one at `place` among them, may run on these processors each (none: nobody knows); together they share
  /// all of these, as each may be bound to one. How waits are, and where this rank comes back to (group::seat_of), follows from the group that has the most
  /// ranks here. Whether the seat that this one has in this group is the one that it comes back to.
  bool share_cores(std::size_t place, std::span<const std::vector<int>> processors_of);

  /// Memory that the program asks to have shared, whatever was done about it without being asked. The errors of RegistrationImpl::create.
  Result<std::shared_ptr<RegistrationImpl>> register_buffer(void* data, std::size_t bytes) const;

  /// An operation on [data, data + bytes) has failed, and a peer that has not noticed may still write there: the program gets pages of its own with the same contents,
  /// whatever kind of shared memory it is. What is returned must live until the peer has noticed; none where no peer writes.
  std::vector<std::shared_ptr<const void>> take_over(const void* data, std::size_t bytes) const noexcept;

  /// The most ranks of a group of this process that are on this host; at least 1.
  int ranks_here() const;

  /// Keep the domain of a group that has ended until its peers have read what is on its stage.
  void retire(std::unique_ptr<engine::Domain> domain, std::uint64_t group);
  /// Give back the stages that nobody reads any more.
  void sweep();

  const ProcessMark process;
  Config config;
  Logger log;
  SteadyClock clock;
  PeerId self;
  rendezvous::HostIdentity host;
  bool threads = false;            ///< ranks are threads
  std::optional<MemoryHome> home;  ///< the NUMA node that this rank is on, if the host has several
  bool spread = false;             ///< over several of them: what is registered would come to lie on one
  std::shared_ptr<HandshakeFactory> handshake;
  std::shared_ptr<transport::InprocHub> hub;
  std::unique_ptr<transport::Poller> poller;
  std::unique_ptr<engine::Messenger> messenger;
  std::shared_ptr<transport::SharedSegment> segment;  ///< null when shared memory is not to be used
  std::unique_ptr<engine::StagePool> stages;          ///< likewise; of the segment
  std::shared_ptr<BufferPool> buffers;
  std::shared_ptr<group::BufferChecks> checks;  ///< null unless UNISONO_DEBUG=buffers
  group::ScratchPool scratch;
  std::unique_ptr<Adopter> adopter;
  std::size_t shared_transport = 0;
  std::unique_ptr<group::Progress> progress;
  std::unique_ptr<engine::WaitCycles> cycles;

 private:
  Result<std::unique_ptr<transport::Transport>> wrap(Result<std::unique_ptr<transport::Transport>> made) const;
  mutable std::mutex mutex_;
  struct Retired {
    std::unique_ptr<engine::Domain> domain;
    std::uint64_t group = 0;
  };
  std::vector<Retired> retired_;
  std::optional<std::size_t> tcp_;
  int most_ranks_ = 0;       ///< that share the cores, of all groups so far
  std::optional<int> seat_;  ///< in the group of those
};

}  // namespace unisono::detail
