// How long a plan takes to make, and what its programs hold. Plans rank 0 of --steps ranks --times
// times and prints one JSON line for each: the processor time, which is what others on the machine
// disturb least, the wall time and the transient bytes. --mode every-rank: plans all ranks of the
// experiment once, and prints their number, the times and the peak memory of this process in bytes.
#include "common.hpp"

namespace {

// The number behind a key that the plan's JSON has once at its top level or in "memory".
long long number_of(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  if (at == std::string::npos) throw std::runtime_error("[bench] the plan has no '" + key + "'");
  return std::atoll(json.c_str() + at + key.size() + 3);
}

void every_rank(const plait::Experiment& experiment) {
  const double wall = bench::now(), cpu = bench::cpu_seconds();
  const std::string job = plait::plan_every_rank(experiment);
  const double cpu_s = bench::cpu_seconds() - cpu, wall_s = bench::now() - wall;
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  std::printf(
      "{\"ranks\": %lld, \"planned\": %lld, \"cpu_s\": %.6f, \"wall_s\": %.6f, \"peak\": %lld}\n",
      number_of(job, "ranks"), number_of(job, "planned_ranks"), cpu_s, wall_s,
      1024LL * use.ru_maxrss);
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    const bench::Arguments a(count, values);
    plait::Engine engine(bench::settings(a));
    const plait::Experiment experiment = plait::Experiment::read(engine, a.experiment, a.overrides);
    if (a.mode == "every-rank") return every_rank(experiment);
    plait::JobSettings settings;
    settings.rank = 0;
    settings.size = a.steps;
    const plait::Job job(settings);
    const double wall = bench::now(), cpu = bench::cpu_seconds();
    const plait::Plan plan(experiment, job);
    const double cpu_s = bench::cpu_seconds() - cpu, wall_s = bench::now() - wall;
    std::printf("{\"cpu_s\": %.6f, \"wall_s\": %.6f, \"transient\": %lld}\n", cpu_s, wall_s,
                number_of(plan.describe(), "transient"));
  });
}
