// Compares planned memory with the process's real memory. Prints one JSON line: the plan's figures,
// the arena of the session, and the resident bytes before the plan, before the session and after
// --steps steps.
#include <cstring>

#include "common.hpp"

namespace {

struct Resident {
  long long anonymous = 0, file = 0;  // bytes
};

Resident resident() {
  Resident r;
  std::FILE* f = std::fopen("/proc/self/status", "r");
  if (!f)
    throw std::runtime_error("[bench] /proc/self/status can't be read; this figure needs Linux");
  char line[256];
  while (std::fgets(line, sizeof line, f)) {
    if (std::strncmp(line, "RssAnon:", 8) == 0) r.anonymous = std::atoll(line + 8) * 1024;
    if (std::strncmp(line, "RssFile:", 8) == 0) r.file = std::atoll(line + 8) * 1024;
  }
  std::fclose(f);
  return r;
}

void print(const char* name, const Resident& r) {
  std::printf(R"("%s": {"anonymous": %lld, "file": %lld}, )", name, r.anonymous, r.file);
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    const bench::Arguments a(count, values);
    plait::Engine engine(bench::settings(a));
    const plait::Experiment experiment = plait::Experiment::read(engine, a.experiment, a.overrides);
    const Resident at_start = resident();
    const plait::Plan plan(experiment);
    const std::string planned = plan.describe();
    const Resident before = resident();
    plait::SessionSettings settings;
    settings.no_files = true;
    plait::Session session(plan, std::move(settings));
    const Resident opened = resident();
    for (int i = 0; i < a.steps; ++i) session.step();
    const Resident after = resident();
    std::putchar('{');
    print("before_plan", at_start);
    print("before_session", before);
    print("session_opened", opened);
    print("after_steps", after);
    std::printf("\"plan\": %s, \"session\": %s}\n", planned.c_str(), session.describe().c_str());
  });
}
