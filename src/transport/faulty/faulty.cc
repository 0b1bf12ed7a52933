/// The decorator: passes everything through, and wraps every link.

#include <algorithm>
#include <list>

#include "transport/faulty/link.h"
#include "transport/transports.h"

namespace unisono::transport {

namespace faulty {
namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, Faults faults, const Clock& clock)
      : inner_(std::move(inner)), faults_(faults), clock_(clock), seeds_(faults.seed) {}
  ~FaultyTransport() override {
    for (const auto& held : held_) held->flush(TimePoint::max());  // late is not lost, as far as there is room
  }

  std::string_view name() const noexcept override { return inner_->name(); }
  std::string address() const override { return inner_->address(); }
  void dial(const PeerId& peer, const std::string& address, TimePoint deadline) override {
    inner_->dial(peer, address, deadline);
  }
  int paths(const std::string& address) const noexcept override { return inner_->paths(address); }
  void poll(TimePoint now, std::vector<Event>& events) override {
    const std::size_t before = events.size();
    inner_->poll(now, events);
    for (std::size_t i = before; i < events.size(); ++i)
      if (events[i].link) wrap(events[i]);
    // The injected clock dated the bytes, so it says when they are due.
    flush(clock_.now());
  }
  void attach(Poller& poller) override { inner_->attach(poller); }
  std::shared_ptr<SharedSegment> segment() noexcept override { return inner_->segment(); }
  TimePoint next_deadline() const noexcept override {
    TimePoint next = inner_->next_deadline();
    for (const auto& held : held_) next = std::min(next, held->next_flush());
    return next;
  }

 private:
  void wrap(Event& event) {
    held_.push_back(std::make_shared<Held>(std::move(event.link)));
    event.link = std::make_unique<FaultyLink>(held_.back(), faults_, seeds_.next(), clock_);
  }
  void flush(TimePoint now) {
    std::erase_if(held_, [&](const std::shared_ptr<Held>& held) {
      if (!held->over()) held->flush(now);
      return held->over();
    });
  }

  std::unique_ptr<Transport> inner_;
  Faults faults_;
  const Clock& clock_;
  Random seeds_;
  std::list<std::shared_ptr<Held>> held_;
};

}  // namespace
}  // namespace faulty

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, Faults faults, const Clock& clock) {
  return std::make_unique<faulty::FaultyTransport>(std::move(inner), faults, clock);
}

}  // namespace unisono::transport
