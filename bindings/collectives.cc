/// The collectives: arguments as Python gives them, checked, into one Call. What they mean stands in docs.h.

#include <nanobind/stl/string.h>

#include "docs.h"
#include "group.h"
#include "numbers.h"
#include "operation.h"
#include "work.h"

namespace unisono::python {
namespace {

/// The arguments that every collective has.
struct Common {
  bool async_op;
  nb::handle timeout, algorithm;
};

/// Prepare an operation and run it, returning what `prepare` returned (the result, or None), or start it, returning a
/// Work.
template <class Prepare>
nb::object perform(const PyGroup& self, const char* name, const Common& common, Prepare prepare) {
  if (!common.async_op) {
    Operation op(self, name, common.timeout, common.algorithm);
    nb::object result = prepare(op);
    op.bind_buffers();
    op.run();
    self.state()->sweep();
    return result.is_valid() ? result : nb::none();
  }
  auto op = std::make_unique<Operation>(self, name, common.timeout, common.algorithm);
  const nb::object result = prepare(*op);
  op->bind_buffers();
  op->require_asynchronous(result.is_valid());
  Work work;
  {
    const GilReleased release;
    work = op->group.start(op->call);
  }
  self.state()->sweep();
  return nb::cast(PyWork(std::move(work), std::move(op), self.state()));
}

nb::object all_reduce(const PyGroup& self, nb::handle x, nb::handle op, nb::handle out, bool async_op,
                      nb::handle timeout, nb::handle algorithm) {
  if (is_number(x))
    return reduce_number(self, Collective::all_reduce, "all_reduce", x, 0, op, out, async_op, timeout, algorithm);
  return perform(self, "all_reduce", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::all_reduce;
    o.call.op = parse_op(op, o.name);
    if (out.is_none() || out.is(x)) {
      o.in_place(x);
    } else {
      o.read(x);
      o.write(out);
      o.require_same_dtype();
      o.require_count(o.out, "out", o.x.count(), "as many as x");
    }
    o.call.count = o.x.count();
    return nb::object();
  });
}

nb::object reduce(const PyGroup& self, nb::handle x, int root, nb::handle op, nb::handle out, bool async_op,
                  nb::handle timeout, nb::handle algorithm) {
  if (is_number(x))
    return reduce_number(self, Collective::reduce, "reduce", x, root, op, out, async_op, timeout, algorithm);
  return perform(self, "reduce", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::reduce;
    o.call.op = parse_op(op, o.name);
    o.call.root = root;
    if (o.group.rank() != root) {
      o.read(x);
    } else if (out.is_none() || out.is(x)) {
      o.in_place(x);
    } else {
      o.read(x);
      o.write(out);
      o.require_same_dtype();
      o.require_count(o.out, "out", o.x.count(), "as many as x");
    }
    o.call.count = o.x.count();
    return nb::object();
  });
}

nb::object broadcast(const PyGroup& self, nb::handle x, int root, bool async_op, nb::handle timeout,
                     nb::handle algorithm) {
  return perform(self, "broadcast", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::broadcast;
    o.call.root = root;
    if (o.group.rank() == root)
      o.read(x);
    else
      o.in_place(x);
    o.call.count = o.x.count();
    return nb::object();
  });
}

/// all_gather, and gather at its root: parts of x's size, or of `counts`, into out or into a new array that is returned
/// as a list.
nb::object collect(Operation& o, nb::handle x, nb::handle out, nb::handle counts) {
  if (!out.is_none()) o.write_parts(out);
  const auto sum = o.take_uneven(counts, o.out, "out");
  const bool uneven = sum.has_value();
  if (uneven) {
    if (o.call.collective == Collective::gather && counts.is_none())
      refuse(o.name, ": the arrays of out differ in size, which the other ranks cannot know; give counts on all ranks");
    const int rank = o.group.rank();
    o.require_count(o.x, "x", o.counts[static_cast<std::size_t>(rank)],
                    counts.is_none() ? "as many as out[" + std::to_string(rank) + "], this rank's"
                                     : "counts[" + std::to_string(rank) + "], this rank's");
  } else {
    o.call.count = o.x.count();
  }
  const std::int64_t total = uneven ? *sum : o.times_ranks(o.x.count());
  if (!out.is_none()) {
    o.require_same_dtype();
    o.require_count(o.out, "out", total, uneven ? "the sum of counts" : "the number of ranks times the elements of x");
    return {};
  }
  nb::object shape = uneven ? nb::object(nb::make_tuple(total)) : nb::make_tuple(o.ranks) + shape_of(x, o.x);
  const nb::object all = allocate_like(x, o.x, shape, o.name);
  o.write(all);
  nb::list parts;
  std::int64_t at = 0;
  for (int i = 0; i < o.ranks; i++) {
    if (!uneven) {
      parts.append(all[nb::make_tuple(i, nb::ellipsis())]);  // a view also where x has no dimension
      continue;
    }
    const std::int64_t end = at + o.counts[static_cast<std::size_t>(i)];
    parts.append(all[nb::slice(at, end)]);
    at = end;
  }
  return parts;
}

