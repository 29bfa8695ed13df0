// Loads, plans, opens and runs an experiment once for each row of faults.inc, in a child process.
// Every row must end with an error that names the plugin and the item at fault: no signal, no hang,
// no error that calls itself a bug of the engine.
#include <doctest/doctest.h>

#include <plait/plait.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/folder.hpp"
#include "tests/support/threads.hpp"

namespace {

enum Stage { kLoad, kPlan, kOpen, kRun, kNever };
constexpr const char* kStages[] = {"load", "plan", "open", "run", "never"};
enum Ranks { kOne, kData, kTensor };

struct Row {
  Stage stage;
  Ranks ranks;
  const char *name, *item, *says;
};
constexpr Row kRows[] = {
#define FAULT(stage, ranks, name, item, says, ...) {stage, ranks, #name, item, says},
#include "tests/abi/planted/faults.inc"
#undef FAULT
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLimitSeconds = 60;
#else
constexpr int kLimitSeconds = 15;
#endif

constexpr char kExperiment[] = R"(
[run]
steps = 3
device = "misfit.device"
[batch]
global = 4
[data.train]
type = "misfit.dataset"
[data.eval]
type = "misfit.dataset"
[[model.layers]]
type = "misfit.layer"
name = "hidden"
[loss]
type = "misfit.loss"
[[metrics]]
type = "misfit.metric"
[optimizer]
type = "misfit.optimizer"
[optimizer.schedule]
type = "misfit.schedule"
)";

// The first error of a rank, as it is written to the parent.
struct Outcome {
  Stage stage = kNever;
  uint32_t code = PLAIT_OK;
  std::string text;
};

struct Job {
  Ranks ranks;
  uint32_t rank, size;
  std::string rendezvous;
};

// One rank's way through the API; stops at the first error and closes everything.
class Rank {
 public:
  explicit Rank(const Job& job) { go(job); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    plait_session_close(session_);
    plait_plan_close(plan_);
    plait_job_close(job_);
    plait_experiment_close(experiment_);
    plait_engine_close(engine_);
  }
  Outcome outcome;

 private:
  bool failed(Stage stage, plait_error* e) {
    if (!e) return false;
    outcome = {stage, plait_error_code(e), plait_error_full_text(e)};
    plait_error_free(e);
    return true;
  }
  void go(const Job& job) {
    static const char* const paths[] = {MISFIT};
    plait_engine_options options{};
    options.struct_size = sizeof options;
    options.no_default_plugins = options.keep_plugins_loaded = 1;
    options.plugin_paths = paths;
    options.n_plugin_paths = 1;
    options.log_level = PLAIT_LOG_WARN;
    options.log_user = this;
    options.log = [](void* self, uint32_t, const char* text, uint64_t size) {
      std::string& log = static_cast<Rank*>(self)->log_;
      log += std::string(text, size) + "\n";
    };
    if (failed(kLoad, plait_engine_open(&options, &engine_)) || failed(kPlan, read(job)) ||
        failed(kPlan, plan(job)) || failed(kOpen, open()))
      return;
    plait_text* json = nullptr;
    if (failed(kRun, plait_session_run(session_, nullptr)) ||
        failed(kRun, plait_session_evaluate(session_, nullptr, &json)))
      return;
    plait_text_free(json);
    plait_session_close(session_);  // the warnings of that come late
    session_ = nullptr;
    outcome.text = log_;
  }
  plait_error* read(const Job& job) {
    const char* data[] = {"topology.data=2", "topology.backend=misfit.comm",
                          "topology.connect_timeout=5"};
    const char* tensor[] = {"topology.tensor=2", data[1], data[2]};
    plait_experiment_options options{};
    options.struct_size = sizeof options;
    options.overrides = job.ranks == kTensor ? tensor : data;
    options.n_overrides = job.ranks == kOne ? 0 : 3;
    return plait_experiment_parse(engine_, kExperiment, PLAIT_NTS, "test.toml", &options,
                                  &experiment_);
  }
  plait_error* plan(const Job& job) {
    plait_job_options options{};
    options.struct_size = sizeof options;
    options.rank = options.local_rank = job.rank;
    options.size = options.local_size = job.size;
    const std::string rendezvous = "file:" + job.rendezvous;
    if (job.size > 1) options.rendezvous = rendezvous.c_str();
    if (plait_error* e = plait_job_open(&options, &job_)) return e;
    return plait_plan_make_for(experiment_, job_, &plan_);
  }
  plait_error* open() {
    plait_session_options options{};
    options.struct_size = sizeof options;
    options.no_files = 1;
    return plait_session_open(plan_, &options, &session_);
  }

