#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "simulate/model.h"
#include "simulate/quantity.h"

/// Both forms, text and JSON, become a list of parts with named values, from which one Model is made.
namespace unisono::simulate {

namespace {

struct Value {
  std::string name, text;  ///< no name: 8x8x8
};
struct Part {
  std::string name;
  std::vector<Value> values;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::vector<Part> parts_of_text(std::string_view text) {
  std::vector<Part> parts;
  for (const std::string_view piece : split(text, '+')) {
    const std::size_t colon = piece.find(':');
    Part part{std::string(piece.substr(0, colon)), {}};
    if (colon != std::string_view::npos) {
      for (const std::string_view item : split(piece.substr(colon + 1), ',')) {
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos)
          part.values.push_back({"", std::string(item)});
        else
          part.values.push_back({std::string(item.substr(0, equals)), std::string(item.substr(equals + 1))});
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<std::vector<Part>> parts_of_json(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return Status::invalid("the model's file is not a JSON object");
  std::vector<Part> parts;
  for (const auto& [name, values] : json.items()) {
    Part part{name, {}};
    if (values.is_string()) part.values.push_back({"", values.get<std::string>()});
    if (!values.is_string() && !values.is_object())
      return Status::invalid(fmt::format("the model's file: \"{}\" must be an object or a text", name));
    if (values.is_object())
      for (const auto& [key, value] : values.items())
        part.values.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Fills fields by name.
class Fields {
 public:
  explicit Fields(std::string_view part) : part_(part) {}
  Fields& time(std::string_view name, double& field) { return add(name, field, &parse_time); }
  Fields& per_byte(std::string_view name, double& field) { return add(name, field, &parse_time_per_byte); }
  Fields& number(std::string_view name, double& field) { return add(name, field, &parse_number); }
  Fields& whole(std::string_view name, std::int32_t& field) {
    wholes_.emplace_back(name, &field);
    return *this;
  }

  Status fill(const std::vector<Value>& values) const {
    for (const Value& value : values) UNISONO_TRY(fill(value).with_context(part_));
    return {};
  }

 private:
  using Parser = Result<double> (*)(std::string_view);
  struct Field {
    std::string_view name;
    double* field;
    Parser parse;
  };
  Fields& add(std::string_view name, double& field, Parser parse) {
    fields_.push_back({name, &field, parse});
    return *this;
  }

  Status fill(const Value& value) const {
    for (const Field& field : fields_) {
      if (field.name != value.name) continue;
      const auto number = field.parse(value.text);
      if (!number) return number.status().with_context(value.name);
      *field.field = *number;
      return {};
    }
    for (const auto& [name, field] : wholes_) {
      if (name != value.name) continue;
      const char* end = value.text.data() + value.text.size();
      const auto [rest, error] = std::from_chars(value.text.data(), end, *field);
      if (error != std::errc{} || rest != end)
        return Status::invalid(fmt::format("{}: \"{}\" is not a whole number", name, value.text));
      return {};
    }
    std::vector<std::string_view> names;
    for (const Field& field : fields_) names.push_back(field.name);
    for (const auto& [name, field] : wholes_) names.push_back(name);
    return Status::invalid(
        fmt::format("no \"{}\": there are {}", value.name.empty() ? value.text : value.name, fmt::join(names, ", ")));
  }

  std::string part_;
  std::vector<Field> fields_;
  std::vector<std::pair<std::string_view, std::int32_t*>> wholes_;
};

/// Takes ports=serial or ports=fair out of the values.
Status take_ports(Model& m, std::vector<Value>& values) {
  for (const Value& value : values) {
    if (value.name != "ports") continue;
    if (value.text != "serial" && value.text != "fair")
      return Status::invalid(fmt::format("ports=\"{}\": write serial or fair", value.text));
    m.fair = value.text == "fair";
  }
  std::erase_if(values, [](const Value& value) { return value.name == "ports"; });
  return {};
}

Status fill_network(Model& m, Part part) {
  UNISONO_TRY(take_ports(m, part.values));
  m.alpha_beta = part.name == "alpha-beta";
  Fields fields(part.name);
  fields.per_byte("gamma", m.gamma).per_byte("copy", m.copy).number("header", m.header).number("buffer", m.buffer);
  if (!m.alpha_beta) {
    fields.time("L", m.network.L).time("o", m.network.o).time("g", m.network.g);
    return fields.per_byte("G", m.network.G).per_byte("O", m.network.O).fill(part.values);
  }
  m.gamma = m.copy = m.header = 0;
  UNISONO_TRY(fields.time("alpha", m.network.L).per_byte("beta", m.network.G).fill(part.values));
  m.network.g = m.network.L;
  return {};
}

Status fill_torus(Topology& t, std::vector<Value> values) {
  Fields fields("torus");
  fields.time("hop", t.hop).per_byte("link", t.link);
  if (!values.empty() && (values[0].name.empty() || values[0].name == "sides")) {
    const std::string text = values[0].text;
    values.erase(values.begin());
    const auto sides = split(text, 'x');
    if (sides.size() > t.sides.size()) return Status::invalid("torus: one to three sides: torus:8x8x8");
    for (std::size_t d = 0; d < sides.size(); d++)
      UNISONO_TRY(Fields("torus").whole("side", t.sides[d]).fill({{"side", std::string(sides[d])}}));
  }
  return fields.fill(values);
}

/// Magnitudes of two sockets of a present server; memory is not in the way unless somebody says so.
Status fill_numa(Numa& numa, std::vector<Value> values) {
  numa.link = 1 / 64e9;
  numa.L = 150e-9;
  Fields fields("numa");
  fields.per_byte("link", numa.link).time("L", numa.L).per_byte("memory", numa.memory);
  const auto sides = values.empty() ? std::vector<std::string_view>{} : split(values[0].text, 'x');
  if (sides.size() != 2 || !(values[0].name.empty() || values[0].name == "sides"))
    return Status::invalid("numa: write nodes x cores first: numa:2x64");
  Fields wholes("numa");
  wholes.whole("nodes", numa.nodes).whole("cores", numa.cores);
  UNISONO_TRY(wholes.fill({{"nodes", std::string(sides[0])}, {"cores", std::string(sides[1])}}));
  if (numa.nodes < 1 || numa.cores < 1 || numa.nodes > 1024)
    return Status::invalid(fmt::format("numa:{}: from 1 to 1024 nodes, of at least one core", values[0].text));
  values.erase(values.begin());
  return fields.fill(values);
}

Status fill_topology(Topology& t, const Part& part) {
  Fields fields(part.name);
  fields.time("hop", t.hop).per_byte("link", t.link);
  if (part.name == "fat-tree") {
    t.kind = Topology::Kind::fat_tree;
    UNISONO_TRY(fields.whole("k", t.k).number("taper", t.taper).fill(part.values));
  } else if (part.name == "dragonfly") {
    t.kind = Topology::Kind::dragonfly;
    UNISONO_TRY(fields.whole("a", t.a).whole("h", t.h).whole("p", t.p).fill(part.values));
  } else {
    t.kind = Topology::Kind::torus;
    UNISONO_TRY(fill_torus(t, part.values));
  }
  return check(t);
}

Status fill(Model& m, const std::vector<Part>& parts) {
  const Part& first = parts.front();
  bool known = first.name == "loggp" || first.name == "alpha-beta";
  if (known) UNISONO_TRY(fill_network(m, first));
  if (first.name == "numa") {
    known = true;
    UNISONO_TRY(fill_numa(m.numa, first.values));
  }
  for (const Preset& preset : presets()) {
    if (preset.name != first.name) continue;
    UNISONO_TRY(fill(m, parts_of_text(preset.text)));
    UNISONO_TRY(fill_network(m, first));
    known = true;
  }
  if (!known) {
    std::vector<std::string_view> names{"loggp", "alpha-beta"};
    for (const Preset& preset : presets()) names.push_back(preset.name);
    names.push_back("numa");
    return Status::invalid(
        fmt::format("no network \"{}\": there are {}; switches come behind one, as in 100g+fat-tree:k=8", first.name,
                    fmt::join(names, ", ")));
  }
  for (std::size_t i = 1; i < parts.size(); i++) {
    const std::string& name = parts[i].name;
    if (name == "local") {
      UNISONO_TRY(
          Fields(name).time("L", m.local.L).time("o", m.local.o).per_byte("G", m.local.G).fill(parts[i].values));
    } else if (name == "fat-tree" || name == "dragonfly" || name == "torus") {
      UNISONO_TRY(fill_topology(m.topology, parts[i]));
    } else if (name == "numa") {
      UNISONO_TRY(fill_numa(m.numa, parts[i].values));
    } else if (name != "crossbar") {
      return Status::invalid(
          fmt::format("no part \"{}\": there are local, crossbar, fat-tree, dragonfly, torus, numa", name));
    }
  }
  return {};
}

}  // namespace

Result<Model> parse_model(std::string_view text) {
  Result<std::vector<Part>> parts = text.starts_with('{') ? parts_of_json(text) : Result(parts_of_text(text));
  if (!parts) return parts.status();
  if (parts->empty())
    return Status::invalid("the model is empty: write a network, such as 10g or loggp:L=1us,G=10Gbit/s");
  Model model;
  UNISONO_TRY(fill(model, *parts));
  return model;
}

}  // namespace unisono::simulate
