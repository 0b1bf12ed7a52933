/// all_gather of arrays whose lengths only their own ranks know.

#include "docs.h"
#include "group.h"
#include "interrupt.h"
#include "operation.h"

namespace unisono::python {
namespace {

/// What a rank gives: so many rows, each of so many elements.
struct Rows {
  std::int64_t count, length;
};

struct Given {
  nb::tuple shape;
  std::vector<Rows> rows;  // by rank
};

Given tell_rows(const PyGroup& self, nb::handle x, nb::handle timeout) {
  Operation o(self, "all_gather_varying", timeout, nb::none());
  o.call.collective = Collective::all_gather;
  o.read(x);
  const nb::tuple shape = shape_of(x, o.x);
  if (nb::len(shape) == 0) refuse(o.name, ": x has no dimension; give an array of one row at least, as x.reshape(1)");
  const auto count = nb::cast<std::int64_t>(shape[0]);
  std::int64_t length = 1;
  for (std::size_t i = 1; i < nb::len(shape); i++) length *= nb::cast<std::int64_t>(shape[i]);
  const Rows mine{count, length};
  Given given{shape, std::vector<Rows>(static_cast<std::size_t>(o.ranks))};
  o.call.input = &mine;
  o.call.output = given.rows.data();
  o.call.count = sizeof mine;
  o.call.dtype = DType::u8;
  o.run();
  return given;
}

nb::object all_gather_varying(nb::object self, nb::handle x, nb::handle timeout) {
  const Given given = tell_rows(nb::cast<const PyGroup&>(self), x, timeout);
  nb::list counts;
  for (const Rows& rows : given.rows) {
    if (rows.length != given.rows[0].length)
      refuse("all_gather_varying: rows of x have ", given.rows[0].length, " elements on rank 0 and ", rows.length,
             " on rank ", &rows - given.rows.data(), "; only the first dimension may differ. No data was sent");
    counts.append(rows.count * rows.length);
  }
  const nb::object parts = self.attr("all_gather")(x, nb::arg("counts") = counts, nb::arg("timeout") = timeout);
  nb::list shaped;
  for (std::size_t r = 0; r < given.rows.size(); r++) {
    const nb::object rest = nb::object(given.shape)[nb::slice(nb::int_(1), nb::none(), nb::none())];
    const nb::object shape = nb::make_tuple(given.rows[r].count) + rest;
    shaped.append(parts[r].attr("reshape")(shape));
  }
  return shaped;
}

}  // namespace

void register_varying(nb::class_<PyGroup>& cls) {
  using namespace nb::literals;
  cls.def("all_gather_varying", &all_gather_varying, "x"_a.none(), nb::kw_only(), "timeout"_a = nb::none(),
          nb::sig("def all_gather_varying(self, x: Array, *, timeout: Seconds = None) -> list[Array]"),
          docs::kAllGatherVarying);
}

}  // namespace unisono::python
