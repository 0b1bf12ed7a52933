#include "transport/inproc/pipe.h"

#include <algorithm>
#include <cerrno>

#include "transport/fence.h"
#include "transport/poller.h"

namespace unisono::transport::inproc {

void Node::notify() noexcept {
  notice_.store(true, std::memory_order_release);
  full_fence();
  if (segment->header().parked.load(std::memory_order_relaxed) != 0) ring(*doorbell);
}

void Node::knock(const Knock& knock) {
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    refused = retired_;
    if (!refused) knocks_.push_back(knock);
  }
  if (refused) return knock.pipe->close(1);
  notify();
}

void Node::retire() {
  std::vector<Tie> ties;
  std::vector<Knock> knocks;
  {
    const std::lock_guard lock(mutex_);
    retired_ = true;
    ties.swap(ties_);
    knocks.swap(knocks_);
  }
  for (const Knock& knock : knocks) knock.pipe->close(1);
}

void Node::tell_death(const PeerId& peer) {
  {
    const std::lock_guard lock(mutex_);
    if (std::find(deaths_.begin(), deaths_.end(), peer) == deaths_.end()) deaths_.push_back(peer);
  }
  notify();
}

void Node::take(std::vector<Knock>& knocks, std::vector<PeerId>& deaths) {
  const std::lock_guard lock(mutex_);
  knocks.swap(knocks_);
  deaths.swap(deaths_);
}

void Node::tie(const std::shared_ptr<Pipe>& pipe, int side, std::weak_ptr<shm::Channel> channel) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ties_, [&](const Tie& tie) { return tie.pipe == pipe; });
  ties_.push_back({pipe, side, std::move(channel)});
}

void Node::untie(const std::shared_ptr<Pipe>& pipe) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ties_, [&](const Tie& tie) { return tie.pipe == pipe; });
}

void Node::die() {
  dead_.store(true, std::memory_order_release);
  std::vector<Tie> ties;
  std::vector<Knock> knocks;
  {
    const std::lock_guard lock(mutex_);
    retired_ = true;
    ties.swap(ties_);
    knocks.swap(knocks_);
  }
  for (const Tie& tie : ties) {
    const auto channel = tie.channel.lock();
    if (channel) channel->sever();
    tie.pipe->close(tie.side);
    if (channel) tie.pipe->node(1 - tie.side)->tell_death(id);
  }
  for (const Knock& knock : knocks) knock.pipe->close(1);
  notify();
}

Io Pipe::send(int side, std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    End& other = end(1 - side);
    if (other.closed || end(side).closed) return {Io::State::failed, 0, EPIPE};
    other.arrived.insert(other.arrived.end(), bytes.begin(), bytes.end());
  }
  node(1 - side)->notify();
  return {Io::State::ok, bytes.size(), 0};
}

Io Pipe::peek(int side, std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  End& own = end(side);
  const std::size_t n = std::min(into.size(), own.arrived.size());
  if (n == 0 && end(1 - side).closed) return {Io::State::closed, 0, 0};
  std::copy_n(own.arrived.begin(), n, into.begin());
  return {Io::State::ok, n, 0};
}

void Pipe::consume(int side, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& arrived = end(side).arrived;
  arrived.erase(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, arrived.size())));
}

void Pipe::give(int side, Gift gift) {
  {
    const std::lock_guard lock(mutex_);
    end(1 - side).gift = std::move(gift);
  }
  node(1 - side)->notify();
}

std::optional<Gift> Pipe::take_gift(int side) {
  const std::lock_guard lock(mutex_);
  return std::exchange(end(side).gift, std::nullopt);
}

void Pipe::close(int side) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(end(side).closed, true)) return;
  }
  node(1 - side)->notify();
}

bool Pipe::peer_closed(int side) {
  const std::lock_guard lock(mutex_);
  return end(1 - side).closed;
}

}  // namespace unisono::transport::inproc
