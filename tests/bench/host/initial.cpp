// How long the initial values of a model take: opens a session of the experiment on one rank and
// prints one JSON line with the wall time of that, the processor time and the number of parameters.
#include "common.hpp"

int main(int count, char** values) {
  return bench::guarded([&] {
    const bench::Arguments a(count, values);
    plait::Engine engine(bench::settings(a));
    const plait::Experiment experiment = plait::Experiment::read(engine, a.experiment, a.overrides);
    const plait::Plan plan(experiment);
    plait::SessionSettings settings;
    settings.no_files = true;
    const double wall = bench::now(), cpu = bench::cpu_seconds();
    const plait::Session session(plan, settings);
    const double cpu_s = bench::cpu_seconds() - cpu, wall_s = bench::now() - wall;
    std::printf("{\"cpu_s\": %.6f, \"wall_s\": %.6f}\n", cpu_s, wall_s);
  });
}
