/// One launcher inside another: the innermost counts, for every pair of them, and where that cannot
/// be told it is an error. The variables are those that real launches of MPICH 5, Intel MPI
/// 2021.19, Open MPI 5, PRRTE and Slurm 22.05 set; mlx 0.32's are from its launch.py, those of Open MPI
/// 4 and torchrun from their documentation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "rendezvous/environment.h"
#include "rendezvous/helpers.h"
#include "rendezvous/launch_environment.h"

namespace unisono::rendezvous {
namespace {

using test::environment_of;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

/// A hostfile of mlx.launch's, for `size` ranks on this host.
std::string mlx_hostfile(int size) {
  static const test::TemporaryDirectory directory;
  const std::string path = directory.file("hosts" + std::to_string(size));
  std::ofstream file(path);
  for (int r = 0; r < size; r++) file << (r == 0 ? "[" : ", ") << "[\"127.0.0.1:" << 32323 + r << "\"]";
  file << "]\n";
  return path;
}

struct Kind {
  const char* name;      ///< for the test
  const char* launcher;  ///< Config::launcher
  const char* process;   ///< that starts the ranks
  /// What a rank gets. `launch` differs between two launches.
  Variables (*variables)(const std::string& rank, const std::string& size, const std::string& launch);
};

Variables hydra(const std::string& rank, const std::string& size, const std::string& launch) {
  return {{"PMI_RANK", rank},        {"PMI_SIZE", size}, {"MPI_LOCALNRANKS", size},
          {"MPI_LOCALRANKID", rank}, {"PMI_FD", launch}, {"GFORTRAN_UNBUFFERED_PRECONNECTED", "y"}};
}
Variables slurm(const std::string& rank, const std::string& size, const std::string& launch) {
  return {{"SLURM_PROCID", rank},         {"SLURM_STEP_NUM_TASKS", size}, {"SLURM_NTASKS", size},
          {"SLURM_JOB_ID", "7"},          {"SLURM_STEP_ID", launch},      {"SLURM_STEP_NUM_NODES", "1"},
          {"SLURM_STEP_NODELIST", "n01"}, {"SLURM_JOB_NAME", "bash"}};
}
Variables overlaid(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Kind kKinds[] = {
    {"unisono", "unisono", "unisono",
     [](const auto& rank, const auto& size, const auto& launch) {
       return Variables{{"UNISONO_RANK", rank},
                        {"UNISONO_SIZE", size},
                        {"UNISONO_LOCAL_SIZE", size},
                        {"UNISONO_LOCAL_RANK", rank},
                        {"UNISONO_JOB", "run-" + launch},
                        {"UNISONO_INIT_METHOD", "unix:@unisono-run-" + launch},
                        {"RANK", rank},
                        {"WORLD_SIZE", size},
                        {"LOCAL_RANK", rank},
                        {"LOCAL_WORLD_SIZE", size},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "2" + launch}};
     }},
    {"torchrun", "torchrun", "torchrun",
     [](const auto& rank, const auto& size, const auto& launch) {
       return Variables{{"RANK", rank},
                        {"WORLD_SIZE", size},
                        {"LOCAL_RANK", rank},
                        {"LOCAL_WORLD_SIZE", size},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "29500"},
                        {"TORCHELASTIC_RUN_ID", launch},
                        {"TORCHELASTIC_RESTART_COUNT", "0"}};
     }},
    {"operator", "environment", "wrapper",
     [](const auto& rank, const auto& size, const auto&) {
       return Variables{{"RANK", rank}, {"WORLD_SIZE", size}, {"MASTER_ADDR", "m"}, {"MASTER_PORT", "29500"}};
     }},
    {"openmpi4", "openmpi", "mpirun",
     [](const auto& rank, const auto& size, const auto& launch) {
       return Variables{{"OMPI_COMM_WORLD_RANK", rank},
                        {"OMPI_COMM_WORLD_SIZE", size},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", size},
                        {"PMIX_RANK", rank},
                        {"PMIX_NAMESPACE", launch}};
     }},
    {"openmpi5", "openmpi", "prterun",
     [](const auto& rank, const auto& size, const auto& launch) {
       return Variables{{"OMPI_COMM_WORLD_RANK", rank},
                        {"OMPI_COMM_WORLD_SIZE", size},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", size},
                        {"PMIX_RANK", rank},
                        {"PMIX_NAMESPACE", "prterun-vm-" + launch + "@1"},
                        {"PRTE_LAUNCHED", "1"}};
     }},
    {"mpich5", "mpich", "hydra_pmi_proxy",
     [](const auto& rank, const auto& size, const auto& launch) {
       return overlaid(hydra(rank, size, launch), {{"HYDI_CONTROL_FD", launch}, {"PMI_HOSTNAME", "vm"}});
     }},
    {"intel", "mpich", "hydra_pmi_proxy",
     [](const auto& rank, const auto& size, const auto& launch) {
       return overlaid(hydra(rank, size, launch), {{"I_MPI_HYDRA_UUID", launch}, {"HYDRA_BSTRAP_LAUNCHER", "fork"}});
     }},
    {"slurm", "slurm", "slurmstepd", slurm},
    {"slurm_pmi2", "slurm", "slurmstepd",
     [](const auto& rank, const auto& size, const auto& launch) {
       return overlaid(slurm(rank, size, launch),
                       {{"PMI_RANK", rank}, {"PMI_SIZE", size}, {"PMI_JOBID", "7." + launch}});
     }},
    {"prterun", "pmix", "prterun",
     [](const auto& rank, const auto& size, const auto& launch) {
       return Variables{{"PMIX_RANK", rank},
                        {"PMIX_NAMESPACE", "prterun-vm-" + launch + "@1"},
                        {"PRTE_LAUNCHED", "1"},
                        {"UNISONO_SIZE", size},
                        {"UNISONO_LOCAL_SIZE", size}};
     }},
    {"mlx", "mlx", "mlx.launch",
     [](const auto& rank, const auto& size, const auto&) {
       return Variables{{"MLX_RANK", rank}, {"MLX_HOSTFILE", mlx_hostfile(std::stoi(size))}};
     }},
};

/// `unisono run` also leaves a secret behind a descriptor, which is no number of this process.
Variables as_outer(const Kind& kind, Variables v) {
  if (std::string_view(kind.name) == "unisono") v["UNISONO_SECRET_FD"] = "987654";
  return v;
}

class Nested : public ::testing::TestWithParam<std::tuple<Kind, Kind>> {
 protected:
  const Kind outer = std::get<0>(GetParam()), inner = std::get<1>(GetParam());
  const Variables around = as_outer(outer, outer.variables("1", "2", "11"));

