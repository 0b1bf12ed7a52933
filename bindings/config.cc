#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "group.h"
#include "interrupt.h"

namespace unisono::python {
namespace {

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

template <Duration Config::* kMember>
double get_seconds(const Config& config) {
  return seconds(config.*kMember);
}
template <Duration Config::* kMember>
void set_seconds(Config& config, nb::handle value) {
  const auto parsed = parse_timeout(value, "Config");
  if (!parsed) refuse("Config: a timeout cannot be None; give seconds or a timedelta");
  config.*kMember = *parsed;
}

Config with_threads(Config config) {
  config.only_thread = &is_only_thread;
  return config;
}

PyGroup create_group(const Context& context, std::shared_ptr<Store> store, int rank, int size,
                     const std::string& name) {
  return PyGroup(
      run_interruptibly([context, store, rank, size, name] { return context.create_group(store, rank, size, name); }));
}

PyGroup init_world(const Config& config, const std::shared_ptr<Latecomers>& latecomers) {
  return PyGroup(run_interruptibly([config = with_threads(config), latecomers] { return init(config, *latecomers); }));
}

}  // namespace

void register_config(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Config>(
      m, "Config",
      "All settings. Each can come from an environment variable, named in its description; explicit values win.")
      .def(nb::init<>(), "The defaults, without looking at the environment.")
      .def_static("from_env", &Config::from_env,
                  "Read the environment. Raises InvalidArgument naming the variable and what is wrong with it.")
      .def_rw("rank", &Config::rank,
              "Which one this process is. UNISONO_RANK, or as torchrun, Slurm, Open MPI and MPICH say it.")
      .def_rw("size", &Config::size, "How many there are. UNISONO_SIZE, likewise.")
      .def_ro("local_size", &Config::local_size,
              "Ranks on this host, as the launcher says; 0: unknown. UNISONO_LOCAL_SIZE.")
      .def_rw("launcher", &Config::launcher, "Who started the ranks: unisono, torchrun, slurm, openmpi, mpich or none.")
      .def_rw("init_method", &Config::init_method,
              "Where ranks meet: tcp://HOST:PORT (rank 0 serves), file://PATH, env://. UNISONO_INIT_METHOD.")
      .def_rw("job", &Config::job, "Names the job, so that strays of another do not join. UNISONO_JOB.")
      .def_rw("secret", &Config::secret,
              "Job secret, hexadecimal; every connection proves that it knows it. UNISONO_SECRET.")
      .def_rw("allow_insecure", &Config::allow_insecure,
              "Let ranks on several hosts meet without a secret. UNISONO_ALLOW_INSECURE=1.")
      .def_rw("strict", &Config::strict,
              "What PyTorch users are only warned of is an error: several hosts, no secret. UNISONO_STRICT=1.")
      .def_rw("transport", &Config::transport,
              "Force one: shm or tcp; empty: the best for each pair. UNISONO_TRANSPORT.")
      .def_rw("interface", &Config::interface,
              "Network interfaces or addresses to use, with commas between them; empty: by the route to the store.\n"
              "UNISONO_INTERFACE.")
      .def_rw("tcp_streams", &Config::tcp_streams,
              "Connections over which large messages to a rank on another host travel side by side, 1 to 4; 0: chosen\n"
              "by measurement, one for each of its interfaces at least. UNISONO_TCP_STREAMS.")
      .def_rw("tcp_congestion", &Config::tcp_congestion,
              "The kernel's name of the congestion control of all connections over tcp; empty: the system's, but reno\n"
              "over loopback and, where the system's is BBR, to peers with a round trip below 1 ms. "
              "UNISONO_TCP_CONGESTION.")
      .def_rw("algorithm", &Config::algorithm, "Appended to the selection table; rank 0's counts. UNISONO_ALGORITHM.")
      .def_rw("tuning", &Config::tuning,
              "Choose by what was measured for this layout: auto (and measure several hosts' links), cached or off;\n"
              "rank 0's counts. UNISONO_TUNING.")
      .def_rw("constants", &Config::constants,
              "What links cost, in place of what is measured of them; rank 0's count. UNISONO_CONSTANTS.")
      .def_rw("cache", &Config::cache, "Folder where that is kept; empty: nowhere. UNISONO_CACHE.")
      .def_rw(
          "debug", &Config::debug,
          "What is checked besides, words with commas between them: buffers, memory of operations in flight that the\n"
          "program changes. UNISONO_DEBUG.")
      .def_rw("fault", &Config::fault, "Disturb the transports, for tests: partial,delay=1ms,seed=3. UNISONO_FAULT.")
      .def_prop_rw("timeout", &get_seconds<&Config::timeout>, &set_seconds<&Config::timeout>,
                   nb::for_setter(nb::sig("def timeout(self, value: float | datetime.timedelta, /) -> None")),
                   "Of each operation, in seconds. UNISONO_TIMEOUT.")
      .def_prop_rw("init_timeout", &get_seconds<&Config::init_timeout>, &set_seconds<&Config::init_timeout>,
                   nb::for_setter(nb::sig("def init_timeout(self, value: float | datetime.timedelta, /) -> None")),
                   "Of joining, in seconds. UNISONO_INIT_TIMEOUT.")
      .def_rw("slice_bytes", &Config::slice_bytes, "Bytes of a slice of a block; 0: chosen. UNISONO_SLICE.")
      .def_rw("spin", &Config::spin, "Rounds of spinning before yielding; -1: by the cores to spare. UNISONO_SPIN.");

  nb::class_<Context>(
      m, "Context",
      "What the groups of one process share: transports, the progress thread, shared memory. init() makes one;\n"
      "make your own to join groups through a store of yours, or when ranks are threads (one each).")
      .def(
          "__init__", [](Context* self, const Config& config) { new (self) Context(with_threads(config)); }, "config"_a)
      .def("__init__", [](Context* self) { new (self) Context(with_threads(Config::from_env())); })
      .def("create_group", &create_group, "store"_a, "rank"_a, "size"_a, "name"_a = "world",
           "Join a group of `size` ranks through `store`; all ranks call it with the same name.\n\n"
           "Blocks until all are there. Raises Timeout naming the ranks that are missing when the configuration's\n"
           "init_timeout passes, InvalidArgument when rank or size make no sense.")
      .def_prop_ro("config", &Context::config, nb::rv_policy::copy, "The settings it was made with (a copy).");

  nb::class_<Latecomers>(
      m, "Latecomers",
      "The ranks that come after rank 0, which serves the store, has found that the world cannot be joined: they are\n"
      "still told why, for at most 3 s.")
      .def(nb::new_([] { return std::make_shared<Latecomers>(); }))
      .def("wait", &Latecomers::wait, nb::call_guard<GilReleased>(),
           "Block until all have been told, or the time is over.");
  m.def("init", &init_world, "config"_a, "latecomers"_a, "Join the world that `config` describes. Use unisono.init().");
}

}  // namespace unisono::python
