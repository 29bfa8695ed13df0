#include "engine/runtime/job.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/runtime/job_rendezvous.hpp"

using namespace plait;
using namespace plait::runtime;

namespace {

using Variables = std::map<std::string, std::string>;

// A scratch folder, also used as the user's folder of sockets.
struct Scratch {
  std::string folder;
  Scratch() {
    char name[] = "/tmp/plait-job-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder = name;
  }
  ~Scratch() { FileSystem::posix().remove_all(folder); }
  std::string put(const std::string& name, const std::string& content, mode_t mode = 0600) const {
    std::string path = folder + "/" + name;
    FileSystem::posix().replace(path, content);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    return path;
  }
};

Job job_of(Variables all, const Scratch* at = nullptr) {
  if (at) all.emplace("XDG_RUNTIME_DIR", at->folder);
  return job_from_environment([&all](const char* name) {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  });
}

// Expects a configuration error that contains all `parts`.
void refused(const Variables& all, std::initializer_list<const char*> parts,
             uint32_t code = PLAIT_ERR_CONFIG) {
  const Scratch at;
  std::string text;
  try {
    job_of(all, &at);
  } catch (const Error& e) {
    CHECK(e.code() == code);
    text = e.full_text();
  }
  CAPTURE(text);
  CHECK(text.starts_with("[job] "));
  for (const char* part : parts) CHECK(text.find(part) != std::string::npos);
}

Variables with(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

void check_place(const Job& job, int rank, int size, int local_rank, int local_size) {
  CHECK(job.rank == rank);
  CHECK(job.size == size);
  CHECK(job.local_rank == local_rank);
  CHECK(job.local_size == local_size);
}

const Variables kOwn = {{"PLAIT_RANK", "1"}, {"PLAIT_WORLD_SIZE", "4"}};
const Variables kTorchrun = {
    {"RANK", "2"},
    {"WORLD_SIZE", "4"},
    {"LOCAL_RANK", "2"},
    {"LOCAL_WORLD_SIZE", "4"},
    {"MASTER_ADDR", "localhost"},
    {"MASTER_PORT", "29500"},
    {"TORCHELASTIC_RUN_ID", "none"},
    {"TORCHELASTIC_RESTART_COUNT", "0"},
    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
    {"TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_ab/none_cd/attempt_0/2/error.json"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},
                          {"SLURM_LOCALID", "3"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_NAME", "train"}};
const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "1790509057"},    {"PMIX_RANK", "1"}};
const Variables kMpich = {
    {"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}};

}  // namespace

TEST_CASE("without a launcher: a single rank") {
  const Job job = job_of({{"PATH", "/bin"}, {"RANK", "5"}, {"PLAIT_RANK", ""}});
  check_place(job, 0, 1, 0, 1);
  CHECK(job.source == "alone");
  CHECK(job.reason == "no launcher has set its variables");
  CHECK(job.rendezvous == "");
  CHECK(job.listen_fd == -1);
  CHECK(job.timeout == 0);  // the value of [topology] applies
  CHECK(job.connect_timeout == 0);
  CHECK(job_of({{"PLAIT_TIMEOUT", "2.5"}}).timeout == 2.5);
}

TEST_CASE("a rank without a size, or a size without a rank, is no launcher's") {
  const Scratch at;
  for (const char* missing : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    Variables some = kOpenMpi;
    some.erase(missing);
    CHECK(job_of(some, &at).source == "alone");
  }
  for (const char* missing : {"PMI_RANK", "PMI_SIZE"}) {
    Variables some = kMpich;
    some.erase(missing);
    CHECK(job_of(some, &at).source == "alone");
  }
}

TEST_CASE("our own variables") {
  const Variables all = with(kOwn, {{"PLAIT_RENDEZVOUS", "file:/shared/m"},
                                    {"PLAIT_TIMEOUT", "5"},
                                    {"PLAIT_CONNECT_TIMEOUT", "0.5"}});
  const Job job = job_of(all);
  check_place(job, 1, 4, 1, 4);
  CHECK(job.source == "PLAIT");
  CHECK(job.rendezvous == "file:/shared/m");
  CHECK(job.secret == "");
  CHECK(job.timeout == 5);
  CHECK(job.connect_timeout == 0.5);
  check_place(job_of(with(all, {{"PLAIT_LOCAL_RANK", "0"}, {"PLAIT_LOCAL_WORLD_SIZE", "2"}})), 1, 4,
              0, 2);
  check(job);

  refused({{"PLAIT_RANK", "1"}}, {"PLAIT_RANK is set, but PLAIT_WORLD_SIZE is not"});
  refused({{"PLAIT_WORLD_SIZE", "1"}}, {"PLAIT_WORLD_SIZE is set, but PLAIT_RANK is not"});
  refused(kOwn,
          {"PLAIT_RENDEZVOUS is not set", "PLAIT_RENDEZVOUS=file:PATH", "PLAIT_SECRET_FILE=FILE"});
  refused(with(kOwn, {{"PLAIT_MEETING", "file:/shared/m"}}),
          {"PLAIT_MEETING is called PLAIT_RENDEZVOUS now"});
  refused(with(all, {{"PLAIT_LOCAL_RANK", "0"}}), {"PLAIT_LOCAL_WORLD_SIZE is ''"});
  // A single rank needs no rendezvous.
  CHECK(job_of({{"PLAIT_RANK", "0"}, {"PLAIT_WORLD_SIZE", "1"}}).rendezvous == "");
}

TEST_CASE("values that make no sense") {
  for (const char* bad : {"x", "-1", "1.5", "1 ", "99999999999999999999", "1048576", "0x1"})
    refused(with(kOwn, {{"PLAIT_RANK", bad}}), {"the environment variable PLAIT_RANK is '", bad,
                                                "expected a whole number from 0 to 1048575"});
  refused(with(kOwn, {{"PLAIT_RANK", "4"}}),
          {"PLAIT_RANK is '4', expected less than PLAIT_WORLD_SIZE, which is 4"});
  refused(with(kOwn, {{"PLAIT_WORLD_SIZE", "0"}}),
          {"PLAIT_WORLD_SIZE is '0', expected a whole number from 1"});
  refused(with(kTorchrun, {{"LOCAL_RANK", "4"}}),
          {"LOCAL_RANK is '4', expected a whole number from 0 to 3"});
  refused(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}),
          {"LOCAL_WORLD_SIZE is '5', expected a whole number from 1 to 4"});
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "two\x1b["}}),
          {"OMPI_COMM_WORLD_SIZE is 'two\\x1b['"});
  for (const char* bad : {"0", "-3", "inf", "nan", "1e9", "5s"})
    refused(with(kTorchrun, {{"PLAIT_TIMEOUT", bad}}),
            {"PLAIT_TIMEOUT is '", bad, "a number of seconds above 0"});
  refused({{"PLAIT_CONNECT_TIMEOUT", "soon"}}, {"PLAIT_CONNECT_TIMEOUT is 'soon'"});
}

