#include "engine/runtime/job.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/env_variables.hpp"
#include "engine/runtime/job_rendezvous.hpp"
#include "engine/topology/grid.hpp"

namespace plait::runtime {
namespace {

// Names of the variables in which a launcher gives a process its rank.
struct VariableNames {
  const char *rank, *size, *local_rank, *local_size;
};
constexpr VariableNames kOwn = {"PLAIT_RANK", "PLAIT_WORLD_SIZE", "PLAIT_LOCAL_RANK",
                                "PLAIT_LOCAL_WORLD_SIZE"};
constexpr VariableNames kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr VariableNames kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr VariableNames kMpich = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

class Detection {
 public:
  explicit Detection(const GetEnv& get) : v_(get) {}
  Job job();

 private:
  bool own();
  bool torchrun();
  bool slurm();
  bool open_mpi();
  bool mpich();
  void world(const char* rank, const char* size);
  void locality(const char* rank, const char* size);
  void read(const VariableNames& names, const char* source);
  void all_local();
  int64_t slurm_tasks_here() const;
  const char* slurm_shell() const;

  const EnvVariables v_;
  Job job_;
  std::string key_;          // of the job among the jobs of this user
  std::string passed_over_;  // a launcher whose variables are there and do not count
};

void Detection::world(const char* rank, const char* size) {
  job_.size = static_cast<int32_t>(v_.integer(size, 1, topology::kMaxRanks));
  job_.rank = static_cast<int32_t>(v_.integer(rank, 0, topology::kMaxRanks - 1));
  if (job_.rank >= job_.size)
    v_.refuse(rank, "less than " + std::string(size) + ", which is " + std::to_string(job_.size));
}

void Detection::locality(const char* rank, const char* size) {
  job_.local_size = static_cast<int32_t>(v_.integer(size, 1, job_.size));
  job_.local_rank = static_cast<int32_t>(v_.integer(rank, 0, job_.local_size - 1));
}

void Detection::all_local() {
  job_.local_rank = job_.rank;
  job_.local_size = job_.size;
}

// Who we are, and among whom on this machine: that may be said in our own variables, too, for
// launchers that do not.
void Detection::read(const VariableNames& names, const char* source) {
  job_.source = source;
  job_.reason = std::string(names.rank) + " and " + names.size + " are set";
  world(names.rank, names.size);
  if (v_.has(kOwn.local_rank) || v_.has(kOwn.local_size))
    locality(kOwn.local_rank, kOwn.local_size);
  else if (v_.has(names.local_rank) && v_.has(names.local_size))
    locality(names.local_rank, names.local_size);
  else if (job_.size == 1 || names.rank == kOwn.rank)
    all_local();
  else
    fail_config(std::string("[job] ") + names.rank + " and " + names.size + " tell of " +
                std::to_string(job_.size) + " ranks, but nothing tells how many of them are on " +
                "this machine; set " + names.local_rank + " and " + names.local_size +
                ", or PLAIT_LOCAL_RANK and PLAIT_LOCAL_WORLD_SIZE");
}

bool Detection::own() {
  const bool rank = v_.has(kOwn.rank), size = v_.has(kOwn.size);
  if (rank != size)
    fail_config(std::string("[job] ") + (rank ? kOwn.rank : kOwn.size) + " is set, but " +
                (rank ? kOwn.size : kOwn.rank) + " is not; set both, or neither");
  if (!rank) return false;
  read(kOwn, "PLAIT");
  return true;  // and whoever sets these says where to meet, too: there is no key
}

bool Detection::torchrun() {
  if (!v_.has("RANK") || !v_.has("WORLD_SIZE")) return false;
  const std::string master = v_.text("MASTER_ADDR");
  const bool loopback = master == "localhost" || master == "::1" || master.starts_with("127.");
  VariableNames names = kTorchrun;
  if (!v_.has("LOCAL_WORLD_SIZE") && loopback) {  // set by hand, as scripts for PyTorch have it
    names.local_rank = names.rank;
    names.local_size = names.size;
  }
  read(names, "torchrun");
  // Never MASTER_PORT itself: with TORCHELASTIC_USE_AGENT_STORE the agent serves there.
  key_ = "torchrun-" + v_.text("TORCHELASTIC_RUN_ID") + "-" + v_.text("MASTER_PORT") + "-" +
         v_.text("TORCHELASTIC_RESTART_COUNT");
  // Run ids and ports repeat ("none", 29500); the folder for the errors of all ranks of an attempt
  // does not.
  const std::string error = v_.text("TORCHELASTIC_ERROR_FILE"),
                    own = "/" + v_.text("LOCAL_RANK") + "/error.json";
  if (ends_with(error, own)) key_ += "-" + error.substr(0, error.size() - own.size());
  return true;
}

// "2(x3),1" says: two tasks on each of the first three nodes, one on the next. -1 when it does not
// say.
int64_t Detection::slurm_tasks_here() const {
  const std::string all = v_.text("SLURM_STEP_TASKS_PER_NODE");
  int64_t node = v_.has("SLURM_NODEID") ? v_.integer("SLURM_NODEID", 0, topology::kMaxRanks) : 0;
  for (const std::string& part : split(all, ',')) {
    int64_t tasks = 0, times = 1;
    const char *at = part.data(), *end = at + part.size();
    auto found = std::from_chars(at, end, tasks);
    bool fine = found.ec == std::errc() && tasks >= 0;
    if (fine && found.ptr != end) {
      fine = ends_with(part, ")") && std::string_view(found.ptr, 2) == "(x";
      if (fine) found = std::from_chars(found.ptr + 2, end - 1, times);
      fine = fine && found.ec == std::errc() && found.ptr == end - 1 && times > 0;
    }
    if (!fine) v_.refuse("SLURM_STEP_TASKS_PER_NODE", "a list like 2(x3),1");
    if (node < times) return tasks;
    node -= times;
  }
  return -1;
}

// Why a step is a shell in which somebody works rather than one of many ranks; NULL when it is not.
const char* Detection::slurm_shell() const {
  const std::string name = v_.text("SLURM_JOB_NAME");
  if (name != "bash" && name != "interactive") return nullptr;
  if (v_.has("SLURM_PTY_PORT")) return "SLURM_PTY_PORT is set: a shell in an allocation";
  // Without a terminal of srun's own, srun within salloc starts ranks.
  return v_.text("SLURM_STEP_NUM_TASKS") == "1" ? "the job is a shell" : nullptr;
}

bool Detection::slurm() {
  if (!v_.has("SLURM_PROCID")) return false;
  if (!v_.has("SLURM_STEP_ID")) {
    passed_over_ =
        "SLURM_PROCID is set but SLURM_STEP_ID is not: a batch script, not a task of srun";
    return false;
  }
  if (const char* why = slurm_shell()) {
    passed_over_ = std::string("a Slurm step, but ") + why;
    return false;
  }
  // srun may have started no rank of ours but a manager, which gives its own tasks to those that it
  // starts.
  if (v_.has(kOpenMpi.rank) || v_.has(kMpich.local_rank)) return false;
  job_.source = "Slurm";
  job_.reason = "SLURM_PROCID and SLURM_STEP_ID are set";
  world("SLURM_PROCID", v_.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  if (v_.has(kOwn.local_rank) || v_.has(kOwn.local_size)) {
    locality(kOwn.local_rank, kOwn.local_size);
  } else if (const int64_t here = slurm_tasks_here(); here > 0) {
    job_.local_size = static_cast<int32_t>(std::min<int64_t>(here, job_.size));
    job_.local_rank = static_cast<int32_t>(v_.integer("SLURM_LOCALID", 0, job_.local_size - 1));
  } else if (job_.size == 1) {
    all_local();
  } else {
    fail_config(
        "[job] SLURM_STEP_TASKS_PER_NODE does not tell how many ranks are on this node; set "
        "PLAIT_LOCAL_RANK and PLAIT_LOCAL_WORLD_SIZE");
  }
  key_ = "slurm-" + v_.text("SLURM_JOB_ID") + "." + v_.text("SLURM_STEP_ID") + "-" +
         v_.text("SLURM_RESTART_COUNT");
  return true;
}

bool Detection::open_mpi() {
  if (!v_.has(kOpenMpi.rank) || !v_.has(kOpenMpi.size)) return false;
  read(kOpenMpi, "Open MPI");
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    if (key_.empty() && v_.has(name)) key_ = "openmpi-" + v_.text(name);
  return true;
}

bool Detection::mpich() {
  if (!v_.has(kMpich.rank) || !v_.has(kMpich.size)) return false;
  read(kMpich, "MPICH");
  key_ = "mpich-" + (v_.has("PMI_PORT") ? v_.text("PMI_PORT") : ancestor_key());
  return true;
}

Job Detection::job() {
  if (own() || torchrun() || slurm() || open_mpi() || mpich()) {
    configure_rendezvous(job_, key_, v_.get());
    return std::move(job_);
  }
  job_.reason = passed_over_.empty() ? "no launcher has set its variables" : passed_over_;
  job_.connect_timeout = v_.seconds("PLAIT_CONNECT_TIMEOUT", job_.connect_timeout);
  job_.timeout = v_.seconds("PLAIT_TIMEOUT", job_.timeout);
  return std::move(job_);
}

}  // namespace

Job job_from_environment(const GetEnv& get) { return Detection(get).job(); }

void check(const Job& job) {
  const auto refuse = [](const std::string& what) { fail_invalid("[job] " + what); };
  if (job.size < 1 || job.size > topology::kMaxRanks)
    refuse("size is " + std::to_string(job.size) + ", expected 1 to " +
           std::to_string(topology::kMaxRanks));
  if (job.rank < 0 || job.rank >= job.size)
    refuse("rank is " + std::to_string(job.rank) + ", expected 0 to " +
           std::to_string(job.size - 1));
  if (job.local_size < 1 || job.local_size > job.size)
    refuse("local_size is " + std::to_string(job.local_size) + ", expected 1 to " +
           std::to_string(job.size));
  if (job.local_rank < 0 || job.local_rank >= job.local_size)
    refuse("local_rank is " + std::to_string(job.local_rank) + ", expected 0 to " +
           std::to_string(job.local_size - 1));
  for (const double seconds : {job.connect_timeout, job.timeout})
    if (!(seconds >= 0) || !std::isfinite(seconds))
      refuse("a timeout is " + real_text(seconds) +
             " s, expected a finite number above 0, or 0 for what [topology] says");
  if (job.rendezvous.empty()) return;
  if (const std::string fault = rendezvous_error(job.rendezvous); !fault.empty())
    refuse("the rendezvous '" + printable(job.rendezvous) + "' " + fault);
  const size_t n = job.secret.size();
  if (is_file_rendezvous(job.rendezvous)) {
    if (n > 0) refuse("a secret is given, but the file at which the ranks meet brings one");
  } else if (n < kMinSecret || n > kMaxSecret) {
    refuse("the secret has " + std::to_string(n) + " bytes, expected " +
           std::to_string(kMinSecret) + " to " + std::to_string(kMaxSecret) +
           " that nobody can guess");
  }
}

plugin::JobPlace place_of(const Job& job) {
  return {static_cast<uint32_t>(job.rank), static_cast<uint32_t>(job.size),
          static_cast<uint32_t>(job.local_rank), static_cast<uint32_t>(job.local_size)};
}

std::string describe(const Job& job) {
  JsonWriter w;
  w.object().field("schema", 1).field("rank", job.rank).field("size", job.size);
  w.field("local_rank", job.local_rank).field("local_size", job.local_size);
  w.field("rendezvous", job.rendezvous).field("source", job.source).field("reason", job.reason);
  w.field("connect_timeout", job.connect_timeout).field("timeout", job.timeout);
  w.end_object();
  return w.text();
}

}  // namespace plait::runtime
