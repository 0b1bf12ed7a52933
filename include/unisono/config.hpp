#pragma once
/// All settings, with the environment variable that each is read from. Explicit values beat the environment; nothing else in the
/// library reads it (but for UNISONO_LOG and UNISONO_KERNELS, which are read where they are used).

#include <chrono>
#include <cstdint>
#include <string>

#include "unisono/export.hpp"
#include "unisono/store.hpp"

namespace unisono {

struct UNISONO_API Config {
  // --- who am I. From the innermost launcher: docs/environment.md has a table of them.
  int rank = 0;  ///< UNISONO_RANK, RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK
  int size = 1;  ///< UNISONO_SIZE, WORLD_SIZE, SLURM_STEP_NUM_TASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE
  int local_size =
      0;  ///< ranks on this host as the launcher says (UNISONO_LOCAL_SIZE, LOCAL_WORLD_SIZE, ...); 0: unknown
  std::string launcher =
      "none";  ///< unisono, torchrun, environment (plain RANK), openmpi, mpich, slurm, pmix, mlx, kubernetes, none
  /// Where ranks meet: "tcp://HOST:PORT" (rank 0 serves), "file://PATH", "env://" (MASTER_ADDR, MASTER_PORT),
  /// "unix:@NAME" (an abstract socket that the launcher serves). UNISONO_INIT_METHOD.
  std::string init_method;
  std::string job;  ///< UNISONO_JOB: names the job, so that strays of another do not join
  /// Job secret, hexadecimal: UNISONO_SECRET, or a file named by UNISONO_SECRET_FILE, or a descriptor UNISONO_SECRET_FD
  /// inherited from the launcher. Every connection proves that it knows it.
  std::string secret;
  bool allow_insecure = false;  ///< UNISONO_ALLOW_INSECURE=1: let ranks on several hosts meet without a secret
  /// UNISONO_STRICT=1: what PyTorch users are only warned of, as others are not, is an error: several hosts, no secret.
  bool strict = false;

  // --- how
  std::string transport;  ///< UNISONO_TRANSPORT=shm|tcp: force one; empty: the best for each pair
  std::string
      interface;  ///< UNISONO_INTERFACE: network interfaces or addresses to use, with commas between them; empty: by the route to the store
  /// UNISONO_TCP_STREAMS, 1 to 4: connections over which large messages to a rank on another host travel side by side; 0: chosen by
  /// measurement, one for each of its interfaces at least.
  int tcp_streams = 0;
  /// UNISONO_TCP_CONGESTION: the kernel's name of the congestion control of all connections over tcp, "bbr" for example; empty: the system's,
  /// but reno over loopback and, where the system's is BBR, to peers with a round trip below 1 ms.
  std::string tcp_congestion;
  std::string algorithm;  ///< UNISONO_ALGORITHM: appended to the selection table; rank 0's counts
  bool deterministic =
      false;  ///< UNISONO_DETERMINISTIC=1: the bits of a reduction depend on nothing but the ranks' values: not on size,
  ///< buckets, or who shares a host with whom (every element is one left fold in rank order). Rank 0's counts
  /// UNISONO_PEER_MEMORY=0: do not read other processes' memory, nor write to what they wait for (process_vm_readv, process_vm_writev), where the kernel
  /// would allow it; one rank's no is everybody's.
  bool peer_memory = true;
  /// UNISONO_SHARE_MEMORY=0: leave memory private that large collectives and messages inside a host come back to. Otherwise its pages are exchanged, where it is, for
  /// shared ones, where that is safe (docs/design/0012-memory-that-comes-back.md): then they copy nothing. Every rank for itself.
  bool share_memory = true;
  /// UNISONO_TUNING. auto: choose by what was measured for this very layout, and where that is several hosts and nothing was measured,
  /// measure their links when the group is made (well under a second). cached: choose by it, measure nothing. off: by the built-in
  /// table alone. Rank 0's counts.
  std::string tuning = "auto";
  /// UNISONO_CONSTANTS: what links cost, in place of what is measured of them: "gamma=0.1ns/B; within=1us,0.2us,0.05ns/B;
  /// between=27us,3us,8ns/B" (latency, processor time of a message, and time a byte of the link). Rank 0's count.
  std::string constants;
  std::string
      cache;  ///< UNISONO_CACHE, else XDG_CACHE_HOME/unisono, else HOME/.cache/unisono: where that is kept; empty: nowhere
  /// UNISONO_TOPOLOGY: NUMA nodes that the hosts do not have, for tests, in hwloc's syntax: "pack:2 numa:1 core:64 pu:1".
  std::string topology;
  std::string fault;  ///< UNISONO_FAULT: wrap transports in the faulty decorator, for tests: "partial,delay=1ms,seed=3"
  /// UNISONO_DEBUG: what is checked besides, words with commas between them. "buffers": memory of
  /// operations in flight that the program changes, or gives to two operations at once
  /// (docs/errors.md). It costs time and memory. Every rank for itself.
  std::string debug;
  Duration timeout = std::chrono::minutes(30);      ///< UNISONO_TIMEOUT (seconds): of each operation
  Duration init_timeout = std::chrono::minutes(5);  ///< UNISONO_INIT_TIMEOUT (seconds): of joining
  std::int64_t slice_bytes = 0;                     ///< UNISONO_SLICE: bytes of a slice of a block; 0: chosen
  int spin = -1;  ///< UNISONO_SPIN: rounds of spinning before yielding; -1: by the cores to spare

  /// For language bindings: whether no thread but the one that asks can use the library. It asks
  /// once it has waited for a second, and must not be led to use the library. Null: by the threads
  /// that the process has.
  bool (*only_thread)() noexcept = nullptr;

  /// Read the environment. Throws InvalidArgument that names the variable and what is wrong with it.
  static Config from_env();
  /// The part under "how" and the secret alone: for programs that say themselves which rank they are and where to
  /// meet, whatever a launcher's variables say.
  static Config settings_from_env();
};

}  // namespace unisono
