// The ranks that train together: which of them this process is, and where they meet.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/plugin/job_place.hpp"
#include "kit/secret.hpp"

namespace plait::runtime {

struct Job {
  int32_t rank = 0, size = 1;
  int32_t local_rank = 0, local_size = 1;  // among the ranks of this machine
  std::string source =
      "alone";         // source of these values: "host", "PLAIT", "torchrun", ..., "alone"
  std::string reason;  // one line for the log
  // Where the ranks meet. "HOST:PORT": rank 0 listens there, and all know the secret. "file:PATH":
  // rank 0 listens where it likes and writes address and secret to that file, which only this user
  // can read. "": nowhere, good for plans only.
  std::string rendezvous;
  kit::Secret secret;  // empty where the file brings it
  int listen_fd = -1;  // of rank 0: a socket that listens at the rendezvous's port already; owned
                       // by whoever gave it
  // Seconds, 0: as [topology] says.
  double connect_timeout = 0;  // for all ranks to arrive
  double timeout = 0;          // for one exchange, and of silence before a rank counts as lost
};

using GetEnv = std::function<const char*(const char* name)>;  // getenv

// Who this process is, from the variables of whoever started it: PLAIT_*, torchrun, a Slurm step,
// Open MPI, MPICH, in this order; else alone. Errors: PLAIT_ERR_CONFIG naming a variable that makes
// no sense.
Job job_from_environment(const GetEnv& get);

// Errors: PLAIT_ERR_INVALID naming the member that makes no sense. A job of the environment always
// passes.
void check(const Job& job);

// What plugins learn of it.
plugin::JobPlace place_of(const Job& job);

// For messages and tools: a JSON object without the secret.
std::string describe(const Job& job);

}  // namespace plait::runtime
