/// Ranks as threads: the same channels as between processes, met through memory instead of unix sockets.

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>

#include "transport/dialing.h"
#include "transport/inproc/pipe.h"
#include "transport/poller.h"
#include "transport/transports.h"

namespace unisono::transport {

namespace inproc {
namespace {

using namespace std::chrono_literals;
constexpr Duration kHandshakeTime = 20s;

class Hub final : public InprocHub, public std::enable_shared_from_this<Hub> {
 public:
  Result<std::unique_ptr<Transport>> make(const Setup& setup, Poller& poller) override;
  void kill(const PeerId& peer) override;

  void enter(const std::string& address, const std::shared_ptr<Node>& node) {
    const std::lock_guard lock(mutex_);
    nodes_[address] = node;
  }
  void leave(const std::string& address) {
    const std::lock_guard lock(mutex_);
    nodes_.erase(address);
  }
  std::shared_ptr<Node> find(const std::string& address) {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(address);
    return found == nodes_.end() || found->second->dead() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Node>> nodes_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(const Setup& setup, EpollPoller& poller, std::shared_ptr<Hub> hub, std::shared_ptr<Node> node)
      : setup_(setup),
        poller_(poller),
        hub_(std::move(hub)),
        node_(std::move(node)),
        address_("inproc-" + to_string(setup.self)) {
    poller_.announce_in(node_->segment->header().parked);
    hub_->enter(address_, node_);
  }
  ~InprocTransport() override {
    hub_->leave(address_);
    poller_.forget(node_->segment->header().parked);
    for (auto& talk : talks_) hang_up(talk);
    // Ends of links that are closed but whose peer still reads: hanging up tells it that we are gone too.
    for (auto& line : lines_)
      if (line.channel->closed()) line.pipe->close(line.side);
    node_->retire();
  }

  std::string_view name() const noexcept override { return "inproc"; }
  std::string address() const override { return address_; }
  void dial(const PeerId& peer, const std::string& address, TimePoint deadline) override {
    Dial dial;
    dial.to = peer;
    dial.address = address;
    dial.deadline = deadline;
    dials_.push_back(std::move(dial));
    next_ = TimePoint{};
  }
  void poll(TimePoint now, std::vector<Event>& events) override;
  void attach(Poller&) override {}  // everything comes through the doorbell
  std::shared_ptr<SharedSegment> segment() noexcept override { return node_->segment; }
  /// News come without a descriptor: they are due at once.
  TimePoint next_deadline() const noexcept override { return node_->noticed() ? TimePoint{} : next_; }

 private:
  /// A handshake in progress, then the exchange of memory.
  struct Talk {
    std::shared_ptr<Pipe> pipe;
    int side;
    Greeting greeting;
    TimePoint deadline;
    std::optional<Dial> dial;
    std::shared_ptr<shm::Channel> channel;  ///< from the end of the handshake on
  };
  struct Line {
    std::shared_ptr<Pipe> pipe;
    int side;
    PeerId peer;
    std::shared_ptr<shm::Channel> channel;
  };

  void try_dials(TimePoint now, std::vector<Event>& events);
  void put_back(Dial dial, std::string reason, TimePoint now, std::vector<Event>& events);
  bool advance(Talk& talk, TimePoint now, std::vector<Event>& events);
  bool greeted(Talk& talk, TimePoint now, std::vector<Event>& events);
  void establish(Talk& talk, Gift gift, std::vector<Event>& events);
  void end_talk(Talk& talk, const std::string& reason, bool final, TimePoint now, std::vector<Event>& events);
  void hang_up(Talk& talk);
  void look_after_lines();
  void plan_next();

  Setup setup_;
  EpollPoller& poller_;
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Node> node_;
  std::string address_;
  std::vector<Dial> dials_;
  std::list<Talk> talks_;
  std::list<Line> lines_;
  TimePoint next_ = TimePoint::max();
};

void InprocTransport::poll(TimePoint now, std::vector<Event>& events) {
  if (!node_->take_notice() && now < next_) return;
  if (node_->dead()) {
    next_ = TimePoint::max();
    return;
  }
  std::vector<Knock> knocks;
  std::vector<PeerId> deaths;
  node_->take(knocks, deaths);
  for (Knock& knock : knocks) {
    node_->tie(knock.pipe, 1, {});
    talks_.push_back(
        {std::move(knock.pipe), 1, Greeting(setup_.handshake->accept()), saturating_add(now, kHandshakeTime), {}, {}});
  }
  try_dials(now, events);
  std::erase_if(talks_, [&](Talk& talk) { return advance(talk, now, events); });
  look_after_lines();
  for (const PeerId& peer : deaths) {
    Event event;
    event.kind = Event::Kind::died;
    event.peer = peer;
    events.push_back(std::move(event));
  }
  plan_next();
}

void InprocTransport::plan_next() {
  next_ = TimePoint::max();
  for (const Talk& talk : talks_) next_ = std::min(next_, talk.deadline);
  for (const Dial& dial : dials_) next_ = std::min(next_, dial.next_try);
}

void InprocTransport::try_dials(TimePoint now, std::vector<Event>& events) {
  std::vector<Dial> due;
  std::erase_if(dials_, [&](Dial& dial) {
    if (now < dial.next_try) return false;
    due.push_back(std::move(dial));
    return true;
  });
  for (Dial& dial : due) {
    const auto callee = hub_->find(dial.address);
    if (!callee) {
      put_back(std::move(dial), "no such thread", now, events);
      continue;
    }
    auto pipe = std::make_shared<Pipe>(node_, callee);
    node_->tie(pipe, 0, {});
    callee->knock({pipe});
    Greeting greeting(setup_.handshake->dial(dial.to));
    talks_.push_back(
        {std::move(pipe), 0, std::move(greeting), saturating_add(now, kHandshakeTime), std::move(dial), {}});
  }
}

void InprocTransport::put_back(Dial dial, std::string reason, TimePoint now, std::vector<Event>& events) {
  dial.again(now, std::move(reason));
  if (!dial.hopeless(now)) {
    dials_.push_back(std::move(dial));
    return;
  }
  Event event;
  event.kind = Event::Kind::failed;
  event.peer = dial.to;
  event.status = dial.give_up("inproc", "is that thread running?");
  events.push_back(std::move(event));
}

/// True when the talk is over, one way or the other.
bool InprocTransport::advance(Talk& talk, TimePoint now, std::vector<Event>& events) {
  if (!talk.channel) {
    PipeWire wire(*talk.pipe, talk.side);
    const auto state = talk.greeting.pump(wire);
    if (state == Greeting::State::rejected || state == Greeting::State::dropped) {
      end_talk(talk, talk.greeting.reason(), state == Greeting::State::rejected, now, events);
      return true;
    }
    if (state == Greeting::State::done && greeted(talk, now, events)) return true;
  }
  if (talk.channel) {
    if (auto gift = talk.pipe->take_gift(talk.side)) {
      establish(talk, std::move(*gift), events);
      return true;
    }
    if (talk.pipe->peer_closed(talk.side)) {
      end_talk(talk, "it hung up", false, now, events);
      return true;
    }
  }
  if (now < talk.deadline) return false;
  end_talk(talk, "no complete handshake in time", false, now, events);
  return true;
}

/// Hands our memory over; true when that failed and the talk is over.
bool InprocTransport::greeted(Talk& talk, TimePoint now, std::vector<Event>& events) {
  const PeerId peer = talk.greeting.peer();
  if (talk.dial && peer != talk.dial->to) {
    end_talk(talk, fmt::format("the process there is {}", to_string(peer)), true, now, events);
    return true;
  }
  auto channel = shm::Channel::create(node_->segment, std::min<std::uint64_t>(setup_.ring_bytes, 512 << 10));
  if (!channel) {
    end_talk(talk, channel.status().message(), true, now, events);
    return true;
  }
  talk.channel = std::move(channel).value();
  talk.pipe->give(talk.side, {node_->segment, node_->doorbell, talk.channel->block()});
  return false;
}

void InprocTransport::establish(Talk& talk, Gift gift, std::vector<Event>& events) {
  Event event;
  event.peer = talk.greeting.peer();
  event.dialed = talk.dial.has_value();
  event.status = talk.channel->bind(shm::PeerView::of(std::move(gift.segment), std::move(gift.doorbell)), gift.block);
  if (!event.status) {
    event.kind = event.dialed ? Event::Kind::failed : Event::Kind::rejected;
    hang_up(talk);
    events.push_back(std::move(event));
    return;
  }
  node_->tie(talk.pipe, talk.side, talk.channel);
  lines_.push_back({talk.pipe, talk.side, event.peer, talk.channel});
  // The node is told as well as the peer: there may be something to clean up on this side.
  auto hang_up = [pipe = talk.pipe, side = talk.side, node = node_] {
    pipe->close(side);
    node->notify();
  };
  event.link = std::make_unique<shm::MemoryLink>(
      talk.channel, fmt::format("inproc to {}", to_string(event.peer).substr(0, 8)), std::move(hang_up));
  events.push_back(std::move(event));
}

void InprocTransport::hang_up(Talk& talk) {
  if (talk.channel) talk.channel->close();
  node_->untie(talk.pipe);
  talk.pipe->close(talk.side);
}

void InprocTransport::end_talk(Talk& talk, const std::string& reason, bool final, TimePoint now,
                               std::vector<Event>& events) {
  hang_up(talk);
  if (talk.dial && !final) {
    ++talk.dial->dropped;
    put_back(std::move(*talk.dial), reason, now, events);
    return;
  }
  Event event;
  event.kind = talk.dial ? Event::Kind::failed : Event::Kind::rejected;
  if (talk.dial) event.peer = talk.dial->to;
  event.status = Status::authentication(
      fmt::format("inproc: {}: {}", talk.dial ? talk.dial->address : "refused a caller", reason));
  events.push_back(std::move(event));
}

void InprocTransport::look_after_lines() {
  std::erase_if(lines_, [&](Line& line) {
    if (!line.pipe->peer_closed(line.side)) return false;
    line.channel->mark_gone();
    if (!line.channel->closed()) return false;
    node_->untie(line.pipe);
    line.channel->release();
    return true;
  });
}

Result<std::unique_ptr<Transport>> Hub::make(const Setup& setup, Poller& poller) {
  auto* ours = dynamic_cast<EpollPoller*>(&poller);
  if (!ours) return Status::internal("inproc: needs a poller made by make_epoll_poller()");
  auto segment = shm::Segment::create(setup.segment_bytes, setup.log, setup.home);
  if (!segment) return segment.status().with_context("inproc");
  auto node = std::make_shared<Node>(setup.self, std::move(segment).value(), ours->doorbell());
  return std::unique_ptr<Transport>(
      std::make_unique<InprocTransport>(setup, *ours, shared_from_this(), std::move(node)));
}

void Hub::kill(const PeerId& peer) {
  std::shared_ptr<Node> victim;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, node] : nodes_)
      if (node->id == peer) victim = node;
  }
  if (victim) victim->die();
}

}  // namespace
}  // namespace inproc

std::shared_ptr<InprocHub> InprocHub::create() { return std::make_shared<inproc::Hub>(); }

}  // namespace unisono::transport
