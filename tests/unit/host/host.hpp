// A host for tests: plait.h with a minimum of RAII, and experiments from text.
#pragma once

#include <doctest/doctest.h>
#include <plait/plait.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace host {

struct Failure {
  uint32_t code;
  std::string text;
};

inline void check(plait_error* e) {
  if (!e) return;
  const std::unique_ptr<plait_error, void (*)(plait_error*)> owned(e, plait_error_free);
  throw Failure{plait_error_code(e), plait_error_full_text(e)};
}

template <class F>
Failure failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure;
  }
  return {PLAIT_OK, "no error"};
}

inline std::string take(plait_text* t) {
  std::string s = plait_text_data(t);
  plait_text_free(t);
  return s;
}

inline plait_engine* new_engine() {
  plait_engine_options o{};
  o.struct_size = sizeof o;
  // The plugins' code stays loaded: a leak checker needs its symbols at exit.
  o.keep_plugins_loaded = 1;
  plait_engine* e = nullptr;
  check(plait_engine_open(&o, &e));
  return e;
}

// One engine, experiment, plan and session.
class Run {
 public:
  explicit Run(const std::string& toml, const std::string& run_dir = "",
               uint32_t resume = PLAIT_RESUME_NEVER, const std::vector<const char*>& overrides = {})
      : engine_(new_engine(), plait_engine_close) {
    plait_experiment_options xo{};
    xo.struct_size = sizeof xo;
    xo.overrides = overrides.data();
    xo.n_overrides = static_cast<uint32_t>(overrides.size());
    plait_experiment* x = nullptr;
    check(plait_experiment_parse(engine_.get(), toml.c_str(), PLAIT_NTS, "test.toml", &xo, &x));
    const std::unique_ptr<plait_experiment, decltype(&plait_experiment_close)> experiment(
        x, plait_experiment_close);
    plait_plan* p = nullptr;
    check(plait_plan_make(x, &p));
    plan_.reset(p);
    plait_session_options so{};
    so.struct_size = sizeof so;
    so.no_files = run_dir.empty() ? 1 : 0;
    so.run_dir = run_dir.empty() ? nullptr : run_dir.c_str();
    so.resume = resume;
    plait_session* s = nullptr;
    check(plait_session_open(p, &so, &s));
    session_.reset(s);
  }

  plait_engine* engine() const { return engine_.get(); }
  plait_session* session() const { return session_.get(); }
  plait_plan* plan() const { return plan_.get(); }
  plait_step_result step() const {
    plait_step_result r{};
    r.struct_size = sizeof r;
    check(plait_session_step(session(), nullptr, 0, &r));
    return r;
  }
  std::vector<double> losses(int n) const {
    std::vector<double> all;
    for (int i = 0; i < n; ++i) all.push_back(step().loss);
    return all;
  }
  plait_step_result run() const {
    plait_step_result r{};
    r.struct_size = sizeof r;
    check(plait_session_run(session(), &r));
    return r;
  }
  std::vector<float> read(const std::string& parameter, size_t n) const {
    std::vector<float> values(n);
    check(plait_session_read(session(), parameter.c_str(), values.data(), n * sizeof(float)));
    return values;
  }

 private:
  std::unique_ptr<plait_engine, decltype(&plait_engine_close)> engine_;
  std::unique_ptr<plait_plan, decltype(&plait_plan_close)> plan_{nullptr, plait_plan_close};
  std::unique_ptr<plait_session, decltype(&plait_session_close)> session_{nullptr,
                                                                          plait_session_close};
};

// A folder that is removed with the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "plait-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A small experiment on synthetic samples; `extra` is appended.
inline std::string small(const std::string& extra = "", const std::string& layers = "",
                         const std::string& batch = "global = 12",
                         const std::string& data = "samples = 100") {
  return "[run]\nsteps = 30\nseed = 3\n[batch]\n" + batch +
         "\n[data.train]\ntype = \"synthetic\"\n" + data + "\n" +
         (layers.empty() ? "[[model.layers]]\ntype = \"flatten\"\n[[model.layers]]\ntype = "
                           "\"linear\"\nout = 16\n[[model.layers]]\n"
                           "type = \"relu\"\n[[model.layers]]\ntype = \"dropout\"\np = "
                           "0.25\n[[model.layers]]\ntype = \"linear\"\n"
                           "out = 10\n"
                         : layers) +
         "[loss]\ntype = \"cross_entropy\"\n[[metrics]]\ntype = \"accuracy\"\n" +
         (extra.find("[optimizer]") == std::string::npos
              ? "[optimizer]\ntype = \"adamw\"\nlearning_rate = 0.01\nclip_grad_norm = 1.0\n"
              : "") +
         extra;
}

}  // namespace host