TEST_CASE("each launcher, and their order of precedence") {
  const Scratch at;
  const auto source = [&](const Variables& all) { return job_of(all, &at).source; };
  check_place(job_of(kTorchrun, &at), 2, 4, 2, 4);
  check_place(job_of(kSlurm, &at), 3, 4, 3, 4);
  check_place(job_of(kOpenMpi, &at), 1, 2, 1, 2);
  check_place(job_of(kMpich, &at), 0, 3, 0, 3);
  Variables all = kMpich;
  CHECK(source(all) == "MPICH");
  all = with(all, kOpenMpi);
  CHECK(source(all) == "Open MPI");
  CHECK(source(with(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}})) ==
        "Slurm");  // srun --mpi=pmi2
  CHECK(source(with(kSlurm, {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.77.0"}})) ==
        "Slurm");
  all = with(with(all, kSlurm), kTorchrun);
  CHECK(source(all) == "torchrun");
  all = with(with(all, kOwn), {{"PLAIT_RENDEZVOUS", "file:/m"}});
  CHECK(source(all) == "PLAIT");
  CHECK(job_of(kTorchrun, &at).reason == "RANK and WORLD_SIZE are set");
  for (const Variables& one : {kTorchrun, kSlurm, kOpenMpi, kMpich}) check(job_of(one, &at));
}

TEST_CASE("a manager that srun started is no rank") {
  const Scratch at;
  const Job open_mpi = job_of(with(kSlurm, kOpenMpi), &at);
  CHECK(open_mpi.source == "Open MPI");
  CHECK(open_mpi.rank == 1);
  CHECK(job_of(with(kSlurm, kMpich), &at).source == "MPICH");
}

TEST_CASE("a Slurm job without srun is alone") {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  batch["SLURM_PROCID"] = "0";
  const Job job = job_of(batch);
  CHECK(job.source == "alone");
  CHECK(job.reason ==
        "SLURM_PROCID is set but SLURM_STEP_ID is not: a batch script, not a task of srun");
  const Variables shell = {{"SLURM_JOB_NAME", "bash"}, {"SLURM_PTY_PORT", "34889"}};
  CHECK(job_of(with(kSlurm, shell)).source == "alone");
  const Variables one = {
      {"SLURM_JOB_NAME", "interactive"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  CHECK(job_of(with(kSlurm, one)).reason == "a Slurm step, but the job is a shell");
  // srun within salloc, where the job keeps its name.
  const Scratch at;
  CHECK(job_of(with(kSlurm, {{"SLURM_JOB_NAME", "interactive"}}), &at).source == "Slurm");
}

TEST_CASE("tasks on each node of a Slurm step") {
  const auto local_size = [](const char* node, const char* tasks) {
    const Variables more = {{"SLURM_NODEID", node},
                            {"SLURM_STEP_TASKS_PER_NODE", tasks},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_STEP_NUM_TASKS", "7"},
                            {"PLAIT_RENDEZVOUS", "file:/shared/m"}};
    return job_of(with(kSlurm, more)).local_size;
  };
  CHECK(local_size("0", "2(x3),1") == 2);
  CHECK(local_size("2", "2(x3),1") == 2);
  CHECK(local_size("3", "2(x3),1") == 1);
  CHECK(local_size("1", "3,4") == 4);
  // PLAIT_LOCAL_RANK counts before Slurm's variables.
  const Variables own = {{"PLAIT_LOCAL_RANK", "1"},
                         {"PLAIT_LOCAL_WORLD_SIZE", "2"},
                         {"PLAIT_RENDEZVOUS", "file:/shared/m"}};
  check_place(job_of(with(kSlurm, own)), 3, 4, 1, 2);
  for (const char* bad : {"2(x3", "2x3", "2(x),1", ",1", "2(x0)", "two", "2(x3)4"})
    refused(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", bad}}),
            {"SLURM_STEP_TASKS_PER_NODE is '", "expected a list like 2(x3),1"});
  refused(with(kSlurm, {{"SLURM_NODEID", "9"}}), {"does not tell how many ranks are on this node"});
}

TEST_CASE("ranks of one machine meet at a file of the user") {
  const Scratch at;
  const auto rendezvous = [&](const Variables& all) {
    const Job job = job_of(all, &at);
    CHECK(job.secret == "");
    CHECK(job.rendezvous.starts_with("file:" + at.folder + "/plait/"));
    return job.rendezvous;
  };
  struct stat s {};
  const std::string first = rendezvous(kTorchrun);
  REQUIRE(stat((at.folder + "/plait").c_str(), &s) == 0);
  CHECK((s.st_mode & 07777) == 0700);
  const std::string error = "TORCHELASTIC_ERROR_FILE";
  const auto rank = [&](const char* n) {
    return with(kTorchrun, {{"RANK", n},
                            {"LOCAL_RANK", n},
                            {error, "/tmp/torchelastic_ab/none_cd/attempt_0/" + std::string(n) +
                                        "/error.json"}});
  };
  CHECK(rendezvous(rank("0")) == first);
  CHECK(rendezvous(rank("3")) == first);
  // Another job, or another attempt.
  CHECK(rendezvous(with(kTorchrun, {{"MASTER_PORT", "29501"}})) != first);
  CHECK(rendezvous(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "../../x"}})) != first);
  CHECK(folder_of(rendezvous(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "../../x"}}))) ==
        "file:" + at.folder + "/plait");
  CHECK(rendezvous(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})) != first);
  CHECK(rendezvous(with(
            kTorchrun, {{error, "/tmp/torchelastic_xy/none_cd/attempt_0/2/error.json"}})) != first);

  CHECK(rendezvous(kSlurm) != rendezvous(with(kSlurm, {{"SLURM_STEP_ID", "1"}})));
  CHECK(rendezvous(kSlurm) != rendezvous(with(kSlurm, {{"SLURM_RESTART_COUNT", "1"}})));
  CHECK(rendezvous(kSlurm) ==
        rendezvous(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}})));
  CHECK(rendezvous(kOpenMpi) != rendezvous(with(kOpenMpi, {{"PMIX_NAMESPACE", "2"}})));
  CHECK(rendezvous(kMpich) ==
        rendezvous(with(kMpich, {{"PMI_RANK", "2"}, {"MPI_LOCALRANKID", "2"}})));
  CHECK(rendezvous(kMpich) != rendezvous(with(kMpich, {{"PMI_PORT", "here:1234"}})));

  Variables nameless = kOpenMpi;
  nameless.erase("PMIX_NAMESPACE");
  refused(nameless, {"nothing distinguishes the 2 ranks of this job from the ranks of another",
                     "PLAIT_RENDEZVOUS=file:PATH"});
}