nb::object all_gather(const PyGroup& self, nb::handle x, nb::handle out, nb::handle counts, bool async_op,
                      nb::handle timeout, nb::handle algorithm) {
  return perform(self, "all_gather", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::all_gather;
    o.read(x);
    return collect(o, x, out, counts);
  });
}

nb::object gather(const PyGroup& self, nb::handle x, nb::handle out, int root, nb::handle counts, bool async_op,
                  nb::handle timeout, nb::handle algorithm) {
  return perform(self, "gather", {async_op, timeout, algorithm}, [&](Operation& o) -> nb::object {
    o.call.collective = Collective::gather;
    o.call.root = root;
    o.read(x);
    if (o.group.rank() == root) return collect(o, x, out, counts);
    if (!counts.is_none()) {
      o.take_counts(counts, "counts", o.counts);
      const int rank = o.group.rank();
      o.require_count(o.x, "x", o.counts[static_cast<std::size_t>(rank)],
                      "counts[" + std::to_string(rank) + "], this rank's");
    } else {
      o.call.count = o.x.count();
    }
    return {};
  });
}

nb::object scatter(const PyGroup& self, nb::handle x, nb::handle out, int root, nb::handle counts, bool async_op,
                   nb::handle timeout, nb::handle algorithm) {
  return perform(self, "scatter", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::scatter;
    o.call.root = root;
    o.write(out);
    if (o.group.rank() == root) o.read_parts(x);
    std::int64_t total = 0;
    if (!counts.is_none()) {
      total = *o.take_uneven(counts, o.x, "x");
      const int rank = o.group.rank();
      o.require_count(o.out, "out", o.counts[static_cast<std::size_t>(rank)],
                      "counts[" + std::to_string(rank) + "], this rank's");
    } else {
      o.call.count = o.out.count();
      total = o.times_ranks(o.out.count());
      for (const std::int64_t count : o.x.part_counts())
        if (count != o.out.count())
          refuse(o.name, ": an array of x has ", count, " elements and out ", o.out.count(),
                 "; where parts differ in size, give counts on all ranks");
    }
    if (o.group.rank() == root) {
      o.require_same_dtype();
      o.require_count(o.x, "x", total,
                      counts.is_none() ? "the number of ranks times the elements of out" : "the sum of counts");
    }
    return nb::object();
  });
}

/// The shape of one of n equal parts of x along its first dimension.
nb::object shape_of_part(const Operation& o, nb::handle x) {
  const nb::tuple shape = shape_of(x, o.x);
  const auto first = nb::len(shape) == 0 ? std::int64_t{0} : nb::cast<std::int64_t>(shape[0]);
  if (nb::len(shape) == 0 || first % o.ranks != 0)
    refuse(o.name, ": x has shape ", text_of(shape), ", whose first dimension does not divide by the ", o.ranks,
           " ranks; give out");
  return nb::make_tuple(first / o.ranks) +
         nb::borrow(shape)[nb::slice(std::int64_t{1}, static_cast<std::int64_t>(nb::len(shape)))];
}