  std::string log_;
  plait_engine* engine_ = nullptr;
  plait_experiment* experiment_ = nullptr;
  plait_job* job_ = nullptr;
  plait_plan* plan_ = nullptr;
  plait_session* session_ = nullptr;
};

// All that a child did, as the parent sees it.
struct Child {
  std::vector<Outcome> ranks;
  int signal = 0;  // that ended it; SIGALRM: it took too long
  int status = 0;
};

void put(std::string& to, const Outcome& o) {
  to += std::to_string(o.stage) + " " + std::to_string(o.code) + " " +
        std::to_string(o.text.size()) + "\n" + o.text;
}

void child(const Row& row, int pipe) {
  // A signal ends the child: the test framework's handlers are the parent's.
  for (const int s : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTERM, SIGINT})
    signal(s, SIG_DFL);
  setenv("PLAIT_PLANTED", row.name, 1);
  alarm(kLimitSeconds);
  const plait::test::Folder folder;
  const uint32_t size = row.ranks == kOne ? 1 : 2;
  std::vector<Outcome> outcomes(size);
  plait::test::on_threads(static_cast<int>(size), [&](int r) {
    const auto rank = static_cast<uint32_t>(r);
    outcomes[rank] = Rank({row.ranks, rank, size, folder / "rendezvous"}).outcome;
  });
  std::string all;
  for (const Outcome& o : outcomes) put(all, o);
  for (size_t at = 0; at < all.size();) {
    const ssize_t n = write(pipe, all.data() + at, all.size() - at);
    if (n <= 0) _exit(9);
    at += static_cast<size_t>(n);
  }
}

Child run(const Row& row) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t id = fork();
  REQUIRE(id >= 0);
  if (id == 0) {
    close(ends[0]);
    child(row, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    all.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(id, &status, 0);
  Child c;
  if (WIFSIGNALED(status)) c.signal = WTERMSIG(status);
  if (WIFEXITED(status)) c.status = WEXITSTATUS(status);
  for (size_t at = 0; at < all.size();) {
    char* end = nullptr;
    Outcome o;
    o.stage = static_cast<Stage>(std::strtol(all.c_str() + at, &end, 10));
    o.code = static_cast<uint32_t>(std::strtoul(end, &end, 10));
    const size_t size = std::strtoul(end, &end, 10);
    at = static_cast<size_t>(end + 1 - all.c_str());
    o.text = all.substr(at, size);
    at += size;
    c.ranks.push_back(o);
  }
  return c;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Texts of other software, or torn by what an item calls itself.
bool readable(const std::string& text) {
  for (const char* part : {"_M_", "basic_string", "vector::", "std::bad", "[plugin ]", "''"})
    if (contains(text, part)) return false;
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return false;
  return true;
}

// "" if the row did what it must, else what is wrong.
std::string fault_of(const Row& row, const Child& c) {
  if (c.signal == SIGALRM) return "hangs";
  if (c.signal) return "ends by signal " + std::to_string(c.signal);
  if (c.status || c.ranks.size() != (row.ranks == kOne ? 1 : 2))
    return "ends with status " + std::to_string(c.status);
  for (const Outcome& o : c.ranks) {
    const bool never = row.stage == kNever;
    if (!never && o.code == PLAIT_OK) return "is taken in silence";
    // A rank may be told of the other's fault before it has left the call that opens its session.
    const bool told = o.stage == kOpen && row.stage == kRun &&
                      std::any_of(c.ranks.begin(), c.ranks.end(),
                                  [](const Outcome& other) { return other.stage == kRun; });
    if (o.stage != row.stage && !told) return std::string("is found by ") + kStages[o.stage];
    if (o.code == PLAIT_ERR_INTERNAL) return "is an internal error";
    if (!readable(o.text)) return "has a message that is not readable";
  }
  // Of two ranks the second may only hear of the first one's error.
  std::string missing;
  for (const Outcome& o : c.ranks) {
    missing.clear();
    if (!contains(o.text, "misfit") ||
        !(contains(o.text, "plugin misfit") || contains(o.text, "plugin 'misfit'") ||
          contains(o.text, "[misfit]") || contains(o.text, "plait-misfit.so")))
      missing += " the plugin";
    if (!contains(o.text, row.item)) missing += std::string(" ") + row.item;
    if (!contains(o.text, row.says)) missing += std::string(" \"") + row.says + "\"";
    if (missing.empty()) return "";
  }
  return "does not say:" + missing;
}

void check(Stage stage) {
  const char* only = std::getenv("PLAIT_PLANTED_ONLY");
  for (const Row& row : kRows) {
    if (row.stage != stage || (only && std::string_view(only) != row.name)) continue;
    const Child c = run(row);
    const std::string fault = fault_of(row, c);
    std::string texts;
    for (const Outcome& o : c.ranks) texts += "  | " + o.text + "\n";
    CHECK_MESSAGE(fault.empty(), std::string(row.name), " ", fault, "\n", texts);
    if (only || std::getenv("PLAIT_PLANTED_PRINT")) MESSAGE(std::string(row.name), "\n", texts);
  }
}

}  // namespace

TEST_CASE("without a fault the plugin trains, on one rank and on two") {
  for (const Ranks ranks : {kOne, kData, kTensor}) {
    const Child c = run({kNever, ranks, "none", "", ""});
    REQUIRE(c.signal == 0);
    for (const Outcome& o : c.ranks) {
      CHECK(o.code == PLAIT_OK);
      CHECK(o.text == "");
    }
  }
}

TEST_CASE("the table has at least 150 faults, each of another name") {
  std::set<std::string_view> names;
  for (const Row& row : kRows) names.insert(row.name);
  CHECK(names.size() == std::size(kRows));
  CHECK(names.size() >= 150);
}

TEST_CASE("faults of tables are found when the plugin is loaded") { check(kLoad); }
TEST_CASE("faults of build() and of rules are found when the plan is made") { check(kPlan); }
TEST_CASE("faults of devices, kernels and backends are found when the session opens") {
  check(kOpen);
}
TEST_CASE("faults of a step end the run") { check(kRun); }
TEST_CASE("faults of releasing functions are warnings") { check(kNever); }
