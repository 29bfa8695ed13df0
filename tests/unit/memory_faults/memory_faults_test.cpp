// The n-th allocation fails, for one n after another: every call returns a typed error, leaks
// nothing, and works again afterwards. PLAIT_TEST_ALL=1 tries every n, otherwise an even sample.
#include <plait/checkpoint.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>

#include "tests/unit/host/host.hpp"
#include "tests/unit/memory_faults/faults.hpp"

namespace {

using Call = std::function<plait_error*()>;  // frees the objects that it has created

bool try_all() { return std::getenv("PLAIT_TEST_ALL") != nullptr; }

// Codes that a failed allocation may end in: out of memory; the error that a library derives from
// it (streams, which parse numbers for the TOML parser, only report a failure); or that every
// kernel was refused, each with its reason.
bool typed(uint32_t code) {
  return code == PLAIT_ERR_MEMORY || code == PLAIT_ERR_IO || code == PLAIT_ERR_PLUGIN ||
         code == PLAIT_ERR_DEVICE || code == PLAIT_ERR_CONFIG || code == PLAIT_ERR_UNIMPLEMENTED;
}

// Outputs that calls have written although they failed.
int64_t g_touched = 0;

struct Tally {
  int64_t trials = 0, errors = 0, memory = 0, single = 0, named = 0, other = 0, leaks = 0;
  char worst[400] = "";  // the first untyped error; not a string, which would count as a leak
  void add(plait_error* e, const char* name) {
    const uint32_t code = plait_error_code(e);
    ++errors;
    memory += code == PLAIT_ERR_MEMORY;
    if (name && code == PLAIT_ERR_MEMORY) {
      ++single;
      named += std::strstr(plait_error_full_text(e), name) != nullptr;
    }
    if ((!typed(code) || *plait_error_text(e) == 0) && other++ == 0)
      std::snprintf(worst, sizeof worst, "%u %s", code, plait_error_full_text(e));
    plait_error_free(e);
  }
};

// Fails the allocations of call(), one per trial, in about `trials` trials. keeps: the call may
// leave blocks in an object that outlives it, as many as a successful one. Where one allocation
// alone fails, at least a share of `named` of the errors names the file `name`.
void sweep(const Call& call, int64_t trials, bool keeps = false, const char* name = "",
           double named = 0) {
  host::check(call());  // creates the objects that exist once per process or session
  faults::arm(INT64_MAX, false);
  host::check(call());
  const int64_t total = faults::disarm();
  REQUIRE(total > 0);
  const int64_t stride = try_all() ? 1 : std::max<int64_t>(1, total / trials);
  Tally tally;
  for (const bool for_good : {false, true})
    for (int64_t n = for_good ? 1 + stride / 2 : 1; n <= total; n += stride) {
      const int64_t before = faults::live_blocks();
      faults::arm(n, for_good);
      plait_error* e = call();
      faults::disarm();
      ++tally.trials;
      if (e) tally.add(e, for_good ? nullptr : name);
      tally.leaks += !keeps && faults::live_blocks() != before;
      if (n % 8 == 0 || n + stride > total) host::check(call());
    }
  MESSAGE(total << " allocations, " << tally.trials << " trials, " << tally.errors << " errors, "
                << tally.memory << " of them of memory; of " << tally.single << " single faults "
                << tally.named << " name the file");
  CAPTURE(std::string(tally.worst));
  CHECK(tally.other == 0);
  CHECK(tally.leaks == 0);
  CHECK(g_touched == 0);
  CHECK(tally.memory > tally.trials / 2);
  CHECK(static_cast<double>(tally.named) >= named * static_cast<double>(tally.single));
}

std::string experiment(const std::string& more = "") {
  return host::small("[data.eval]\ntype = \"synthetic\"\nsamples = 33\n" + more);
}

// Everything up to a session, and its calls.
class Bench {
 public:
  explicit Bench(const std::string& more = "")
      : engine(host::new_engine()), toml_(experiment(more)) {
    host::check(plait_experiment_parse(engine, toml_.c_str(), PLAIT_NTS, "t", nullptr, &x));
    host::check(plait_plan_make(x, &p));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    plait_session_close(s);
    plait_plan_close(p);
    plait_experiment_close(x);
    plait_engine_close(engine);
  }
  void open(const char* run_dir = nullptr) { host::check(opened(run_dir, &s)); }
  plait_error* opened(const char* run_dir, plait_session** out) const {
    plait_session_options so{};
    so.struct_size = sizeof so;
    so.no_files = run_dir ? 0 : 1;
    so.run_dir = run_dir;
    so.resume = PLAIT_RESUME_AUTO;
    return plait_session_open(p, &so, out);
  }

