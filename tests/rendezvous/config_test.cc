/// Who am I: what each launcher's variables come to, and what half of them comes to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rendezvous/environment.h"
#include "rendezvous/helpers.h"

namespace unisono::rendezvous {
namespace {

using test::environment_of;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

struct Detected {
  const char* name;
  Variables variables;
  int rank, size, local_size;
  const char* launcher;
  const char* job;
  const char* init_method;  ///< null: some abstract socket
};

class Detection : public ::testing::TestWithParam<Detected> {};

TEST_P(Detection, FindsTheWorld) {
  const Detected& expected = GetParam();
  const auto c = config_from(environment_of(expected.variables));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->rank, expected.rank);
  EXPECT_EQ(c->size, expected.size);
  EXPECT_EQ(c->local_size, expected.local_size);
  EXPECT_EQ(c->launcher, expected.launcher);
  EXPECT_EQ(c->job, expected.job);
  if (expected.init_method != nullptr) {
    EXPECT_EQ(c->init_method, expected.init_method);
  } else {  // all on one host, and no address given
    EXPECT_THAT(c->init_method, ::testing::StartsWith("unix:@unisono-"));
  }
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "3"},
                             {"MASTER_ADDR", "m0"},
                             {"MASTER_PORT", "29500"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"TORCHELASTIC_RUN_ID", "r7"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};

Variables with(Variables base, const Variables& more) {
  for (const auto& [k, v] : more) base[k] = v;
  return base;
}

const Variables kSlurm = {{"SLURM_PROCID", "5"},         {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "n[01-02]"},
                          {"SLURM_JOB_NAME", "train"}};

INSTANTIATE_TEST_SUITE_P(
    Launchers, Detection,
    ::testing::Values(Detected{"nothing", {}, 0, 1, 0, "none", "", ""},
                      Detected{"unisono",
                               {{"UNISONO_RANK", "1"},
                                {"UNISONO_SIZE", "2"},
                                {"UNISONO_LOCAL_SIZE", "2"},
                                {"UNISONO_JOB", "j"},
                                {"UNISONO_INIT_METHOD", "unix:@x"},
                                {"RANK", "7"},
                                {"WORLD_SIZE", "9"}},
                               1,
                               2,
                               2,
                               "unisono",
                               "j",
                               "unix:@x"},
                      Detected{"torchrun", kTorchrun, 3, 4, 4, "torchrun", "torchrun-r7-0", "tcp://m0:29501"},
                      Detected{"torchrun_agent_store", with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), 3,
                               4, 4, "torchrun", "torchrun-r7-0", "tcp://m0:29501"},
                      Detected{"kubernetes",
                               {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "80"}},
                               1,
                               2,
                               0,
                               "environment",
                               "",
                               "tcp://[fd00::1]:81"},
                      Detected{"kubernetes_one_process_a_pod",
                               {{"RANK", "1"},
                                {"WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "m"},
                                {"MASTER_PORT", "80"},
                                {"PET_NPROC_PER_NODE", "1"}},
                               1,
                               2,
                               0,
                               "environment",
                               "",
                               "tcp://m:81"},
                      Detected{"init_method_beats_master",
                               {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"UNISONO_INIT_METHOD", "file:///x"}},
                               1,
                               2,
                               0,
                               "environment",
                               "",
                               "file:///x"},
                      Detected{"slurm_one_node", kSlurm, 5, 8, 8, "slurm", "slurm-77.0", nullptr},
                      Detected{"slurm_shell_is_no_step",
                               {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}},
                               0,
                               1,
                               0,
                               "none",
                               "",
                               ""},
                      Detected{"slurm_job_called_bash", with(kSlurm, {{"SLURM_JOB_NAME", "bash"}}), 5, 8, 8, "slurm",
                               "slurm-77.0", nullptr},
                      Detected{"openmpi",
                               {{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"PMIX_NAMESPACE", "ns"},
                                {"MASTER_ADDR", "h"},
                                {"MASTER_PORT", "5"}},
                               1,
                               4,
                               2,
                               "openmpi",
                               "openmpi-ns",
                               "tcp://h:6"},
                      Detected{"openmpi_inside_slurm",
                               with(kSlurm, {{"OMPI_COMM_WORLD_RANK", "1"},
                                             {"OMPI_COMM_WORLD_SIZE", "2"},
                                             {"PMIX_NAMESPACE", "ns"},
                                             {"UNISONO_INIT_METHOD", "file:///y"}}),
                               1, 2, 0, "openmpi", "openmpi-ns", "file:///y"},
                      Detected{"mpich",
                               {{"PMI_RANK", "1"},
                                {"PMI_SIZE", "2"},
                                {"MPI_LOCALNRANKS", "2"},
                                {"UNISONO_JOB", "j"},
                                {"UNISONO_INIT_METHOD", "file:///z"}},
                               1,
                               2,
                               2,
                               "mpich",
                               "j",
                               "file:///z"}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST(Config, SlurmOverSeveralNodesMeetsAtTheFirst) {
  Variables v = kSlurm;
  v["SLURM_STEP_NUM_NODES"] = "2";
  const auto c = config_from(environment_of(v));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_THAT(c->init_method, ::testing::StartsWith("tcp://n01:2"));
  v["SLURM_PROCID"] = "0";
  EXPECT_EQ(config_from(environment_of(v))->init_method, c->init_method);  // all ranks agree
  v["SLURM_STEP_NODELIST"] = "alpha,beta[1-3]";
  EXPECT_THAT(config_from(environment_of(v))->init_method, ::testing::StartsWith("tcp://alpha:"));
}

