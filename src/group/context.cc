#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/debug_modes.h"
#include "base/run_report.h"
#include "group/context_impl.h"
#include "group/home_node.h"
#include "group/only_thread.h"
#include "group/registration.h"
#include "plan/cost_model.h"
#include "rendezvous/job_handshake.h"

namespace unisono::detail {

using transport::Setup;
using transport::Transport;

namespace {
Setup setup_for(const ContextImpl& c, std::vector<std::string> addresses) {
  Setup setup;
  setup.self = c.self;
  setup.handshake = c.handshake;
  setup.interface_addresses = std::move(addresses);
  setup.tcp_congestion = c.config.tcp_congestion;
  setup.log = c.log;
  setup.segment_bytes = segment_address_space();
  setup.peer_memory = c.config.peer_memory;
  setup.home = c.home;
  return setup;
}
}  // namespace

Status check_settings(const Config& config) {
  if (!config.transport.empty() && config.transport != "shm" && config.transport != "tcp")
    return Status::invalid(
        fmt::format("UNISONO_TRANSPORT is \"{}\"; it can be shm, tcp, or empty for the best", config.transport));
  if (config.tcp_streams < 0 || config.tcp_streams > engine::Sharing::kMostStreams)
    return Status::invalid(fmt::format("UNISONO_TCP_STREAMS is {}; it can be 1 to {}, or 0: chosen", config.tcp_streams,
                                       engine::Sharing::kMostStreams));
  if (const auto constants = plan::parse_cost_model(config.constants); !constants)
    return constants.status().with_context("UNISONO_CONSTANTS");
  if (const auto secret = rendezvous::Secret::parse(config.secret); !secret) return secret.status();
  return parse_debug_modes(config.debug).status();
}

std::shared_ptr<ContextImpl> ContextImpl::create(Config config, std::shared_ptr<transport::InprocHub> hub,
                                                 std::shared_ptr<MemoryBinder> binder) {
  return {new ContextImpl(std::move(config), std::move(hub), std::move(binder)), [](ContextImpl* context) {
            if (!context->process.here()) return;  // what it holds is its parent's: kept for good
            if (context->progress->on_its_thread())
              std::thread([context] { delete context; }).detach();
            else
              delete context;
          }};
}

ContextImpl::ContextImpl(Config c, std::shared_ptr<transport::InprocHub> h, std::shared_ptr<MemoryBinder> binder)
    : config(std::move(c)),
      log(Logger().with_prefix(fmt::format("rank {}", config.rank))),
      self(random_peer_id()),
      host(value_or_throw(rendezvous::this_host())),
      threads(h != nullptr),
      hub(std::move(h)),
      poller(transport::make_epoll_poller()) {
  report_to_run();
  throw_status(check_settings(config));
  const auto secret = value_or_throw(rendezvous::Secret::parse(config.secret));
  handshake = rendezvous::make_handshake_factory(self, config.job, secret);
  const HomeNode here = home_node(config, log);
  if (here.node) home = MemoryHome{*here.node, std::move(binder)};
  spread = here.spread;
  std::vector<std::unique_ptr<Transport>> transports;
  if (threads) {
    transports.push_back(value_or_throw(wrap(hub->make(setup_for(*this, {}), *poller))));
  } else if (config.transport != "tcp") {
    auto shm = wrap(transport::find_transport("shm")->make(setup_for(*this, {}), *poller));
    if (shm)
      transports.push_back(std::move(shm).value());
    else if (config.transport == "shm")
      throw_status(shm.status());
    else
      log.warn(fmt::format("no shared memory, ranks on this host will talk over tcp: {}", shm.status().message()));
  }
  if (!transports.empty()) segment = transports.front()->segment();
  if (segment != nullptr) stages = std::make_unique<engine::StagePool>(*segment);
  buffers = std::make_shared<BufferPool>(segment);
  if (value_or_throw(parse_debug_modes(config.debug)).buffers) {
    log.info("operations run on copies of their buffers, which takes time and memory (UNISONO_DEBUG=buffers)");
    checks = std::make_shared<group::BufferChecks>(buffers, segment, log);
  }
  // Copies do not come back.
  adopter =
      std::make_unique<Adopter>(config.share_memory && checks == nullptr && segment != nullptr && !threads && !spread);
  messenger = std::make_unique<engine::Messenger>(self, std::move(transports), *poller, clock, log);
  if (segment != nullptr)
    messenger->lend(segment, [this](const void* data, std::size_t bytes) { return take_over(data, bytes); });
  messenger->use_streams(engine::Sharing{config.tcp_streams});
  cycles = std::make_unique<engine::WaitCycles>(*messenger, clock, self, log, [this] {
    if (threads) return true;  // the others are other ranks
    return config.only_thread != nullptr ? config.only_thread() : group::is_only_thread();
  });
  progress = std::make_unique<group::Progress>(*messenger, *poller, clock,
                                               engine::wait_policy(engine::usable_cores(), 1, config.spin),
                                               std::make_unique<group::Apart>(*messenger, segment, self, clock, log));
}

ContextImpl::~ContextImpl() {
  progress.reset();
  // Peers that read "goodbye" know that we did not die. Long enough for a queue to drain to a living peer, no longer.
  messenger->leave(saturating_add(clock.now(), std::chrono::seconds(2)));
}

bool ContextImpl::share_cores(std::size_t place, std::span<const std::vector<int>> processors_of) {
  const std::lock_guard lock(mutex_);
  const int ranks = static_cast<int>(processors_of.size());
  const auto seat = group::seat_of(place, processors_of);
  if (ranks <= most_ranks_) return seat && seat == seat_;
  most_ranks_ = ranks;
  seat_ = seat;
  std::set<int> processors;
  for (const auto& one : processors_of) processors.insert(one.begin(), one.end());
  const int cores =
      processors.empty() ? engine::usable_cores() : engine::within_quota(static_cast<int>(processors.size()));
  progress->set_policy(engine::wait_policy(cores, ranks, config.spin), seat);
  if (seat)
    log.debug(
        fmt::format("{} ranks share {} processors: this one waits on processor {}", ranks, processors.size(), *seat));
  return seat.has_value();
}

Result<std::shared_ptr<RegistrationImpl>> ContextImpl::register_buffer(void* data, std::size_t bytes) const {
  if (auto handed_over = adopter->hand_over(static_cast<std::byte*>(data), bytes)) return handed_over;
  return RegistrationImpl::create(*this, data, bytes);
}

std::vector<std::shared_ptr<const void>> ContextImpl::take_over(const void* data, std::size_t bytes) const noexcept {
  std::vector<std::shared_ptr<const void>> kept;
  if (segment == nullptr || data == nullptr || bytes == 0) return kept;
  const std::shared_ptr<transport::RegisteredMemory> registered = segment->find(data, bytes).registered;
  if (registered != nullptr) kept.push_back(registered);  // before the Adopter lets go of it
  adopter->withdraw(data, bytes);
  if (registered != nullptr) registered->take_over();
  if (auto allocation = buffers->find(data)) {
    allocation->take_over();
    kept.push_back(std::move(allocation));
  }
  return kept;
}

int ContextImpl::ranks_here() const {
  const std::lock_guard lock(mutex_);
  return std::max(1, most_ranks_);
}

void ContextImpl::retire(std::unique_ptr<engine::Domain> domain, std::uint64_t group) {
  scratch.trim();
  if (domain == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back({std::move(domain), group});
  }
  sweep();
}

void ContextImpl::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(retired_, [&](const Retired& r) { return r.domain->reclaim(messenger->gone(r.group)); });
}

Result<std::unique_ptr<Transport>> ContextImpl::wrap(Result<std::unique_ptr<Transport>> made) const {
  if (!made || config.fault.empty()) return made;
  auto faults = transport::parse_faults(config.fault);
  if (!faults) return faults.status().with_context("UNISONO_FAULT");
  faults->seed += static_cast<std::uint64_t>(config.rank) * 1000003;
  log.warn(fmt::format("transport {} is made faulty on purpose: {}", (*made)->name(), config.fault));
  return transport::make_faulty(std::move(made).value(), *faults, clock);
}

Result<std::size_t> ContextImpl::tcp(const std::vector<std::string>& addresses) {
  const std::lock_guard lock(mutex_);
  if (tcp_) return *tcp_;
  auto made = wrap(transport::find_transport("tcp")->make(setup_for(*this, addresses), *poller));
  if (!made) return made.status();
  tcp_ = messenger->transports();
  messenger->add_transport(std::move(made).value());
  return *tcp_;
}

}  // namespace unisono::detail