  Ancestor starter(const Kind& kind, std::int64_t pid, const Variables& its) const {
    Ancestor a{pid, 5, kind.process, its};
    if (a.name == "slurmstepd") a.environment.reset();  // root's
    return a;
  }
  /// Rank `rank` of 3 of the inner launcher, below a shell of the user's.
  Result<Config> rank_of_inner(const std::string& rank) const {
    Variables own = overlaid(around, inner.variables(rank, "3", "22"));
    if (std::string_view(inner.name) == "unisono") own.erase("UNISONO_SECRET_FD");  // it brings one of its own
    const std::vector<Ancestor> above = {{40, 9, "bash", own},
                                         starter(inner, 30, around),
                                         {20, 7, "bash", around},
                                         starter(outer, 10, {}),
                                         {1, 1, "init", std::nullopt}};
    return config_from(environment_of(own), [above] { return above; });
  }
};

TEST_P(Nested, TheInnermostCounts) {
  std::string place, job;
  for (int rank = 0; rank < 3; rank++) {
    const auto c = rank_of_inner(std::to_string(rank));
    ASSERT_TRUE(c.ok()) << c.status().message();
    const bool overwritten = std::string_view(inner.name) == "operator" && std::string_view(outer.name) == "torchrun";
    EXPECT_EQ(c->launcher, overwritten ? "torchrun" : inner.launcher);  // its other variables are still there
    EXPECT_EQ(c->rank, rank);
    EXPECT_EQ(c->size, 3);
    if (rank == 0) place = c->init_method, job = c->job;
    EXPECT_EQ(c->init_method, place);  // they find each other
    EXPECT_EQ(c->job, job);
  }
  EXPECT_THAT(place, ::testing::Not(HasSubstr("unisono-run-11")));  // and not the outer job's
  EXPECT_NE(job, "run-11");
}

/// `srun -n1 mpirun -n1`, or a single task that is started within a job of several: never a silent
/// world of one.
TEST_P(Nested, AWorldOfOneAmongOthersIsSaid) {
  const Variables own = overlaid(around, inner.variables("0", "1", "22"));
  const std::vector<Ancestor> above = {starter(inner, 30, around), starter(outer, 10, {})};
  const auto c = detect_world(environment_of(own), [above] { return above; });
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->size, 1);
  // Where the inner launcher overwrote all that the outer one said of the number of tasks, nothing
  // is left to see.
  const std::set<std::string> sizes = {"UNISONO_SIZE",         "WORLD_SIZE",   "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                       "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "MLX_HOSTFILE"};
  const bool seen = std::ranges::any_of(
      around, [&](const auto& v) { return sizes.contains(v.first) && own.at(v.first) == v.second; });
  if (seen) {
    EXPECT_THAT(c->warning, HasSubstr("world of one"));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPair, Nested,
                         ::testing::Combine(::testing::ValuesIn(kKinds), ::testing::ValuesIn(kKinds)),
                         [](const auto& pair) {
                           return std::string(std::get<1>(pair.param).name) + "_inside_" + std::get<0>(pair.param).name;
                         });

/// Without a word from the ancestors (another pid namespace): what surely starts inside of what, or
/// an error.
TEST(Launchers, HydraInASlurmStepNeedsNoAncestors) {
  const Variables v = overlaid(slurm("0", "1", "0"), hydra("2", "3", "9"));
  const auto c = config_from(environment_of(v));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->launcher, "mpich");
  EXPECT_EQ(c->rank, 2);
}

