/// The flight record as Python values, in the form of torch's dumps.

#include "flight_record_python.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace unisono::torch_backend {
namespace {

/// torch's analyser takes the names of its own back ends only, and messages with both ends: "gloo:send 0->1".
std::string profiling_name(const FlightRecord::Entry& entry) {
  std::string name = entry.title;
  name = name.substr(name.find(':') + 1);
  name = name.substr(0, name.find(' '));
  if (entry.is_message) {
    const bool sends = name == "send";
    name = c10::str(sends ? "send " : "recv ", entry.rank, sends ? "->" : "<-", entry.peer);
  }
  return "gloo:" + name;
}

py::list listed_sizes(const FlightRecord::Shapes& shapes) {
  py::list all;
  const std::int64_t* at = shapes.sizes.begin();
  for (const std::int64_t dims : shapes.dims) {
    py::list sizes;
    for (std::int64_t i = 0; i < dims; i++) sizes.append(*at++);
    all.append(std::move(sizes));
  }
  return all;
}

py::list listed_dtypes(const FlightRecord::Shapes& shapes) {
  py::list all;
  for (const c10::ScalarType dtype : shapes.dtypes) all.append(c10::toString(dtype));
  return all;
}

py::dict entry_of(const FlightRecord::Entry& entry, const std::vector<FlightRecord::Group>& groups) {
  const FlightRecord::Group& group = groups.at(entry.group);
  const bool completed = entry.state == FlightRecord::State::completed;
  py::dict d;
  d["record_id"] = entry.id;
  d["pg_id"] = entry.group;
  d["process_group"] = py::make_tuple(group.name, group.description);
  d["collective_seq_id"] = entry.collective_number;
  d["p2p_seq_id"] = entry.message_number;
  d["op_id"] = entry.id;
  d["profiling_name"] = profiling_name(entry);
  d["time_created_ns"] = entry.created_ns;
  if (completed) d["duration_ms"] = static_cast<double>(entry.ended_ns - entry.created_ns) / 1e6;
  d["input_sizes"] = listed_sizes(entry.inputs);
  d["input_dtypes"] = listed_dtypes(entry.inputs);
  d["output_sizes"] = listed_sizes(entry.outputs);
  d["output_dtypes"] = listed_dtypes(entry.outputs);
  d["state"] = completed ? "completed" : "started";
  d["time_discovered_started_ns"] = entry.created_ns;
  d["time_discovered_completed_ns"] = completed ? py::object(py::int_(entry.ended_ns)) : py::object(py::none());
  d["retired"] = entry.state != FlightRecord::State::started;
  d["timeout_ms"] = entry.timeout_ms;
  d["is_p2p"] = entry.is_message;
  d["frames"] = py::list();
  return d;
}

}  // namespace

py::dict to_python(const FlightRecord& record) {
  const auto groups = record.groups();
  py::list entries;
  for (const FlightRecord::Entry& entry : record.entries()) entries.append(entry_of(entry, groups));
  py::dict config;
  for (const FlightRecord::Group& group : groups) {
    py::dict d;
    d["name"] = group.name;
    d["desc"] = group.description;
    d["ranks"] = "[" + c10::Join(", ", group.ranks) + "]";
    config[py::str(group.name)] = std::move(d);
  }
  py::dict all;
  all["rank"] = groups.empty() ? -1 : groups.front().self;
  all["version"] = "2.10";  // of torch's form
  all["entries"] = std::move(entries);
  all["pg_config"] = std::move(config);
  all["pg_status"] = py::dict();
  return all;
}

}  // namespace unisono::torch_backend