  plait_engine* engine;
  plait_experiment* x = nullptr;
  plait_plan* p = nullptr;
  plait_session* s = nullptr;

 private:
  std::string toml_;
};

// Closes the object that a call has created; if the call failed, it must not have changed `out`,
// which is NULL before. A reference, because the object exists only after the call, which is the
// first argument.
template <class T>
plait_error* drop(plait_error* e, T*& out, void(PLAIT_CALL* close)(T*)) {
  if (!e)
    close(out);
  else
    g_touched += out != nullptr;
  out = nullptr;
  return e;
}
plait_error* drop(plait_error* e, plait_text*& t) { return drop(e, t, plait_text_free); }

}  // namespace

TEST_CASE(
    "no memory while an engine opens: an error, or an engine that reports the plugins it could not "
    "load") {
  sweep(
      [] {
        plait_engine_options o{};
        o.struct_size = sizeof o;
        o.keep_plugins_loaded = 1;
        plait_engine* engine = nullptr;
        return drop(plait_engine_open(&o, &engine), engine, plait_engine_close);
      },
      800);
}

TEST_CASE("no memory while an experiment is read, described and bound") {
  const Bench bench;
  const std::string toml = experiment();
  sweep(
      [&] {
        plait_experiment* x = nullptr;
        return drop(plait_experiment_parse(bench.engine, toml.c_str(), PLAIT_NTS, "t", nullptr, &x),
                    x, plait_experiment_close);
      },
      2000);
  plait_text* t = nullptr;
  sweep([&] { return drop(plait_experiment_describe(bench.x, &t), t); }, 500);
  sweep([&] { return drop(plait_experiment_bind(bench.x, &t), t); }, 500);
  sweep([&] { return drop(plait_engine_describe(bench.engine, &t), t); }, 500);
}

TEST_CASE("no memory while a plan is made and described") {
  const Bench bench;
  sweep(
      [&] {
        plait_plan* p = nullptr;
        return drop(plait_plan_make(bench.x, &p), p, plait_plan_close);
      },
      1000);
  plait_text* t = nullptr;
  sweep([&] { return drop(plait_plan_describe(bench.p, &t), t); }, 500);
}

TEST_CASE("no memory while a plan of a pipeline is made, described and drawn") {
  const Bench bench("[topology]\npipeline = 2\nschedule = \"zero_bubble\"\n");
  sweep(
      [&] {
        plait_plan* p = nullptr;
        return drop(plait_plan_make(bench.x, &p), p, plait_plan_close);
      },
      300);
  plait_text* t = nullptr;
  sweep([&] { return drop(plait_plan_describe(bench.p, &t), t); }, 200);
  sweep([&] { return drop(plait_plan_picture(bench.p, &t), t); }, 200);
  sweep([&] { return drop(plait_plan_ir(bench.p, nullptr, 0, &t), t); }, 200);
  sweep([&] { return drop(plait_plan_every_rank(bench.x, &t), t); }, 300);
}

TEST_CASE("no memory while a session opens, without files and with them") {
  const Bench bench;
  const host::TempFolder folder;
  const std::string dir = folder / "run";
  for (const char* run_dir : {static_cast<const char*>(nullptr), dir.c_str()})
    sweep(
        [&] {
          plait_session* s = nullptr;
          return drop(bench.opened(run_dir, &s), s, plait_session_close);
        },
        run_dir ? 100 : 150);
}

TEST_CASE("no memory in a step, an evaluation, a description and a view") {
  Bench bench;
  const host::TempFolder folder;
  const std::string dir = folder / "run";
  bench.open(dir.c_str());
  std::vector<float> x(12 * 16, 0.5f);
  std::vector<int32_t> y(12, 3);
  int64_t x_shape[2] = {12, 16}, y_shape[1] = {12};
  plait_dl_tensor tx{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0},
      ty{y.data(), {1, 0}, 1, {0, 32, 1}, y_shape, nullptr, 0};
  const plait_feed feeds[2] = {{sizeof(plait_feed), "x", &tx}, {sizeof(plait_feed), "label", &ty}};
  plait_text* t = nullptr;
  sweep([&] { return plait_session_step(bench.s, feeds, 2, nullptr); }, 500);
  sweep([&] { return drop(plait_session_evaluate(bench.s, nullptr, &t), t); }, 500, true);
  sweep([&] { return drop(plait_session_describe(bench.s, &t), t); }, 500);
  plait_dl_managed* view = nullptr;
  sweep(
      [&] {
        return drop(
            plait_session_view(bench.s, "model.linear1.weight", &view), view,
            +[](plait_dl_managed* v) { v->deleter(v); });
      },
      500);
}