TEST(Launchers, TwoPairsThatDifferAreNamed) {
  Variables v = {{"RANK", "0"},
                 {"WORLD_SIZE", "1"},
                 {"OMPI_COMM_WORLD_RANK", "1"},
                 {"OMPI_COMM_WORLD_SIZE", "3"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                 {"PMIX_NAMESPACE", "n"}};
  const auto refused = config_from(environment_of(v));
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"RANK=0 with WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=1 with OMPI_COMM_WORLD_SIZE=3",
                           "UNISONO_LAUNCHER=openmpi", "UNISONO_LAUNCHER=environment"})
    EXPECT_THAT(refused.status().message(), HasSubstr(part));
  EXPECT_EQ(config_from(environment_of(overlaid(v, {{"UNISONO_LAUNCHER", "openmpi"}})))->rank, 1);
  EXPECT_EQ(config_from(environment_of(overlaid(v, {{"UNISONO_LAUNCHER", "environment"}})))->size, 1);
  const auto decided = config_from(environment_of(
      overlaid(v, {{"UNISONO_RANK", "4"}, {"UNISONO_SIZE", "5"}, {"UNISONO_INIT_METHOD", "file:///x"}})));
  ASSERT_TRUE(decided.ok()) << decided.status().message();
  EXPECT_EQ(decided->rank, 4);
  EXPECT_EQ(decided->launcher, "unisono");
  EXPECT_THAT(config_from(environment_of(overlaid(v, {{"UNISONO_LAUNCHER", "slurm"}}))).status().message(),
              HasSubstr("UNISONO_LAUNCHER=\"slurm\""));
}

/// LOCAL_WORLD_SIZE counts for the launch that it came with, and when it cannot be told with which.
TEST(Launchers, ALocalSizeOfAnOuterLaunchDoesNotCount) {
  const Variables around = {{"RANK", "1"},        {"WORLD_SIZE", "2"},    {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "m"}, {"MASTER_PORT", "295"}, {"TORCHELASTIC_RUN_ID", "a"}};
  const Variables own = overlaid(around, {{"RANK", "2"}, {"WORLD_SIZE", "3"}});
  const std::vector<Ancestor> above = {{2, 2, "bash", around}, {1, 1, "torchrun", Variables{}}};
  EXPECT_EQ(config_from(environment_of(own), [above] { return above; })->local_size, 0);
  EXPECT_EQ(config_from(environment_of(own))->local_size, 2);
}

TEST(Launchers, PairsThatAgreeAreOneLaunch) {
  const auto c = config_from(environment_of({{"RANK", "1"},
                                             {"WORLD_SIZE", "3"},
                                             {"MASTER_ADDR", "m"},
                                             {"MASTER_PORT", "5"},
                                             {"OMPI_COMM_WORLD_RANK", "1"},
                                             {"OMPI_COMM_WORLD_SIZE", "3"}}));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->rank, 1);
}