TEST(Config, OpenMpiOnOneHostMeetsUnderANameOfTheJob) {
  Variables v = {{"OMPI_COMM_WORLD_RANK", "0"},
                 {"OMPI_COMM_WORLD_SIZE", "2"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                 {"PMIX_NAMESPACE", "a"}};
  const auto a0 = config_from(environment_of(v));
  v["OMPI_COMM_WORLD_RANK"] = "1";
  const auto a1 = config_from(environment_of(v));
  v["PMIX_NAMESPACE"] = "b";
  const auto b1 = config_from(environment_of(v));
  EXPECT_THAT(a0->init_method, ::testing::StartsWith("unix:@unisono-"));
  EXPECT_EQ(a0->init_method, a1->init_method);
  EXPECT_NE(a1->init_method, b1->init_method);
}

struct Refused {
  const char* name;
  Variables variables;
  std::vector<const char*> says;
};

class Refusals : public ::testing::TestWithParam<Refused> {};

TEST_P(Refusals, NamesTheVariableAndTheValue) {
  const auto c = config_from(environment_of(GetParam().variables));
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.status().code(), Code::invalid_argument);
  for (const char* what : GetParam().says) EXPECT_THAT(c.status().message(), HasSubstr(what));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, Refusals,
    ::testing::Values(
        Refused{"not_a_number", {{"RANK", "two"}, {"WORLD_SIZE", "4"}}, {"RANK=\"two\""}},
        Refused{"trailing_garbage", {{"RANK", "2x"}, {"WORLD_SIZE", "4"}}, {"RANK=\"2x\""}},
        Refused{"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "4"}}, {"RANK=\"-1\""}},
        Refused{"too_large_for_a_number", {{"RANK", "99999999999999999999"}, {"WORLD_SIZE", "4"}}, {"RANK="}},
        Refused{"rank_beyond_size", {{"RANK", "4"}, {"WORLD_SIZE", "4"}}, {"RANK=4", "WORLD_SIZE=4", "0 to 3"}},
        Refused{"size_zero", {{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE=\"0\""}},
        Refused{"rank_alone", {{"RANK", "1"}}, {"RANK=1", "WORLD_SIZE is not"}},
        Refused{"size_alone", {{"WORLD_SIZE", "2"}}, {"WORLD_SIZE=2", "RANK is not"}},
        Refused{
            "no_master", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {"MASTER_ADDR is not set", "RANK=1", "WORLD_SIZE=2"}},
        Refused{"no_master_port",
                {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m0"}},
                {"m0", "MASTER_PORT is not set"}},
        Refused{"bad_master_port",
                {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m0"}, {"MASTER_PORT", "70000"}},
                {"MASTER_PORT=\"70000\""}},
        Refused{
            "kubeflow_counts_nodes",
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}, {"MASTER_PORT", "1"}, {"NPROC_PER_NODE", "8"}},
            {"NPROC_PER_NODE=\"8\"", "unisono run -n 8"}},
        Refused{"kubeflow_without_a_launcher",
                {{"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "4"}},
                {"PET_NNODES=\"2\"", "unisono run"}},
        Refused{"mpi_over_hosts_without_address",
                {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
                {"openmpi", "MASTER_ADDR", "UNISONO_INIT_METHOD"}},
        Refused{"local_beyond_size",
                {{"RANK", "0"},
                 {"WORLD_SIZE", "2"},
                 {"LOCAL_RANK", "0"},
                 {"LOCAL_WORLD_SIZE", "4"},
                 {"MASTER_ADDR", "m"},
                 {"MASTER_PORT", "1"}},
                {"LOCAL_WORLD_SIZE=4"}},
        Refused{"transport", {{"UNISONO_TRANSPORT", "ib"}}, {"UNISONO_TRANSPORT=\"ib\"", "shm or tcp"}},
        Refused{"timeout", {{"UNISONO_TIMEOUT", "soon"}}, {"UNISONO_TIMEOUT=\"soon\"", "seconds"}},
        Refused{"timeout_below_a_double", {{"UNISONO_TIMEOUT", "1e-400"}}, {"UNISONO_TIMEOUT"}},
        Refused{"timeout_zero", {{"UNISONO_INIT_TIMEOUT", "0"}}, {"UNISONO_INIT_TIMEOUT=\"0\""}},
        Refused{"timeout_nan", {{"UNISONO_TIMEOUT", "nan"}}, {"UNISONO_TIMEOUT=\"nan\""}},
        Refused{"slice", {{"UNISONO_SLICE", "256Q"}}, {"UNISONO_SLICE=\"256Q\""}},
        Refused{"spin", {{"UNISONO_SPIN", "-2"}}, {"UNISONO_SPIN=\"-2\""}},
        Refused{"debug", {{"UNISONO_DEBUG", "buffers,x"}}, {"UNISONO_DEBUG=\"buffers,x\": \"x\" is unknown"}},
        Refused{"streams", {{"UNISONO_TCP_STREAMS", "5"}}, {"UNISONO_TCP_STREAMS=\"5\"", "1 to 4"}},
        Refused{"insecure", {{"UNISONO_ALLOW_INSECURE", "yes"}}, {"UNISONO_ALLOW_INSECURE=\"yes\""}},
        Refused{"short_secret", {{"UNISONO_SECRET", "abcd"}}, {"UNISONO_SECRET", "at least 32"}},
        Refused{"secret_fd_closed",
                {{"UNISONO_SECRET_FD", "987654"}},
                {"UNISONO_SECRET_FD=987654", "no such open descriptor"}}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST(Config, ReadsTheSettings) {
  const auto c = config_from(environment_of({{"UNISONO_TRANSPORT", "tcp"},
                                             {"UNISONO_INTERFACE", "eth1"},
                                             {"UNISONO_ALGORITHM", "all_reduce=ring"},
                                             {"UNISONO_FAULT", "partial"},
                                             {"UNISONO_DEBUG", "buffers"},
                                             {"UNISONO_TIMEOUT", "1.5"},
                                             {"UNISONO_INIT_TIMEOUT", "1e300"},
                                             {"UNISONO_SLICE", "256K"},
                                             {"UNISONO_SPIN", "0"},
                                             {"UNISONO_TCP_STREAMS", "3"},
                                             {"UNISONO_TCP_CONGESTION", "cubic"},
                                             {"UNISONO_ALLOW_INSECURE", "1"},
                                             {"UNISONO_STRICT", "1"}}));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->transport, "tcp");
  EXPECT_EQ(c->interface, "eth1");
  EXPECT_EQ(c->algorithm, "all_reduce=ring");
  EXPECT_EQ(c->fault, "partial");
  EXPECT_EQ(c->debug, "buffers");
  EXPECT_EQ(c->timeout, std::chrono::milliseconds(1500));
  EXPECT_GT(c->init_timeout, std::chrono::hours(24 * 365));
  EXPECT_EQ(c->slice_bytes, 256 * 1024);
  EXPECT_EQ(c->spin, 0);
  EXPECT_EQ(c->tcp_streams, 3);
  EXPECT_EQ(c->tcp_congestion, "cubic");
  EXPECT_TRUE(c->allow_insecure);
  EXPECT_TRUE(c->strict);
}

TEST(Config, AFileStandsInForADescriptorThatAWrapperClosed) {
  test::TemporaryDirectory directory;
  const std::string path = directory.file("secret");
  std::ofstream(path) << test::kSecretText;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const auto c = config_from(environment_of({{"UNISONO_SECRET_FD", "987654"}, {"UNISONO_SECRET_FILE", path}}));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->secret, test::kSecretText);
}

TEST(Config, AnErrorNeverShowsTheSecret) {
  const std::string text = "deadbeefdeadbeefdeadbeefdeadbeeX";
  const auto c = config_from(environment_of({{"UNISONO_SECRET", text}}));
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.status().message(), ::testing::Not(HasSubstr("deadbeef")));
}

}  // namespace
}  // namespace unisono::rendezvous