TEST_CASE("no memory in a save") {
  Bench bench;
  const host::TempFolder folder;
  const std::string dir = folder / "run", saved = folder / "saved";
  bench.open(dir.c_str());
  sweep([&] { return plait_session_save(bench.s, saved.c_str()); }, 50, true);
}

TEST_CASE("no memory in a load: the error names the file, and the session stays as it was") {
  Bench bench;
  const host::TempFolder folder;
  const std::string dir = folder / "run", saved = folder / "saved";
  bench.open(dir.c_str());
  host::check(plait_session_save(bench.s, saved.c_str()));
  // The others fail before the call knows its file, or in the error that would name it.
  sweep([&] { return plait_session_load(bench.s, saved.c_str()); }, 500, true, saved.c_str(), 0.9);
  sweep([&] { return plait_session_load_parameters(bench.s, saved.c_str()); }, 200, true,
        saved.c_str(), 0.9);
}

TEST_CASE("no memory while checkpoints are listed, verified, compared and rewritten") {
  Bench bench;
  const host::TempFolder folder;
  const std::string saved = folder / "saved", out = folder / "out";
  const std::string written[] = {out + "/MANIFEST.json", out + "/model.safetensors",
                                 out + "/optimizer.safetensors"};
  bench.open();
  host::check(plait_session_save(bench.s, saved.c_str()));
  const auto json = [](const auto& call) {
    return [call] {
      plait_text* t = nullptr;
      return drop(call(&t), t);
    };
  };
  plait_engine* e = bench.engine;
  const std::string one = saved + "/step-0000000000";
  sweep(json([&](plait_text** t) { return plait_checkpoint_list(e, saved.c_str(), t); }), 150);
  sweep(json([&](plait_text** t) { return plait_checkpoint_describe(e, saved.c_str(), t); }), 150);
  sweep(json([&](plait_text** t) {
          return plait_checkpoint_verify(e, one.c_str(), nullptr, nullptr, t);
        }),
        150);
  sweep(json([&](plait_text** t) {
          return plait_checkpoint_compare(e, one.c_str(), saved.c_str(), 0, nullptr, nullptr, t);
        }),
        150);
  sweep(json([&](plait_text** t) {
          plait_error* error = plait_checkpoint_convert(e, one.c_str(), out.c_str(), nullptr, t);
          g_touched += error && ::access(out.c_str(), F_OK) == 0;
          for (const std::string& file : written) ::unlink(file.c_str());  // needs no memory
          ::rmdir(out.c_str());
          return error;
        }),
        100);
}

TEST_CASE("no memory while an experiment is read from a file") {
  const Bench bench;
  const host::TempFolder folder;
  const std::string path = folder / "experiment.toml";
  std::ofstream(path) << experiment();
  sweep(
      [&] {
        plait_experiment* x = nullptr;
        return drop(plait_experiment_read(bench.engine, path.c_str(), PLAIT_NTS, nullptr, &x), x,
                    plait_experiment_close);
      },
      1000);
}

TEST_CASE("a run that met a full memory ends where an undisturbed one ends") {
  Bench plain, hit;
  plain.open();
  hit.open();
  for (int64_t n = 1; n < 60; ++n) {  // a call without a step leaves no trace
    faults::arm(n, true);
    plait_text* t = nullptr;
    plait_error* e = plait_session_evaluate(hit.s, nullptr, &t);
    faults::disarm();
    if (!e) plait_text_free(t);
    plait_error_free(e);
  }
  host::check(plait_session_run(plain.s, nullptr));
  host::check(plait_session_run(hit.s, nullptr));
  std::vector<float> a(256), b(256);
  host::check(plait_session_read(plain.s, "model.linear1.weight", a.data(), 1024));
  host::check(plait_session_read(hit.s, "model.linear1.weight", b.data(), 1024));
  CHECK(a == b);
}
