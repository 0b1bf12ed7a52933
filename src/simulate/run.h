#pragma once
/// The simulation under way. Part of the engine of the simulator: engine.cc has slices, steps and processors, messages.cc what goes over links.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "simulate/engine.h"
#include "simulate/event_queue.h"
#include "simulate/fair.h"
#include "simulate/memory.h"

namespace unisono::simulate {

/// What happens next.
enum class Kind : std::uint8_t {
  sent,       ///< a processor has handed a message over
  at_link,    ///< its head is at a link
  arrived,    ///< its last byte is in the receiver's host
  delivered,  ///< a step's message, signal, or own work is done
  freed,      ///< a send is done: what is left of it fits into the buffer
  idle,       ///< a processor has nothing to do: it takes what waits for it
  opened      ///< all ranks are done with a slice: its slot is free (staged plans)
};

constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// Something that will happen: a message under way, or work.
struct Task {
  Kind kind = Kind::sent;
  bool local = false;
  bool held = false;  ///< its head waits at a fair link for the message before it
  std::int32_t node = 0, to = 0, shift = 0;
  std::int32_t slice = 0;
  std::uint32_t op = 0, to_op = 0;
  std::uint32_t hop = 0, links_left = 0;
  std::uint32_t before = kNone, behind = kNone;  ///< messages of the same connection under way, with fair links
  double bytes = 0, head = 0, tail = 0, since = 0, queued = 0, alone = 0, work = 0;
  Path path;
  Route route;  ///< kThrough for fair links that it is through with
};

constexpr LinkId kThrough = ~LinkId{0};

constexpr std::uint32_t kTask = 0;  ///< the version of events that are not a link's

struct Slot {
  std::int32_t slice = -1;
  std::uint32_t left = 0;  ///< steps that are not done
};

struct Ready {
  std::int32_t node, slice;
  std::uint32_t op;
};

/// Work that a busy processor has not begun.
struct Waiting {
  Ready what;
  Path path;
  double since;
};

struct Node {
  double processor = 0, busy = 0;  ///< free from; busy for so long
  std::int32_t next = 0, retired = 0;
  std::int32_t host = 0;
  /// Where memory can be busy: work whose end nobody knows before it begins. Oldest slice first.
  std::vector<Waiting> waiting;
  bool looked_after = false;  ///< an `idle` will come
};

class Run {
 public:
  Run(const Model& model, const World& world, Fabric fabric, Picture picture, const Slicing& slicing);
  Result<Timing> run();

 private:
  std::int32_t class_of(std::int32_t node) const { return node % world_.classes; }
  const Op& op_of(std::int32_t node, std::uint32_t op) const { return world_.ops[world_.first[class_of(node)] + op]; }
  std::uint32_t& need(std::int32_t node, std::int32_t slice, std::uint32_t op) {
    const std::size_t all = world_.ops.size();
    const std::size_t copy = static_cast<std::size_t>(node / world_.classes) * window_ + slice % window_;
    return needs_[copy * all + world_.first[class_of(node)] + op];
  }
  Slot& slot(std::int32_t node, std::int32_t slice) {
    return slots_[static_cast<std::size_t>(node) * window_ + slice % window_];
  }
  /// Bytes of so many blocks on a slice.
  double bytes_of(std::int32_t blocks, std::int32_t slice) const {
    const auto piece = static_cast<double>(slicing_.slice);
    return blocks * std::clamp(slicing_.block - slice * piece, 0.0, piece);
  }