TEST(Launchers, AShellInAnAllocationIsAWorldOfOneAndSaysSo) {
  // salloc; the same where salloc's shell is a step of Slurm's own; sbatch's script
  for (const Variables& v : {Variables{{"SLURM_NTASKS", "3"}, {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NAME", "interactive"}},
                             Variables{{"SLURM_NTASKS", "3"},
                                       {"SLURM_PROCID", "0"},
                                       {"SLURM_STEP_ID", "4294967290"},
                                       {"SLURM_STEP_NUM_TASKS", "1"}},
                             Variables{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NAME", "b.sh"}}}) {
    const auto c = detect_world(environment_of(v), {});
    ASSERT_TRUE(c.ok()) << c.status().message();
    EXPECT_EQ(c->size, 1);
    EXPECT_EQ(c->launcher, "none");
    EXPECT_THAT(c->warning, HasSubstr("SLURM_NTASKS="));
  }
  EXPECT_EQ(detect_world(environment_of({{"SLURM_NTASKS", "1"}}), {})->warning, "");
  EXPECT_EQ(detect_world(environment_of({}), {})->warning, "");
}

TEST(Launchers, IndexedJobsNeedASize) {
  const Variables pod = {{"JOB_COMPLETION_INDEX", "2"}};
  const auto alone = detect_world(environment_of(pod), {});
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(alone->size, 1);
  EXPECT_THAT(alone->warning, HasSubstr("JOB_COMPLETION_INDEX=2"));
  for (const char* size : {"UNISONO_SIZE", "WORLD_SIZE"}) {
    const auto c = config_from(
        environment_of(overlaid(pod, {{size, "4"}, {"MASTER_ADDR", "job-0.svc"}, {"MASTER_PORT", "29500"}})));
    ASSERT_TRUE(c.ok()) << c.status().message();
    EXPECT_EQ(c->rank, 2);
    EXPECT_EQ(c->size, 4);
    EXPECT_EQ(c->launcher, "kubernetes");
    EXPECT_THAT(c->init_method, HasSubstr("job-0.svc"));
  }
  EXPECT_THAT(config_from(environment_of(overlaid(pod, {{"UNISONO_SIZE", "4"}}))).status().message(),
              HasSubstr("MASTER_ADDR"));
  // ranks that a launcher started in each pod are not pods
  const auto inside = config_from(environment_of(overlaid(pod, hydra("1", "2", "5"))));
  ASSERT_TRUE(inside.ok()) << inside.status().message();
  EXPECT_EQ(inside->launcher, "mpich");
}

TEST(Launchers, ARankWithoutASizeIsAnError) {
  const auto prterun = config_from(environment_of({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-vm-9@1"}}));
  ASSERT_FALSE(prterun.ok());
  EXPECT_THAT(prterun.status().message(), HasSubstr("prterun -x UNISONO_SIZE=N"));
  EXPECT_THAT(config_from(environment_of({{"MLX_RANK", "1"}})).status().message(), HasSubstr("MLX_WORLD_SIZE"));
  EXPECT_THAT(config_from(environment_of({{"MLX_RANK", "0"}, {"MLX_HOSTFILE", "/no/such"}})).status().message(),
              HasSubstr("MLX_HOSTFILE=\"/no/such\""));
}

TEST(Launchers, SlurmByArbitraryDistributionAsksTheHostfile) {
  test::TemporaryDirectory directory;
  const std::string hosts = directory.file("hosts");
  std::ofstream(hosts) << "n02\nn01\nn02\n";
  Variables v = overlaid(slurm("1", "3", "0"), {{"SLURM_STEP_NUM_NODES", "2"},
                                                {"SLURM_STEP_NODELIST", "n[01-02]"},
                                                {"SLURM_DISTRIBUTION", "arbitrary"},
                                                {"SLURM_HOSTFILE", hosts}});
  EXPECT_THAT(config_from(environment_of(v))->init_method, ::testing::StartsWith("tcp://n02:"));
  v.erase("SLURM_HOSTFILE");
  const auto refused = config_from(environment_of(v));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), ::testing::AllOf(HasSubstr("arbitrary"), HasSubstr("MASTER_ADDR")));
  EXPECT_TRUE(config_from(environment_of(overlaid(v, {{"MASTER_ADDR", "n02"}, {"MASTER_PORT", "5"}}))).ok());
  EXPECT_TRUE(config_from(environment_of(overlaid(v, {{"UNISONO_INIT_METHOD", "file:///x"}}))).ok());
}

}  // namespace
}  // namespace unisono::rendezvous
