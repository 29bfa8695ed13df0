// Jobs: this rank and its peers.
#include <cstdlib>

#include "engine/capi/objects.hpp"
#include "engine/runtime/control.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

int32_t number(uint32_t value, const char* what) {
  if (value > INT32_MAX)
    fail_invalid(std::string("[capi] plait_job_options.") + what + " is " + std::to_string(value) +
                 ", which is not a valid number of ranks");
  return static_cast<int32_t>(value);
}

runtime::Job job_of(const plait_job_options& o) {
  runtime::Job job;
  job.rank = number(o.rank, "rank");
  job.size = number(o.size, "size");
  job.local_rank = o.local_size ? number(o.local_rank, "local_rank") : job.rank;
  job.local_size = o.local_size ? number(o.local_size, "local_size") : job.size;
  job.source = "host";
  job.reason = "the program said so";
  if (o.rendezvous) job.rendezvous = o.rendezvous;
  if (o.secret_size > 0) {
    require(o.secret, "plait_job_options.secret");
    job.secret = std::string_view(static_cast<const char*>(o.secret), o.secret_size);
  }
  job.connect_timeout = o.connect_timeout;
  job.timeout = o.timeout;
  runtime::check(job);
  return job;
}

}  // namespace

extern "C" {

plait_error* plait_job_open(const plait_job_options* options, plait_job** out) {
  return guard_c([&] {
    require(out, "out");
    *out = new plait_job{options ? job_of(read_options(options, kJobOptionsV1, "plait_job_options"))
                                 : runtime::job_from_environment(secure_getenv)};
  });
}

plait_error* plait_job_describe(const plait_job* job, plait_text** json) {
  return guard_c([&] {
    require(job, "job");
    require(json, "json");
    *json = new_text(runtime::describe(job->job));
  });
}

plait_error* plait_job_fail(const plait_job* job, const char* text, uint64_t size) {
  return guard_c([&] {
    require(job, "job");
    runtime::Job told = job->job;
    // No plan says how long; the others know it better.
    constexpr double kSeconds = 10;
    if (told.connect_timeout <= 0) told.connect_timeout = kSeconds;
    if (told.timeout <= 0) told.timeout = kSeconds;
    Log silent;
    runtime::Control::announce_failure(told, text_argument(text, size, "text"), silent);
  });
}

void plait_job_close(plait_job* job) { delete job; }

}  // extern "C"
