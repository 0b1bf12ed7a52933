#include "plan/host_rules.h"

#include <string_view>

namespace unisono::plan {

namespace {
/// Over sockets between ranks on one host, with a core each: a message costs as much as some ten
/// KiB, so fewer of them win for longer than over the links between hosts, of which the built-in
/// table is (docs/design/0007-between-hosts.md).
constexpr std::string_view kRulesOfLoopback =
    "reduce@net[3]:64K-192K=binomial;"
    "broadcast@net[3]:0-192K=flat,192K-4M=scatter_all_gather;"
    "broadcast@net[4]:0-384K=binomial;"
    "broadcast@net[5-8]:0-320K=binomial;"
    "broadcast@net[9-]:0-160K=binomial;"
    "all_gather@net[4]:0-512K=circulant;"
    "reduce_scatter@net[4]:0-512K=circulant;"
    "all_to_all@net[6-11]:0-96K=bruck;"
    "all_to_all@net[12-]:0-160K=bruck";

/// A message costs the cores as much as some 40 KiB, and every round a change of ranks on a core:
/// there trees, which have the fewest messages and leave most ranks idle, are the fastest for long
/// (docs/design/0007-between-hosts.md), and then whatever waits the least. In shared memory, too,
/// who sends and leaves does not wait for its turn again, and a round less is worth more than what
/// it copies twice. (Nothing that adds up in another order than the shared plans do: whose buffers
/// lie where must not show in the bits.)
constexpr std::string_view kRulesOfTurns =
    "all_reduce@net[3]:0-512K=binomial,512K-3M=direct;"
    "all_reduce@net[4]:0-1536K=binomial,1536K-3M=direct;"
    "all_reduce@net[5-8]:0-1536K=binomial;"
    "all_reduce@net[9-]:0-2M=binomial,2M-=ring;"
    "reduce@net[3-]:0-=binomial;"
    "broadcast@net[3]:0-768K=binomial;"
    "broadcast@net[4]:0-6M=binomial;"
    "broadcast@net[5-7]:0-=binomial;"
    "broadcast@net[8]:0-40K=flat,40K-=binomial;"  // the root has sent all before anybody else needs the core
    "broadcast@net[9-16]:0-48K=flat,48K-=binomial;"
    "broadcast@net[17-]:0-=binomial;"
    "all_gather@net[3]:0-=ring;"
    "all_gather@net[4]:0-112K=circulant;"
    "all_gather@net[6]:0-112K=ring;"
    "all_gather@net[4-16]:112K-=ring;"
    "all_gather@net[7]:112K-320K=circulant;"
    "reduce_scatter@net[3]:0-=ring;"
    "reduce_scatter@net[4]:0-112K=circulant,112K-224K=ring;"
    "reduce_scatter@net[6]:0-112K=ring;"
    "reduce_scatter@net[5-8]:112K-=ring;"
    "reduce_scatter@net[9-16]:384K-=ring;"
    "all_to_all@net[32-]:160K-1M=bruck;"
    "scatter@net[3]:0-2M=binomial;"
    "scatter@net[4]:0-8K=binomial;"
    "all_reduce@shm[3-]:0-32K=staged_one_shot;"
    "all_reduce@shm[7-]:32K-=staged_two_shot;"
    "all_reduce@nodes[16-]:64K-=staged_nodes;"  // as without turns
    "reduce@shm[3]:2K-24K=staged_one_shot;"
    "reduce@shm[3-4]:128K-=staged_one_shot;"
    "reduce@shm[4]:2K-32K=staged_one_shot;"
    "reduce@shm[5-8]:2K-8M=staged_one_shot;"
    "reduce@shm[9-]:2K-4K=staged_one_shot,4K-16K=staged;"
    "broadcast@shm[3]:2K-64K=staged;"
    "broadcast@shm[4]:2K-96K=staged;"
    "broadcast@shm[5-]:2K-256K=staged;"
    "all_gather@shm[3]:2K-24K=staged;"
    "all_gather@shm[4]:2K-8K=staged;"
    "all_gather@shm[5-]:2K-64K=staged;"
    "reduce_scatter@shm[3-4]:2K-24K=staged;"
    "reduce_scatter@shm[5-]:2K-64K=staged;"
    "gather@shm[3-]:2K-512K=staged;"
    "gather@shm[4]:32K-2M=linear;"
    "gather@shm[5-8]:1K-2M=linear;"
    "scatter@shm[3-]:2K-256K=staged;"
    "scatter@shm[3-4]:192K-8M=linear;"
    "scatter@shm[5-]:256K-1536K=staged;"  // no contest, measured when all waited for its judge
    "all_to_all@shm[3-4]:2K-24K=staged;"
    "all_to_all@shm[5-]:2K-16K=staged;";
/// Where buffers are shared or the kernel may copy, all the same:
constexpr std::string_view kRulesOfTurnsOnMemory =
    "all_reduce@shm[3-4]:12K-=shared;"
    "all_reduce@shm[7-]:32K-=shared;"
    "all_reduce@shm[7-]:128K-=single_copy;"
    "reduce@shm[3]:24K-=shared;"
    "reduce@shm[4]:32K-=shared;"
    "reduce@shm[5-8]:96K-=shared;"
    "all_gather@shm[3]:128-2K=shared;"
    "all_gather@shm[6-]:64K-=shared;"
    "all_gather@shm[6-]:768K-=shared_by_owner;"
    "reduce_scatter@shm[3]:128-2K=shared;"
    "reduce_scatter@shm[3]:24K-=single_copy;"
    "gather@shm[3]:64K-=shared;"
    "gather@shm[4]:128K-=shared;"
    "gather@shm[5-8]:512K-=shared;"
    "gather@shm[9-]:128K-=shared;"
    "all_to_all@shm[3]:128-2K=shared;"
    "all_to_all@shm[3-8]:48K-128K=single_copy_pairs;"  // partners share a core
    "scatter@shm[3-]:64K-=shared";

/// Where the blocks of two ranks stay in a core's second cache, passing them on copies less than a
/// tree, which sends whole vectors; and stages, or a contest with the kernel, are faster than
/// messages (docs/design/0006-choosing.md).
constexpr std::size_t kLargeCache = 1 << 20, kLargerCache = 2 << 20;
constexpr std::string_view kRulesOfLargeCaches =
    "all_reduce@net[3]:1280K-=ring;"
    "all_reduce@net[4]:640K-=ring;"
    "all_reduce@net[6]:448K-=ring;"
    "all_reduce@net[7-8]:6M-=binomial;"
    "all_gather@shm[6-8]:64K-192K=staged;"  // no contest, measured when all waited for its judge
    "all_gather@shm[9-]:64K-1536K=staged;"
    "gather@shm[3-]:2K-=staged;"
    "gather@shm[3]:96K-=single_copy;"  // a contest
    "gather@shm[4-8]:384K-=single_copy;"
    "scatter@shm[3-]:96K-=staged;"
    "scatter@shm[3-]:96K-=single_copy;";

/// There it does not take long either until all have begun, which is what shared buffers have to
/// wait for: they win earlier, by the time from call to call.
constexpr std::string_view kSharedBuffersOfLargeCaches =
    ";all_reduce@shm[5-8]:12K-32K=shared;"
    "reduce@shm[5-8]:32K-96K=shared;"
    "broadcast@shm[3]:24K-96K=shared;"
    "broadcast@shm[4]:32K-96K=shared;"
    "reduce_scatter@shm[5-8]:20K-64K=shared;"
    "gather@shm[3]:10K-64K=shared;"
    "gather@shm[4]:8K-128K=shared;"
    "gather@shm[5-8]:24K-512K=shared;"
    "scatter@shm[3]:16K-64K=shared;"
    "scatter@shm[4]:6K-64K=shared;"
    "scatter@shm[5-8]:24K-64K=shared";

/// And some a little earlier still.
constexpr std::string_view kSharedBuffersOfLargerCaches =
    ";reduce@shm[3]:8K-24K=shared;"
    "reduce@shm[4]:14K-32K=shared;"
    "reduce@shm[5-8]:24K-32K=shared;"
    "broadcast@shm[3-4]:14K-32K=shared;"
    "broadcast@shm[5-8]:56K-256K=shared;"
    "all_gather@shm[3]:2K-24K=shared;"
    "all_gather@shm[5-8]:48K-64K=shared;"
    "reduce_scatter@shm[3]:2K-24K=shared;"
    "reduce_scatter@shm[4]:8K-24K=shared;"
    "all_to_all@shm[3]:2K-24K=shared;"
    "all_to_all@shm[4]:8K-24K=shared;"
    "all_to_all@shm[5-8]:12K-16K=shared";
}  // namespace

std::string rules_of_one_host(std::size_t ranks, std::size_t processors, std::size_t second_cache) {
  std::string rules(kRulesOfLoopback);
  if (ranks <= processors) return rules;
  rules.append(";").append(kRulesOfTurns);
  if (second_cache >= kLargeCache) rules.append(kRulesOfLargeCaches);
  rules.append(kRulesOfTurnsOnMemory);
  if (second_cache >= kLargeCache) rules.append(kSharedBuffersOfLargeCaches);
  if (second_cache >= kLargerCache) rules.append(kSharedBuffersOfLargerCaches);
  return rules;
}

}  // namespace unisono::plan