nb::object reduce_scatter(const PyGroup& self, nb::handle x, nb::handle out, nb::handle op, nb::handle counts,
                          bool async_op, nb::handle timeout, nb::handle algorithm) {
  return perform(self, "reduce_scatter", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::reduce_scatter;
    o.call.op = parse_op(op, o.name);
    o.read_parts(x);
    const auto total = o.take_uneven(counts, o.x, "x");
    const bool uneven = total.has_value();
    const auto rank = static_cast<std::size_t>(o.group.rank());
    if (uneven) o.require_count(o.x, "x", *total, "the sum of counts");
    const std::int64_t own = uneven ? o.counts[rank] : 0;
    nb::object result;
    if (out.is_none() && o.x.is_list()) {
      const nb::object part = x[rank];
      result = allocate_like(part, o.x, part.attr("shape"), o.name);
    } else if (out.is_none()) {
      result = allocate_like(x, o.x, uneven ? nb::object(nb::make_tuple(own)) : shape_of_part(o, x), o.name);
    }
    o.write(out.is_none() ? nb::handle(result) : out);
    o.require_same_dtype();
    if (uneven) {
      o.require_count(o.out, "out", own, "counts[" + std::to_string(o.group.rank()) + "], this rank's");
    } else {
      o.call.count = o.out.count();
      o.require_count(o.x, "x", o.times_ranks(o.out.count()), "the number of ranks times the elements of out");
    }
    return result;
  });
}

/// all_to_all from a list into a list. The sizes always travel as counts: whether they are equal
/// differs by rank.
nb::object exchange_lists(Operation& o, nb::handle out, nb::handle counts, nb::handle output_counts) {
  if (!counts.is_none() || !output_counts.is_none())
    refuse(o.name, ": x is a list, whose arrays say how much goes to whom; leave counts and output_counts out");
  o.write_parts(out);
  if (!o.out.is_list()) refuse(o.name, ": x is a list of arrays and out is none; give lists for both");
  o.require_same_dtype();
  o.counts = o.x.part_counts();
  o.output_counts = o.out.part_counts();
  const auto me = static_cast<std::size_t>(o.group.rank());
  if (o.counts[me] != o.output_counts[me])
    refuse(o.name, ": x[", me, "] has ", o.counts[me], " elements and out[", me, "] ", o.output_counts[me],
           "; what a rank sends to itself is as long as what it gets");
  return {};
}

nb::object all_to_all(const PyGroup& self, nb::handle x, nb::handle out, nb::handle counts, nb::handle output_counts,
                      bool async_op, nb::handle timeout, nb::handle algorithm) {
  return perform(self, "all_to_all", {async_op, timeout, algorithm}, [&](Operation& o) {
    o.call.collective = Collective::all_to_all;
    o.read_parts(x);
    if (o.x.is_list()) return exchange_lists(o, out, counts, output_counts);
    std::int64_t received = o.x.count();
    if (counts.is_none() != output_counts.is_none()) refuse(o.name, ": give both counts and output_counts, or neither");
    if (!counts.is_none()) {
      o.require_count(o.x, "x", o.take_counts(counts, "counts", o.counts), "the sum of counts");
      received = o.take_counts(output_counts, "output_counts", o.output_counts);
    } else {
      if (o.x.count() % o.ranks != 0)
        refuse(o.name, ": x has ", o.x.count(), " elements, which do not divide by the ", o.ranks,
               " ranks; give counts and output_counts");
      o.call.count = o.x.count() / o.ranks;
    }
    nb::object result;
    if (out.is_none())
      result = allocate_like(
          x, o.x, counts.is_none() ? nb::object(shape_of(x, o.x)) : nb::object(nb::make_tuple(received)), o.name);
    o.write(out.is_none() ? nb::handle(result) : out);
    o.require_same_dtype();
    o.require_count(o.out, "out", received, counts.is_none() ? "as many as x" : "the sum of output_counts");
    return result;
  });
}

nb::object barrier(const PyGroup& self, bool async_op, nb::handle timeout, nb::handle algorithm) {
  return perform(self, "barrier", {async_op, timeout, algorithm}, [](Operation& o) {
    o.call.collective = Collective::barrier;
    return nb::object();
  });
}

/// One way to call a collective, as a type checker sees it.
struct Overload {
  const char* parameters;
  bool asynchronous;
  const char* result;
};

/// Bind `f` once for each overload. The first always takes the call; the others are there for the stub.
template <class F, class... Args>
void def(nb::class_<PyGroup>& cls, const char* name, F f, const char* doc, std::initializer_list<Overload> overloads,
         const Args&... args) {
  using namespace nb::literals;
  for (const Overload& o : overloads) {
    const std::string signature = std::string("def ") + name + "(self, " + o.parameters +
                                  "async_op: " + (o.asynchronous ? "Literal[True]" : "Literal[False] = False") +
                                  ", timeout: Seconds = None, algorithm: str | None = None) -> " + o.result;
    const auto bind = [&](const auto&... extra) {
      cls.def(name, f, args..., "async_op"_a = false, "timeout"_a = nb::none(), "algorithm"_a = nb::none(),
              nb::sig(signature.c_str()), extra...);
    };
    if (&o == overloads.begin())
      bind(doc);
    else
      bind();
  }
}

}  // namespace