TEST_CASE("ranks on several machines must be told where to meet") {
  const Variables two = {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}};
  refused(with(kTorchrun, two),
          {"of the 4 ranks of this job only 2 are on this machine", "PLAIT_RENDEZVOUS=file:PATH",
           "a folder that all machines share", "PLAIT_RENDEZVOUS=HOST:PORT",
           "PLAIT_SECRET_FILE=FILE", "head -c 32 /dev/urandom"});
  const Job job = job_of(with(with(kTorchrun, two), {{"PLAIT_RENDEZVOUS", "file:/shared/m"}}));
  check_place(job, 2, 4, 0, 2);
  CHECK(job.rendezvous == "file:/shared/m");
  Variables pods = kTorchrun;
  pods.erase("LOCAL_RANK");
  pods.erase("LOCAL_WORLD_SIZE");
  const Scratch at;
  check_place(job_of(pods, &at), 2, 4, 2, 4);  // by hand, on one machine
  pods["MASTER_ADDR"] = "node1";
  refused(pods, {"RANK and WORLD_SIZE tell of 4 ranks",
                 "set LOCAL_RANK and LOCAL_WORLD_SIZE, or PLAIT_LOCAL_RANK"});
  pods["PLAIT_LOCAL_RANK"] = "0";
  pods["PLAIT_LOCAL_WORLD_SIZE"] = "1";
  pods["PLAIT_RENDEZVOUS"] = "file:/m";
  check_place(job_of(pods), 2, 4, 0, 1);
  refused({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
          {"MPI_LOCALRANKID and MPI_LOCALNRANKS, or PLAIT_LOCAL_RANK"});
}

