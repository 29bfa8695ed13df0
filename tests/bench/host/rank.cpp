// One rank of an experiment, selected by the environment: runs a few steps, then prints its memory
// as one line.
#include <unistd.h>

#include <fstream>

#include "common.hpp"

namespace {

// Anonymous memory of this process in bytes.
long anonymous_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;)
    if (long kib = 0; word == "RssAnon:" && in >> kib) return kib * 1024;
  return 0;
}

void measure(const bench::Arguments& a) {
  plait::Engine engine(bench::settings(a));
  const plait::Plan plan(plait::Experiment::read(engine, a.experiment, a.overrides),
                         plait::Job::from_environment());
  const long before = anonymous_bytes();
  plait::SessionSettings settings;
  settings.no_files = true;
  plait::Session session(plan, settings);
  for (int i = 0; i < a.steps; ++i) session.step();
  std::printf(R"({"grown": %ld, "session": %s, "plan": %s})", anonymous_bytes() - before,
              session.describe().c_str(), plan.describe().c_str());
  std::putchar('\n');
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] { measure(bench::Arguments(count, values)); });
}
