/// Joining a group through a store.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/caches.h"
#include "base/host_topology.h"
#include "group/exchange.h"
#include "group/group_impl.h"
#include "group/join_report.h"
#include "group/links.h"
#include "group/tuned.h"
#include "rendezvous/answer_by.h"
#include "rendezvous/claim.h"
#include "rendezvous/interface.h"
#include "tuning/topology.h"
#include "unisono/version.hpp"

namespace unisono::detail {

using nlohmann::json;

namespace {

constexpr int kProtocol = 4;

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

/// What is appended to the selection table. In shared memory every algorithm folds in rank order anyhow.
std::string selection_of(const Config& config) {
  if (!config.deterministic) return config.algorithm;
  return config.algorithm + (config.algorithm.empty() ? "" : ";") +
         "all_reduce@net:0-=direct;reduce@net:0-=direct;reduce_scatter@net:0-=direct";
}

/// What this rank tells the others.
json introduce(const ContextImpl& c, const engine::Domain* domain) {
  json j{{"protocol", kProtocol},
         {"peer", to_string(c.self)},
         {"identity", rendezvous::to_text(c.host)},
         {"host", c.host.host},
         {"pid", c.host.pid},
         {"processor", tuning::this_processor()},
         {"cores", engine::usable_cores()},
         {"cpus", ranges_text(usable_cpus())},
         {"interfaces", 1 + std::count(c.config.interface.begin(), c.config.interface.end(), ',')},
         {"transport", c.config.transport},
         {"algorithms", selection_of(c.config)},
         {"deterministic", c.config.deterministic}};
  if (c.home) j["node"] = c.home->node;
  if (domain != nullptr) {
    j["shm"] = c.messenger->transport(c.shared_transport).address();
    j["control"] = domain->control_offset();
  }
  return j;
}

struct Introduction {
  PeerId peer;
  rendezvous::HostIdentity identity;
  std::string shm, transport;
  std::uint64_t control = 0;
  int interfaces = 1;
  std::vector<int> cpus;  ///< that it may run on
  tuning::Place place;
  bool deterministic = false;
  Member member;
};

Result<Introduction> parse(const std::string& text, int rank) {
  try {
    const json j = json::parse(text);
    if (j.at("protocol").get<int>() != kProtocol)
      return Status::invalid(
          fmt::format("rank {} runs another version of unisono (protocol {}, here {}): install one version everywhere",
                      rank, j.at("protocol").get<int>(), kProtocol));
    Introduction i;
    auto peer = parse_peer_id(j.at("peer").get<std::string>());
    if (!peer) return peer.status();
    auto identity = rendezvous::parse_host_identity(j.at("identity").get<std::string>());
    if (!identity) return identity.status();
    i.peer = *peer;
    i.identity = *identity;
    i.shm = j.value("shm", "");
    i.control = j.value("control", std::uint64_t{0});
    i.interfaces = j.value("interfaces", 1);
    i.cpus = parse_ranges(j.value("cpus", ""));
    i.transport = j.at("transport").get<std::string>();
    i.member.host = j.at("host").get<std::string>();
    i.member.pid = j.at("pid").get<std::int64_t>();
    i.member.node = j.value("node", -1);
    i.deterministic = j.value("deterministic", false);
    i.place = {i.member.host, j.value("processor", "unknown"), j.value("cores", 1), 0, i.member.node};
    i.member.algorithms = j.at("algorithms").get<std::string>();
    return i;
  } catch (const json::exception& e) {
    return Status::invalid(fmt::format("what rank {} published cannot be read: {}", rank, e.what()));
  }
}

bool shares_memory(const ContextImpl& c, const Introduction& a, const Introduction& b) {
  if (a.shm.empty() || b.shm.empty()) return false;
  return c.threads || rendezvous::same_host_and_network(a.identity, b.identity);
}

/// A number for everybody, the same for those that share memory.
std::vector<int> number_machines(const ContextImpl& c, const std::vector<Introduction>& all) {
  std::vector<int> numbers;
  int next = 0;
  for (std::size_t r = 0; r < all.size(); r++) {
    std::size_t first = 0;
    while (first < r && !shares_memory(c, all[first], all[r])) first++;
    numbers.push_back(first < r ? numbers[first] : next++);
  }
  return numbers;
}

/// All of them; an error names the first rank whose text cannot be read.
Result<std::vector<Introduction>> parse_all(const std::vector<std::string>& texts) {
  std::vector<Introduction> all;
  for (std::size_t r = 0; r < texts.size(); r++) {
    auto one = parse(texts[r], static_cast<int>(r));
    if (!one) return one.status();
    all.push_back(std::move(one).value());
  }
  return all;
}

bool all_on_one_host(const std::vector<Introduction>& all) {
  return std::all_of(all.begin(), all.end(), [&](const Introduction& i) {
    return rendezvous::same_host_and_network(i.identity, all[0].identity);
  });
}

/// What measured rules are true of.
std::string topology_of(const ContextImpl& c, const Parts& parts, const std::vector<Introduction>& all) {
  const std::vector<int> machines = number_machines(c, all);
  std::vector<tuning::Place> places;
  for (std::size_t r = 0; r < all.size(); r++) {
    places.push_back(all[r].place);
    places.back().machine = machines[r];
  }
  std::string over = parts.transport;
  // Containers of one host may bear its name: what is true between them is not true of ranks that meet in one.
  if ((over == "tcp" || over == "mixed") && all_on_one_host(all)) over += " within one host";
  if (all[0].interfaces > 1) over += fmt::format(", {} interfaces", all[0].interfaces);
  return tuning::describe(version(), over, places);
}

/// The same decision on every rank, from the same introductions.
Status decide_transport(const ContextImpl& c, Parts& parts, const std::vector<Introduction>& all) {
  bool any_shared = false, any_apart = false;
  for (std::size_t a = 0; a < all.size(); a++)
    for (std::size_t b = 0; b < a; b++) (shares_memory(c, all[a], all[b]) ? any_shared : any_apart) = true;
  if (any_apart)
    for (std::size_t r = 0; r < all.size(); r++)
      if (all[r].transport == "shm")
        return Status::invalid(fmt::format(
            "UNISONO_TRANSPORT=shm on rank {}, but not all ranks of group \"{}\" can share memory (other hosts, users, "
            "namespaces, or a rank with another UNISONO_TRANSPORT)",
            r, parts.name));
  parts.transport = all.size() == 1 ? "self" : c.threads ? "inproc" : !any_apart ? "shm" : any_shared ? "mixed" : "tcp";
  return {};
}

/// Ranks that cannot share memory with somebody publish a tcp address, all others an empty one.
Result<std::vector<std::string>> tcp_addresses(ContextImpl& c, Parts& parts, Store& store,
                                               const std::vector<Introduction>& all, const group::Watch& watch,
                                               TimePoint deadline) {
  if (parts.transport != "tcp" && parts.transport != "mixed") return std::vector<std::string>(all.size());
  std::vector<std::string> addresses{"127.0.0.1"};
  if (!all_on_one_host(all)) {
    if (c.config.secret.empty() && !c.config.allow_insecure)
      return Status::invalid(
          "the ranks are on several hosts and have no job secret, so anybody on the network could join: give all of "
          "them one (UNISONO_SECRET or "
          "UNISONO_SECRET_FILE, 64 hexadecimal digits; `unisono run` hands it on), or set UNISONO_ALLOW_INSECURE=1 on "
          "a network that you trust");
    auto chosen = rendezvous::interface_addresses(c.config, c.log);
    if (!chosen) return chosen.status();
    addresses = std::move(chosen).value();
  }
  auto index = c.tcp(addresses);
  if (!index) return index.status();
  const group::Party party{
      store, parts.name + "/tcp", parts.rank, static_cast<int>(all.size()), deadline - c.clock.now(), c.clock,
      watch, parts.server};
  return group::exchange(party, c.messenger->transport(*index).address());
}

/// A time-out names the addresses that were tried: one that other hosts cannot reach is a usual reason.
Status with_addresses(const Status& status, const std::vector<std::string>& tcp, int rank) {
  if (status.code() != Code::timeout) return status;
  std::string tried;
  for (const int q : status.missing())
    if (const std::string& address = tcp[static_cast<std::size_t>(q)]; !address.empty())
      tried += fmt::format("{} rank {} {}", tried.empty() ? "" : ",", q, address);
  if (tried.empty()) return status;
  return Status::timeout(
      fmt::format("{}. Published addresses:{}; rank {} (this one) {}. If one of them is of a network that "
                  "the other cannot reach, set UNISONO_INTERFACE on its host to a better interface",
                  status.message(), tried, rank, tcp[static_cast<std::size_t>(rank)]),
      status.missing());
}

/// That the ranks may run on together, if all are on this host; 0 otherwise.
std::size_t processors_of_host(const std::vector<Introduction>& all) {
  std::set<int> processors;
  if (!all_on_one_host(all)) return 0;
  for (const Introduction& i : all) processors.insert(i.cpus.begin(), i.cpus.end());
  return processors.size();
}

/// Everybody's introduction, and rank 0's word on what was measured; its rules are in parts.tuned.
std::vector<Introduction> introductions(ContextImpl& c, Parts& parts, Store& store, int size, const group::Watch& watch,
                                        Tuned& tuned) {
  const std::string mine = introduce(c, parts.domain.get()).dump();
  if (size == 1) return value_or_throw(parse_all({mine}));
  const auto decide = [&](const std::vector<std::string>& texts) -> std::string {
    const auto all = parse_all(texts);
    Parts layout;
    if (!all || !decide_transport(c, layout, *all).ok()) return {};  // every rank says so itself
    Tuned found = look_for_tuned(c.config, topology_of(c, layout, *all), !all_on_one_host(*all), c.log);
    add_rules_of_one_host(found, c.config, all->size(), processors_of_host(*all), second_cache_bytes());
    return to_text(found);
  };
  const group::Party party{store, parts.name, parts.rank, size, c.config.init_timeout, c.clock, watch, parts.server};
  auto exchanged = value_or_throw(group::exchange_and_decide(party, mine, decide));
  tuned = parse_tuned(exchanged.decision);
  parts.tuned = tuned.rules;
  return value_or_throw(parse_all(exchanged.texts));
}

/// Why there is no use in waiting for connections to `missing`: a rank has reported that it cannot
/// come, or the store is gone with the rank that serves it, before that one has connected. Ranks
/// that have may leave it, and end it.
Status no_use_in_connecting(const Parts& parts, Store& store, int size, group::JoinReport& report,
                            const std::vector<int>& missing) {
  try {
    return report.look();
  } catch (...) {
    if (!parts.server || std::find(missing.begin(), missing.end(), parts.server->rank) == missing.end()) return {};
    const group::Party party{store, parts.name, parts.rank, size, {}, parts.context->clock, {}, parts.server};
    const Status why = group::about_store(party, status_from_current_exception());
    return why.code() == Code::rank_failure ? why : Status();
  }
}

/// `store`: that of `parts`, answering in time.
std::shared_ptr<GroupImpl> join_with(Parts parts, Store& store, int size, TimePoint deadline,
                                     group::JoinReport& report) {
  ContextImpl& c = *parts.context;
  const int rank = parts.rank;
  const group::Watch watch = [&] { return report.look_for_all(); };
  if (c.stages != nullptr && size > 1) parts.domain = value_or_throw(engine::Domain::create(*c.stages, rank, size));

  Tuned tuned;
  std::vector<Introduction> all = introductions(c, parts, store, size, watch, tuned);
  throw_status(decide_transport(c, parts, all));
  if (size > 1) parts.topology = topology_of(c, parts, all);
  const auto tcp = value_or_throw(tcp_addresses(c, parts, store, all, watch, deadline));

  const std::vector<int> machines = number_machines(c, all);
  std::string ids = parts.name;
  std::vector<std::uint64_t> control;
  std::size_t place = 0;                     // among the ranks of this host
  std::vector<std::vector<int>> may_run_on;  // each of them
  for (int r = 0; r < size; r++) {
    Introduction& i = all[static_cast<std::size_t>(r)];
    Member m = i.member;
    m.machine = machines[static_cast<std::size_t>(r)];
    m.shares_memory = r == rank || shares_memory(c, i, all[static_cast<std::size_t>(rank)]);
    if (rendezvous::same_host(i.identity, all[static_cast<std::size_t>(rank)].identity)) {
      if (r < rank) place++;
      may_run_on.push_back(i.cpus);
    }
    if (r != rank) {
      engine::PeerAddress address{i.peer, m.host, m.pid, 0, ""};
      address.transport = m.shares_memory ? c.shared_transport : value_or_throw(c.tcp({}));
      address.address = m.shares_memory ? i.shm : tcp[static_cast<std::size_t>(r)];
      m.peer = c.messenger->add_peer(address);
    }
    ids += to_string(i.peer);
    control.push_back(i.control);
    parts.members.push_back(std::move(m));
  }
  parts.id = hash_text(ids);
  parts.overrides = all[0].member.algorithms;
  parts.deterministic = all[0].deterministic;
  if (c.share_cores(place, may_run_on) && may_run_on.size() == static_cast<std::size_t>(size))
    parts.mates = group::mates_of(place, may_run_on, second_cache_bytes());  // places are ranks then
  const auto watch_missing = [&](const std::vector<int>& missing) {
    return no_use_in_connecting(parts, store, size, report, missing);
  };
  throw_status(with_addresses(connect(parts, control, deadline, watch_missing), tcp, rank));
  auto impl = GroupImpl::create(std::move(parts));
  c.progress->enlist(impl);
  c.cycles->enlist(impl->parts().id, impl);
  if (tuned.measure) {
    tuned = measure_links(*impl, tuned.count_streams);
    impl->adopt(tuned.rules);
  }
  // The last word is the user's; groups of one process share its connections, so the newest group's figure counts.
  if (c.config.tcp_streams == 0 && tuned.streams > 0) c.messenger->use_streams(engine::Sharing{tuned.streams});
  return impl;
}

}  // namespace

std::shared_ptr<GroupImpl> join(const std::shared_ptr<ContextImpl>& context, std::shared_ptr<Store> store, int rank,
                                int size, const std::string& name) {
  if (size < 1) throw InvalidArgument(fmt::format("group \"{}\" of {} ranks: at least one is needed", name, size));
  if (rank < 0 || rank >= size)
    throw InvalidArgument(
        fmt::format("rank {} in group \"{}\" of {}: it must be from 0 to {}", rank, name, size, size - 1));
  context->sweep();
  Parts parts;
  parts.context = context;
  parts.store = store;
  parts.name = name;
  parts.rank = rank;
  if (const auto server = rendezvous::rank_0_serving(*store); server && rank != 0)
    parts.server = group::StoreServer{0, fmt::format("rank 0 of group \"{}\"", name), server->host, server->pid};
  parts.failure = std::make_shared<engine::Failure>();
  const TimePoint deadline = saturating_add(context->clock.now(), context->config.init_timeout);
  const auto asked = rendezvous::in_time(store, saturating_add(deadline, group::kLastAnswers));
  group::JoinReport report(*asked, name, rank, size, context->host.host, context->host.pid);
  try {
    if (size > 1) {
      report.leave_last_words();
      throw_status(report.agree_on_size());
    }
    context->log.info(fmt::format("joining group \"{}\" of {} ranks through the {}", name, size, store->describe()));
    return join_with(std::move(parts), *asked, size, deadline, report);
  } catch (...) {
    if (size > 1) report.publish(status_from_current_exception());
    throw;
  }
}

}  // namespace unisono::detail