TEST_CASE("rendezvous that make no sense") {
  for (const char* bad : {"node1", ":80", "node1:", "node1:0", "node1:65536", "node1:8x", "::1:80",
                          "a b:80", "/shared/m:1", "file:", "file:m", "file:/shared/"})
    refused(with(kOwn, {{"PLAIT_RENDEZVOUS", bad}}),
            {"PLAIT_RENDEZVOUS is '", bad, "expected HOST:PORT or file:PATH; it "});
  for (const char* good : {"node1:80", "10.0.0.1:65535", "[::1]:80", "node-1.cluster.example:1"})
    CHECK(rendezvous_error(good) == "");
}

TEST_CASE("secrets are read from files and descriptors that only the user can read") {
  const Scratch at;
  const std::string secret(32, 's');
  const Variables all = with(kOwn, {{"PLAIT_RENDEZVOUS", "127.0.0.1:4000"}});
  const auto file = [&](const std::string& path) {
    return with(all, {{"PLAIT_SECRET_FILE", path}});
  };
  refused(all, {"PLAIT_RENDEZVOUS=127.0.0.1:4000, where anybody may connect", "PLAIT_SECRET_FILE"});
  const Job job = job_of(file(at.put("good", secret)));
  CHECK(job.secret == secret);
  CHECK(describe(job).find(secret) == std::string::npos);
  check(job);
  refused(file(at.put("open", secret, 0640)),
          {"PLAIT_SECRET_FILE names '", "open'", "mode 0640", "chmod 600"});
  refused(file(at.put("short", "0123456789abcde")),
          {"PLAIT_SECRET_FILE has 15 bytes, expected 16 to 4096"});
  refused(file(at.put("long", std::string(4097, 'x'))), {"more than 4096 bytes"});
  refused(file(at.folder + "/none"), {"there is no such file", "umask 077"});
  refused(file(at.folder), {"not a regular file"});
  REQUIRE(symlink((at.folder + "/good").c_str(), (at.folder + "/link").c_str()) == 0);
  refused(file(at.folder + "/link"), {"a symbolic link"});
  REQUIRE(mkfifo((at.folder + "/pipe").c_str(), 0600) == 0);
  refused(file(at.folder + "/pipe"), {"not a regular file"});

  const int fd = memfd_create("secret", 0);
  REQUIRE(write(fd, secret.data(), secret.size()) == 32);
  const Variables inherited = with(all, {{"PLAIT_SECRET_FD", std::to_string(fd)}});
  CHECK(job_of(inherited).secret == secret);
  CHECK(job_of(inherited).secret == secret);  // again
  CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  refused(with(inherited, file(at.folder + "/good")), {"both set"});
  refused(with(inherited, {{"PLAIT_RENDEZVOUS", "file:/m"}}),
          {"a secret is given (PLAIT_SECRET_FD)", "contains its own secret"});
  close(fd);
  refused(inherited, {"PLAIT_SECRET_FD is '", "expected the number of an open file descriptor"});

  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(write(ends[1], secret.data(), secret.size()) == 32);
  close(ends[1]);
  CHECK(job_of(with(all, {{"PLAIT_SECRET_FD", std::to_string(ends[0])}})).secret == secret);
  close(ends[0]);
}

