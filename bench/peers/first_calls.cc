// The first calls of a collective in a process, on f32, out of place (but for broadcast), as the benchmarks of OSU count them: the mean over calls of the slowest rank, a barrier
// before each; 100 calls after 10, up to 8 KiB 1000 after 100. BYTES are those of the buffer, or of all ranks' blocks together; the sizes come one behind the other.
//   usage: first_calls NAME BYTES...      prints a line of JSON a size on rank 0. With -DWITH_MPI it measures an MPI library.
#ifdef WITH_MPI
#include <mpi.h>
#else
#include <unisono/unisono.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace {

/// Memory of one problem.
struct Data {
  std::vector<float> in, out;
  int whole, part;  ///< elements of the buffer, and of a rank's block
};

#ifdef WITH_MPI
const MPI_Comm kWorld = MPI_COMM_WORLD;
const MPI_Datatype kFloat = MPI_FLOAT;

struct Library {
  int rank = 0, size = 0;
  Library(int& argc, char**& argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(kWorld, &rank);
    MPI_Comm_size(kWorld, &size);
  }
  ~Library() { MPI_Finalize(); }
  void barrier() const { MPI_Barrier(kWorld); }
  double largest(double x) const { return MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, kWorld), x; }
  bool call(const std::string& name, Data& d) const {
    float *in = d.in.data(), *out = d.out.data();
    if (name == "all_reduce") return MPI_Allreduce(in, out, d.whole, kFloat, MPI_SUM, kWorld), true;
    if (name == "reduce") return MPI_Reduce(in, out, d.whole, kFloat, MPI_SUM, 0, kWorld), true;
    if (name == "broadcast") return MPI_Bcast(in, d.whole, kFloat, 0, kWorld), true;
    if (name == "all_gather") return MPI_Allgather(in, d.part, kFloat, out, d.part, kFloat, kWorld), true;
    if (name == "reduce_scatter") return MPI_Reduce_scatter_block(in, out, d.part, kFloat, MPI_SUM, kWorld), true;
    if (name == "all_to_all") return MPI_Alltoall(in, d.part, kFloat, out, d.part, kFloat, kWorld), true;
    if (name == "gather") return MPI_Gather(in, d.part, kFloat, out, d.part, kFloat, 0, kWorld), true;
    if (name == "scatter") return MPI_Scatter(in, d.part, kFloat, out, d.part, kFloat, 0, kWorld), true;
    return false;
  }
};
#else
struct Library {
  unisono::Group world = unisono::init();
  int rank = world.rank(), size = world.size();
  Library(int&, char**&) {}
  void barrier() const { world.barrier(); }
  double largest(double x) const { return world.all_reduce(std::span(&x, 1), unisono::ReduceOp::max), x; }
  bool call(const std::string& name, Data& d) const {
    const auto whole = static_cast<std::size_t>(d.whole), part = static_cast<std::size_t>(d.part);
    const std::span<float> in(d.in.data(), whole), out(d.out.data(), whole);
    const std::span<const float> mine = in.first(part), all = in;
    const bool root = rank == 0;
    if (name == "all_reduce") return world.all_reduce(all, out), true;
    if (name == "reduce") return world.reduce(all, out, 0), true;
    if (name == "broadcast") return world.broadcast(in, 0), true;
    if (name == "all_gather") return world.all_gather(mine, out), true;
    if (name == "reduce_scatter") return world.reduce_scatter(all, out.first(part)), true;
    if (name == "all_to_all") return world.all_to_all(all, out), true;
    if (name == "gather") return world.gather(mine, root ? out : out.first(0), 0), true;
    if (name == "scatter") return world.scatter(root ? all : all.first(0), out.first(part), 0), true;
    return false;
  }
};
#endif

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool measure(const Library& library, const std::string& name, long bytes) {
  constexpr long kSmall = 8 << 10;
  const int warmup = bytes <= kSmall ? 100 : 10, calls = 10 * warmup;
  Data d;
  d.part = static_cast<int>(std::max(bytes / static_cast<long>(sizeof(float)) / library.size, 1L));
  d.whole = d.part * library.size;
  d.in.assign(static_cast<std::size_t>(d.whole), 0.75F);
  d.out.assign(static_cast<std::size_t>(d.whole), 0.5F);
  double took = 0;
  for (int i = 0; i < warmup + calls; i++) {
    library.barrier();
    const double begin = seconds();
    if (!library.call(name, d)) return std::fprintf(stderr, "no collective %s\n", name.c_str()), false;
    if (i >= warmup) took += seconds() - begin;
  }
  const double slowest = library.largest(took / calls);
  if (library.rank == 0)
    std::printf("{\"bytes\": %ld, \"ranks\": %d, \"time_us\": %.4f}\n", bytes, library.size, slowest * 1e6);
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: first_calls NAME BYTES...\n"), 2;
  const Library library(argc, argv);
  for (int i = 2; i < argc; i++)
    if (!measure(library, argv[1], std::atol(argv[i]))) return 1;
  return 0;
}