  // ---- the queue
  std::uint32_t new_task();
  std::uint64_t order_of(const Task& t) const {
    return (static_cast<std::uint64_t>(class_of(t.node)) << 44) |
           (static_cast<std::uint64_t>(t.slice & 0xfffff) << 24) | (t.op & 0xffffff);
  }
  void schedule(std::uint32_t index, double time) { events_.push({time, order_of(tasks_[index]), index, kTask}); }
  void happen(std::uint32_t index);
  /// It is one of the next, and with 100 000 ranks what it looks at is in no cache. (Not inline it would be removed: to g++ 12 a function
  /// that only fetches has no effect.)
  [[gnu::always_inline]] void fetch(const Event& event) const {
    if (event.version != kTask) return fair_.fetch(event.task);
    const auto* task = reinterpret_cast<const char*>(&tasks_[event.task]);
    for (std::size_t line = 0; line < sizeof(Task); line += 64) __builtin_prefetch(task + line);
  }
  /// It is the next one: what the task or link leads to.
  [[gnu::always_inline]] void fetch_more(const Event& event) const {
    if (event.version != kTask) return fair_.fetch_more(event.task);
    const Task& task = tasks_[event.task];
    __builtin_prefetch(task.route.data());
    __builtin_prefetch(&nodes_[task.node]);
  }

  // ---- slices and steps
  void start_all();
  void start_slices(std::int32_t v);
  std::uint64_t key(std::int32_t v, std::int32_t slice) const {
    return static_cast<std::uint64_t>(v) * slices_ + slice;
  }
  /// All that became possible at this moment, in the order in which it did.
  void work();
  /// A message or signal for a step is there.
  void satisfy(const Ready& what);
  void begin(const Ready& what);
  void finish(const Ready& what);
  /// Slices end in their order.
  void retire(std::int32_t v);
  void end(std::int32_t v);
  void open_slot(std::int32_t v, std::int32_t slice);

  // ---- processors
  /// When the processor is done with what takes `seconds` and could begin now; `path` is told.
  double reserve(std::int32_t v, double seconds, Path& path);
  void occupy(const Ready& what, double seconds);
  /// The processor is done with `what` at time `end`.
  void complete(const Ready& what, const Path& path, double end);
  /// Seconds that a processor has to do with a step on memory.
  double work_of(const Op& op, std::int32_t slice) const;

  // ---- memory
  void queue_for_memory(const Ready& what);
  void look_after(std::int32_t v);
  void use_memory(const Ready& what, const Path& path);

  // ---- messages
  void signal(const Ready& what, const Target& target);
  void send(const Ready& what, const Op& op);
  double overhead(const Task& t) const;
  void on_sent(std::uint32_t index);
  void finish_later(const Ready& what, double time);
  void on_link(std::uint32_t index);

  // ---- links that serve connections side by side
  /// One number for a pair of ranks; of one host that stands for all, for the pairs that look alike.
  std::uint64_t connection_of(const Task& t) const {
    const auto node = static_cast<std::uint64_t>(t.node), to = static_cast<std::uint64_t>(t.to);
    return picture_ == Picture::whole ? node * nodes_.size() + to
                                      : (node * nodes_.size() + to) * world_.copies + t.shift;
  }
  /// A message takes its place behind those of its connection that are under way, and leaves it.
  void join(std::uint32_t index);
  void leave(std::uint32_t index);
  void enter(std::uint32_t index);
  /// The link where its head is begins with the message; the head goes on to the next one.
  void begin_link(std::uint32_t index);
  /// When the link's next departure will be, after what has come and gone.
  void expect(LinkId link, std::uint64_t order) {
    if (const auto due = fair_.due(link, now_)) events_.push({due->time, order, link, due->version});
  }
  void on_departure(LinkId link);
  /// The receiver takes it in.
  void on_arrived(std::uint32_t index);
  void describe_busiest();

  static constexpr std::uint32_t kOwn = kNone;
  const Model& model_;
  const World& world_;
  Fabric fabric_;
  FairLinks fair_;
  Memory memory_;
  Picture picture_;
  Slicing slicing_;
  std::int32_t slices_ = 1, window_ = 1, copies_ = 1, open_ = 1;
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> needs_;
  std::vector<std::size_t> retired_by_;  ///< staged plans: how many ranks are done with each slice
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> early_;  ///< what came before its slice was begun
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t> last_;  ///< of each connection with messages under way
  EventQueue events_;
  std::vector<Ready> ready_;
  std::size_t next_ready_ = 0;
  std::vector<std::int32_t> start_later_;
  bool starting_ = false;
  double now_ = 0;
  Path path_;  ///< of what is happening
  std::size_t finished_ = 0;
  Timing timing_;
};

}  // namespace unisono::simulate