TEST_CASE("rank 0 may be given a socket that listens") {
  const Scratch at;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const Variables all = {{"PLAIT_RANK", "0"},
                         {"PLAIT_WORLD_SIZE", "2"},
                         {"PLAIT_RENDEZVOUS", "127.0.0.1:4000"},
                         {"PLAIT_SECRET_FILE", at.put("s", std::string(16, 's'))},
                         {"PLAIT_LISTEN_FD", std::to_string(fd)}};
  refused(all, {"PLAIT_LISTEN_FD is '", "expected the number of a listening socket"});
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
  REQUIRE(listen(fd, 1) == 0);
  CHECK(job_of(all).listen_fd == fd);
  CHECK(job_of(with(all, {{"PLAIT_RANK", "1"}})).listen_fd == -1);
  close(fd);
}

TEST_CASE("the folder of rendezvous must be ours alone") {
  const Scratch at;
  const std::string folder = at.folder + "/plait";
  const auto refusal = [&] {
    try {
      job_of(kSlurm, &at);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_IO);
      return e.text();
    }
    return std::string();
  };
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(chmod(folder.c_str(), 0750) == 0);
  CHECK(refusal().find("'" + folder + "', which is not a folder of this user alone (owner") !=
        std::string::npos);
  CHECK(refusal().find("mode 0750") != std::string::npos);
  REQUIRE(rmdir(folder.c_str()) == 0);
  REQUIRE(symlink("/tmp", folder.c_str()) == 0);
  CHECK(refusal().find("of this user alone") != std::string::npos);
  // Not there, or somebody else's: another one is taken.
  const std::string other = "/tmp/plait-" + std::to_string(geteuid());
  CHECK(private_folder([](const char*) -> const char* { return nullptr; }) == other);
  CHECK(private_folder([](const char*) { return "/nowhere"; }) == other);
  rmdir(other.c_str());  // if this test created it
}

TEST_CASE("a job a host describes is checked") {
  const auto fault = [](const Job& job) {
    try {
      check(job);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_INVALID);
      return e.text();
    }
    return std::string();
  };
  Job job;
  CHECK(fault(job) == "");
  job.size = 4;
  job.local_size = 4;
  job.rank = 4;
  CHECK(fault(job) == "[job] rank is 4, expected 0 to 3");
  job.rank = 3;
  job.local_size = 5;
  CHECK(fault(job) == "[job] local_size is 5, expected 1 to 4");
  job.local_size = 2;
  job.local_rank = 2;
  CHECK(fault(job) == "[job] local_rank is 2, expected 0 to 1");
  job.local_rank = 1;
  CHECK(fault(job) == "");  // a plan needs no rendezvous
  for (const double bad : {-1.0, double{NAN}, double{INFINITY}}) {
    job.timeout = bad;
    CHECK(fault(job).find(", expected a finite number above 0, or 0 for what [topology] says") !=
          std::string::npos);
    std::swap(job.timeout, job.connect_timeout);
    CHECK(fault(job).find("[job] a timeout is ") == 0);
    job.timeout = job.connect_timeout = 1;
    CHECK(fault(job) == "");
  }
  job.rendezvous = "nowhere";
  CHECK(fault(job) == "[job] the rendezvous 'nowhere' is neither HOST:PORT nor file:PATH");
  job.rendezvous = "h:1";
  job.secret = "short";
  CHECK(fault(job).find("the secret has 5 bytes, expected 16 to 4096") != std::string::npos);
  job.rendezvous = "file:/m";
  CHECK(fault(job).find("the file at which the ranks meet brings one") != std::string::npos);
  job.size = 0;
  CHECK(fault(job).find("size is 0, expected 1 to ") != std::string::npos);
}

TEST_CASE("a description tells all but the secret") {
  Job job;
  job.rank = 1, job.size = 2, job.local_rank = 1, job.local_size = 2;
  job.source = "host", job.reason = "said so", job.rendezvous = "h:1",
  job.secret = "0123456789abcdef";
  job.timeout = 2.5;
  CHECK(describe(job) ==
        R"({"schema": 1, "rank": 1, "size": 2, "local_rank": 1, "local_size": 2, )"
        R"("rendezvous": "h:1", )"
        R"("source": "host", "reason": "said so", "connect_timeout": 0.0, "timeout": 2.5})");
}
