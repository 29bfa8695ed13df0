// What the library leaves alone in the host's process: the cores of its threads, and its children.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/host/host.hpp"

using host::failure_of;
using host::small;

namespace {

cpu_set_t cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  return set;
}
bool same(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b) != 0; }

const std::vector<const char*> kBind = {"run.device=cpu", "device.bind=all", "device.first_core=0",
                                        "device.threads=1"};

// Runs f in a child, which must end by itself within a few seconds. Returns its status, or 128 plus
// the signal that ended it.
template <class F>
int status_of_child(F&& f) {
  const pid_t id = fork();
  REQUIRE(id >= 0);
  if (id == 0) {
    for (const int s : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT}) signal(s, SIG_DFL);
    alarm(10);
    _exit(f());
  }
  int status = 0;
  REQUIRE(waitpid(id, &status, 0) == id);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a thread of the host keeps its cores unless the host asks for binding") {
  const cpu_set_t before = cores();
  const host::Run run(small(), "", PLAIT_RESUME_NEVER, {"run.device=cpu"});
  run.step();
  CHECK(same(cores(), before));
}

TEST_CASE("a bound thread gets its cores back, whatever session is closed first") {
  const cpu_set_t before = cores();
  if (CPU_COUNT(&before) < 2) return;  // every mask is the same
  for (const bool oldest_first : {true, false}) {
    CAPTURE(oldest_first);
    auto one = std::make_unique<host::Run>(small(), "", PLAIT_RESUME_NEVER, kBind);
    auto two = std::make_unique<host::Run>(small(), "", PLAIT_RESUME_NEVER, kBind);
    one->step();
    two->step();
    one->step();
    CHECK_FALSE(same(cores(), before));
    (oldest_first ? one : two).reset();
    CHECK_FALSE(same(cores(), before));  // the other one is still there
    one.reset();
    two.reset();
    CHECK(same(cores(), before));
  }
}

TEST_CASE("a view that outlives its session does not keep the thread bound") {
  const cpu_set_t before = cores();
  plait_dl_managed* view = nullptr;
  {
    const host::Run run(small(), "", PLAIT_RESUME_NEVER, kBind);
    run.step();
    host::check(plait_session_view(run.session(), "model.linear1.weight", &view));
  }
  CHECK(same(cores(), before));
  view->deleter(view);
  CHECK(same(cores(), before));
}

TEST_CASE("in a forked child every call on the parent's objects fails, and closing them returns") {
  plait_engine* engine = host::new_engine();
  plait_experiment* experiment = nullptr;
  host::check(
      plait_experiment_parse(engine, small().c_str(), PLAIT_NTS, "t", nullptr, &experiment));
  plait_plan* plan = nullptr;
  host::check(plait_plan_make(experiment, &plan));
  plait_session_options options{};
  options.struct_size = sizeof options;
  options.no_files = 1;
  plait_session* session = nullptr;
  host::check(plait_session_open(plan, &options, &session));
  host::check(plait_session_step(session, nullptr, 0, nullptr));
  const int status = status_of_child([&] {
    const auto refused = [](plait_error* e) {
      return plait_error_code(e) == PLAIT_ERR_STATE &&
             std::strstr(plait_error_text(e), "made before fork()") != nullptr;
    };
    plait_text* text = nullptr;
    plait_session* other = nullptr;
    plait_plan* again = nullptr;
    if (!refused(plait_session_step(session, nullptr, 0, nullptr))) return 1;
    if (!refused(plait_session_run(session, nullptr))) return 2;
    if (!refused(plait_session_describe(session, &text))) return 3;
    if (!refused(plait_engine_describe(engine, &text))) return 4;
    if (!refused(plait_session_open(plan, &options, &other))) return 5;
    if (!refused(plait_plan_make(experiment, &again))) return 6;
    plait_session_cancel(session);
    plait_session_close(session);
    plait_plan_close(plan);
    plait_experiment_close(experiment);
    plait_engine_close(engine);
    return 0;
  });
  CHECK(status == 0);
  // The parent goes on as if nothing had happened.
  host::check(plait_session_step(session, nullptr, 0, nullptr));
  plait_session_close(session);
  plait_plan_close(plan);
  plait_experiment_close(experiment);
  plait_engine_close(engine);
}

TEST_CASE("a forked child of a process that has computed opens no session of its own") {
  const host::Run run(small(), "", PLAIT_RESUME_NEVER, {"run.device=cpu"});
  run.step();
  const int status = status_of_child([] {
    const auto f = failure_of([] {
      const host::Run other(small(), "", PLAIT_RESUME_NEVER, {"run.device=cpu"});
      other.step();
    });
    if (f.code != PLAIT_ERR_STATE) return 1;
    return f.text.find("which has computed") == std::string::npos ? 2 : 0;
  });
  CHECK(status == 0);
}
