#include "simulate/model.h"

#include <fmt/format.h>

#include "simulate/quantity.h"

namespace unisono::simulate {

std::vector<Preset> presets() {
  // Magnitudes of such networks in general, not measurements of one: bench/simulation.py measures a given one.
  return {
      {"1g", "1 Gbit/s Ethernet, TCP", "loggp:L=30us,o=6us,g=1us,G=1Gbit/s,O=0.3ns/B,ports=fair"},
      {"10g", "10 Gbit/s Ethernet, TCP", "loggp:L=12us,o=4us,g=0.5us,G=10Gbit/s,O=0.25ns/B,ports=fair"},
      {"100g", "100 Gbit/s Ethernet, TCP", "loggp:L=8us,o=3us,g=0.3us,G=100Gbit/s,O=0.1ns/B,ports=fair"},
      {"hdr", "200 Gbit/s InfiniBand, verbs", "loggp:L=1us,o=0.2us,g=0.05us,G=200Gbit/s"},
  };
}

namespace {

/// Name and value; the second half is left out where it is what the parser would assume.
class Text {
 public:
  void time(std::string_view name, double value, double usual) {
    if (value != usual) item(name, format_time(value));
  }
  void per_byte(std::string_view name, double value, double usual) {
    if (value != usual) item(name, format_time_per_byte(value));
  }
  void number(std::string_view name, double value, double usual) {
    if (value != usual) item(name, fmt::format("{:.10g}", value));
  }
  void part(std::string_view name) {
    fmt::format_to(std::back_inserter(text_), "{}{}", text_.empty() ? "" : "+", name);
    first_ = true;
  }
  void word(std::string_view value) {
    text_ += first_ ? ":" : ",";
    text_ += value;
    first_ = false;
  }
  std::string take() && { return std::move(text_); }

 private:
  void item(std::string_view name, std::string_view value) { word(fmt::format("{}={}", name, value)); }
  std::string text_;
  bool first_ = true;
};

void add_topology(Text& text, const Topology& t) {
  switch (t.kind) {
    case Topology::Kind::crossbar:
      return;
    case Topology::Kind::fat_tree:
      text.part("fat-tree");
      text.number("k", t.k, 0);
      text.number("taper", t.taper, 1);
      break;
    case Topology::Kind::dragonfly:
      text.part("dragonfly");
      text.number("a", t.a, 0);
      text.number("h", t.h, 0);
      text.number("p", t.p, 0);
      break;
    case Topology::Kind::torus:
      text.part("torus");
      text.word(fmt::format("{}x{}x{}", t.sides[0], t.sides[1], t.sides[2]));
  }
  const Topology usual;
  text.time("hop", t.hop, usual.hop);
  text.per_byte("link", t.link, usual.link);
}

void add_numa(Text& text, const Numa& numa) {
  if (numa.nodes == 0) return;
  text.part("numa");
  text.word(fmt::format("{}x{}", numa.nodes, numa.cores));
  text.per_byte("link", numa.link, -1);
  text.time("L", numa.L, -1);
  text.per_byte("memory", numa.memory, -1);
}

}  // namespace

std::string to_text(const Model& m) {
  Text text;
  const Model usual;
  if (m.alpha_beta) {
    text.part("alpha-beta");
    text.time("alpha", m.network.L, -1);
    text.per_byte("beta", m.network.G, -1);
    text.number("header", m.header, 0);
  } else {
    text.part("loggp");
    text.time("L", m.network.L, -1);
    text.time("o", m.network.o, -1);
    text.time("g", m.network.g, -1);
    text.per_byte("G", m.network.G, -1);
    text.per_byte("O", m.network.O, 0);
    text.number("header", m.header, usual.header);
  }
  text.per_byte("gamma", m.gamma, m.alpha_beta ? 0 : usual.gamma);
  text.per_byte("copy", m.copy, m.alpha_beta ? 0 : usual.copy);
  text.number("buffer", m.buffer, usual.buffer);
  if (m.fair) text.word("ports=fair");
  if (m.local != usual.local) {
    text.part("local");
    text.time("L", m.local.L, -1);
    text.time("o", m.local.o, -1);
    text.per_byte("G", m.local.G, -1);
  }
  add_topology(text, m.topology);
  add_numa(text, m.numa);
  return std::move(text).take();
}

}  // namespace unisono::simulate