void register_collectives(nb::class_<PyGroup>& cls) {
  using namespace nb::literals;
  const auto none = nb::none();
  const nb::kw_only named;
  def(cls, "all_reduce", &all_reduce, docs::kAllReduce,
      {{"x: Array, op: Op = 'sum', *, out: Array | None = None, ", false, "None"},
       {"x: Array, op: Op = 'sum', *, out: Array | None = None, ", true, "Work"},
       {"x: Number, op: Op = 'sum', *, out: None = None, ", false, "Number"}},
      "x"_a.none(), "op"_a = "sum", named, "out"_a = none);
  def(cls, "reduce", &reduce, docs::kReduce,
      {{"x: Array, root: int = 0, op: Op = 'sum', *, out: Array | None = None, ", false, "None"},
       {"x: Array, root: int = 0, op: Op = 'sum', *, out: Array | None = None, ", true, "Work"},
       {"x: Number, root: int = 0, op: Op = 'sum', *, out: None = None, ", false, "Number | None"}},
      "x"_a.none(), "root"_a = 0, "op"_a = "sum", named, "out"_a = none);
  def(cls, "broadcast", &broadcast, docs::kBroadcast,
      {{"x: Array, root: int = 0, *, ", false, "None"}, {"x: Array, root: int = 0, *, ", true, "Work"}},  //
      "x"_a.none(), "root"_a = 0, named);
  def(cls, "all_gather", &all_gather, docs::kAllGather,
      {{"x: Array, out: None = None, *, counts: Counts = None, ", false, "list[Any]"},
       {"x: Array, out: Parts, *, counts: Counts = None, ", false, "None"},
       {"x: Array, out: Parts, *, counts: Counts = None, ", true, "Work"}},
      "x"_a.none(), "out"_a = none, named, "counts"_a = none);
  def(cls, "gather", &gather, docs::kGather,
      {{"x: Array, out: None = None, root: int = 0, *, counts: Counts = None, ", false, "list[Any] | None"},
       {"x: Array, out: Parts, root: int = 0, *, counts: Counts = None, ", false, "None"},
       {"x: Array, out: Parts | None = None, root: int = 0, *, counts: Counts = None, ", true, "Work"}},
      "x"_a.none(), "out"_a = none, "root"_a = 0, named, "counts"_a = none);
  def(cls, "scatter", &scatter, docs::kScatter,
      {{"x: Parts | None, out: Array, root: int = 0, *, counts: Counts = None, ", false, "None"},
       {"x: Parts | None, out: Array, root: int = 0, *, counts: Counts = None, ", true, "Work"}},
      "x"_a.none(), "out"_a.none(), "root"_a = 0, named, "counts"_a = none);
  def(cls, "reduce_scatter", &reduce_scatter, docs::kReduceScatter,
      {{"x: Parts, out: None = None, op: Op = 'sum', *, counts: Counts = None, ", false, "Any"},
       {"x: Parts, out: Array, op: Op = 'sum', *, counts: Counts = None, ", false, "None"},
       {"x: Parts, out: Array, op: Op = 'sum', *, counts: Counts = None, ", true, "Work"}},
      "x"_a.none(), "out"_a = none, "op"_a = "sum", named, "counts"_a = none);
  def(cls, "all_to_all", &all_to_all, docs::kAllToAll,
      {{"x: Parts, out: None = None, *, counts: Counts = None, output_counts: Counts = None, ", false, "Any"},
       {"x: Parts, out: Parts, *, counts: Counts = None, output_counts: Counts = None, ", false, "None"},
       {"x: Parts, out: Parts, *, counts: Counts = None, output_counts: Counts = None, ", true, "Work"}},
      "x"_a.none(), "out"_a = none, named, "counts"_a = none, "output_counts"_a = none);
  def(cls, "barrier", &barrier, docs::kBarrier, {{"*, ", false, "None"}, {"*, ", true, "Work"}}, named);
}

}  // namespace unisono::python
