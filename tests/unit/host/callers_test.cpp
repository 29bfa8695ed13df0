// Which calls are allowed: two threads on one object, callbacks that call back, callbacks that
// throw, and closing during a call.
#include <plait/view.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include "tests/unit/host/host.hpp"

using host::failure_of;
using host::small;

namespace {

// A session whose callback is a C++ function.
class Hooked {
 public:
  using Hook = std::function<uint32_t(plait_session*, const plait_step_result&)>;

  explicit Hooked(Hook hook, const std::string& run_dir = "", const std::string& extra = "")
      : hook_(std::move(hook)), engine_(host::new_engine()) {
    plait_experiment* x = nullptr;
    host::check(plait_experiment_parse(engine_, small(extra).c_str(), PLAIT_NTS, "t", nullptr, &x));
    plait_plan* p = nullptr;
    host::check(plait_plan_make(x, &p));
    plait_session_options o{};
    o.struct_size = sizeof o;
    o.no_files = run_dir.empty() ? 1 : 0;
    o.run_dir = run_dir.empty() ? nullptr : run_dir.c_str();
    o.on_step = [](void* user, const plait_step_result* r) {
      auto* self = static_cast<Hooked*>(user);
      return self->hook_(self->session, *r);
    };
    o.on_step_user = this;
    host::check(plait_session_open(p, &o, &session));
    plait_plan_close(p);
    plait_experiment_close(x);
  }
  Hooked(const Hooked&) = delete;
  Hooked& operator=(const Hooked&) = delete;
  ~Hooked() {
    plait_session_close(session);
    plait_engine_close(engine_);
  }
  void run() const { host::check(plait_session_run(session, nullptr)); }
  std::vector<float> weights() const {
    std::vector<float> w(256);
    host::check(plait_session_read(session, "model.linear1.weight", w.data(), 1024));
    return w;
  }

  plait_session* session = nullptr;  // NULL: a test has closed it

 private:
  Hook hook_;
  plait_engine* engine_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

uint32_t go_on(plait_session*, const plait_step_result&) { return 0; }

// A thread that stays inside plait_session_run, in its first callback, until release().
class Inside {
 public:
  Inside()
      : hooked_([this](plait_session*, const plait_step_result&) {
          inside_ = true;
          while (!free_) std::this_thread::yield();
          return 0u;
        }),
        thread_([this] { failure_ = failure_of([this] { hooked_.run(); }); }) {
    while (!inside_) std::this_thread::yield();
  }
  ~Inside() { release(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  host::Failure release() {
    free_ = true;
    if (thread_.joinable()) thread_.join();
    return failure_;
  }
  plait_session* session() const { return hooked_.session; }
  void forget() { hooked_.session = nullptr; }

 private:
  std::atomic<bool> inside_{false}, free_{false};
  host::Failure failure_{};
  Hooked hooked_;
  std::thread thread_;
};

}  // namespace

TEST_CASE(
    "a second thread in a session is refused by function, session and fix; the first one "
    "continues") {
  Inside first;
  plait_session* s = first.session();
  const std::string handle = [s] {
    char text[32];
    std::snprintf(text, sizeof text, "%p", static_cast<void*>(s));
    return std::string(text);
  }();
  plait_step_result r{};
  r.struct_size = sizeof r;
  plait_text* t = nullptr;
  float data[256];
  plait_dl_managed* view = nullptr;
  const std::pair<const char*, std::function<plait_error*()>> calls[] = {
      {"plait_session_run", [&] { return plait_session_run(s, &r); }},
      {"plait_session_step", [&] { return plait_session_step(s, nullptr, 0, &r); }},
      {"plait_session_evaluate", [&] { return plait_session_evaluate(s, "train", &t); }},
      {"plait_session_save", [&] { return plait_session_save(s, "x"); }},
      {"plait_session_load", [&] { return plait_session_load(s, "x"); }},
      {"plait_session_describe", [&] { return plait_session_describe(s, &t); }},
      {"plait_session_read",
       [&] { return plait_session_read(s, "model.linear1.weight", data, sizeof data); }},
      {"plait_session_write",
       [&] { return plait_session_write(s, "model.linear1.weight", data, sizeof data); }},
      {"plait_session_view", [&] { return plait_session_view(s, "model.linear1.weight", &view); }},
      {"plait_session_view_of",
       [&] { return plait_session_view_of(s, "model.linear1.weight", nullptr, &view); }},
      {"plait_session_wait_stream", [&] { return plait_session_wait_stream(s, data); }},
  };
  for (const auto& [name, call] : calls) {
    const auto f = failure_of([&c = call] { host::check(c()); });
    CAPTURE(f.text);
    CHECK(f.code == PLAIT_ERR_STATE);
    CHECK(contains(f.text, std::string("[capi] ") + name + "() on session " + handle +
                               " while another thread is inside plait_session_run()"));
    CHECK(contains(f.text, "wait for that call to return"));
  }
  CHECK(t == nullptr);
  CHECK(view == nullptr);
  CHECK(first.release().code == PLAIT_OK);
  // No thread is inside any more: any thread may call next.
  host::check(plait_session_describe(s, &t));
  CHECK(contains(host::take(t), "\"step\": 30"));
}

TEST_CASE("threads may use a session one after another; concurrent calls succeed or get an error") {
  const Hooked hooked(go_on);
  for (int i = 0; i < 4; ++i)
    std::thread([&] {
      host::check(plait_session_step(hooked.session, nullptr, 0, nullptr));
    }).join();
  // A thread that the scheduler stops inside a step causes any number of refusals in the other, so
  // each thread repeats a refused call.
  constexpr int kSteps = 300;
  std::atomic<int> done{0}, other{0};
  auto hurry = [&] {
    for (int i = 0; i < kSteps && other == 0;) {
      const auto f =
          failure_of([&] { host::check(plait_session_step(hooked.session, nullptr, 0, nullptr)); });
      if (f.code == PLAIT_OK)
        ++i, ++done;
      else if (f.code == PLAIT_ERR_STATE)
        std::this_thread::yield();
      else
        ++other;
    }
  };
  std::thread a(hurry), b(hurry);
  a.join();
  b.join();
  CHECK(other == 0);
  CHECK(done == 2 * kSteps);
  plait_step_result r{};
  r.struct_size = sizeof r;
  host::check(plait_session_step(hooked.session, nullptr, 0, &r));
  CHECK(r.step == 4 + done + 1);
}

TEST_CASE("any thread may cancel") {
  Inside first;
  plait_session_cancel(first.session());
  CHECK(first.release().code == PLAIT_ERR_CANCELLED);
}

TEST_CASE(
    "functions that do not move the run may be called from its callback, and change nothing") {
  const host::TempFolder folder;
  const std::string eval = "[data.eval]\ntype = \"synthetic\"\nsamples = 33\n";
  const Hooked plain(go_on, "", eval);
  plain.run();
  int calls = 0;
  const Hooked busy(
      [&](plait_session* s, const plait_step_result& r) {
        ++calls;
        plait_text* t = nullptr;
        host::check(plait_session_describe(s, &t));
        CHECK(contains(host::take(t), "\"step\": " + std::to_string(r.step)));
        host::check(plait_session_evaluate(s, nullptr, &t));
        plait_text_free(t);
        std::vector<float> w(256);
        host::check(plait_session_read(s, "model.linear1.weight", w.data(), 1024));
        host::check(plait_session_write(s, "model.linear1.weight", w.data(), 1024));
        plait_dl_managed* view = nullptr;
        host::check(plait_session_view(s, "model.linear1.weight", &view));
        view->deleter(view);
        if (r.step % 10 == 0) host::check(plait_session_save(s, nullptr));
        return 0u;
      },
      folder / "run", eval + "[checkpoint]\nevery = 10\n");
  busy.run();
  CHECK(calls == 30);
  CHECK(busy.weights() == plain.weights());
}

TEST_CASE("functions that would move the run are refused in its callback, naming both functions") {
  std::vector<host::Failure> failures;
  const Hooked hooked([&](plait_session* s, const plait_step_result& r) {
    if (r.step > 1) return 0u;
    failures.push_back(failure_of([&] { host::check(plait_session_run(s, nullptr)); }));
    failures.push_back(
        failure_of([&] { host::check(plait_session_step(s, nullptr, 0, nullptr)); }));
    failures.push_back(failure_of([&] { host::check(plait_session_load(s, "x")); }));
    return 0u;
  });
  hooked.run();
  REQUIRE(failures.size() == 3);
  for (const auto& f : failures) {
    CAPTURE(f.text);
    CHECK(f.code == PLAIT_ERR_STATE);
    CHECK(contains(f.text, "from inside a callback of plait_session_run()"));
    CHECK(contains(f.text, "call it after plait_session_run() has returned"));
  }
}

TEST_CASE("closing a session that is inside a call ends that call, which then closes it") {
  bool again_refused = false;
  Hooked hooked([&](plait_session* s, const plait_step_result&) {
    plait_session_close(s);
    plait_text* t = nullptr;
    const auto f = failure_of([&] { host::check(plait_session_describe(s, &t)); });
    again_refused = f.code == PLAIT_ERR_STATE && contains(f.text, "is being closed");
    return 0u;
  });
  const auto f = failure_of([&] { hooked.run(); });
  hooked.session = nullptr;
  CHECK(f.code == PLAIT_ERR_CANCELLED);
  CHECK(again_refused);

  Inside first;  // and from another thread
  plait_session_close(first.session());
  first.forget();
  CHECK(first.release().code == PLAIT_ERR_CANCELLED);
}

TEST_CASE("a request to stop that meets an evaluation inside a callback stops the run") {
  for (const bool close : {false, true}) {
    int steps = 0;
    uint32_t inner = 0;
    Hooked hooked([&](plait_session* s, const plait_step_result&) {
      if (++steps != 2) return 0u;
      close ? plait_session_close(s) : plait_session_cancel(s);
      plait_text* t = nullptr;
      inner = failure_of([&] { host::check(plait_session_evaluate(s, "train", &t)); }).code;
      return 0u;
    });
    const auto f = failure_of([&] { hooked.run(); });
    if (close) hooked.session = nullptr;
    CHECK(inner == (close ? PLAIT_ERR_STATE : PLAIT_ERR_CANCELLED));
    CHECK(f.code == PLAIT_ERR_CANCELLED);
    CHECK(steps == 2);
  }
}

TEST_CASE("a callback that throws ends the run with an error; the session stays usable") {
  int calls = 0;
  const Hooked hooked([&](plait_session*, const plait_step_result&) -> uint32_t {
    if (++calls == 3) throw std::runtime_error("the host has a bug");
    return 0;
  });
  const auto f = failure_of([&] { hooked.run(); });
  CHECK(f.code == PLAIT_ERR_INTERNAL);
  CHECK(contains(f.text, "the host has a bug"));
  hooked.run();
  CHECK(calls == 30);
  const Hooked plain(go_on);
  plain.run();
  CHECK(hooked.weights() == plain.weights());
}

TEST_CASE("a log sink that throws, or calls the engine, has no effect") {
  struct Sink {
    plait_engine* engine = nullptr;
    int lines = 0, described = 0;
  } sink;
  plait_engine_options o{};
  o.struct_size = sizeof o;
  o.keep_plugins_loaded = 1;
  o.log_level = PLAIT_LOG_DEBUG;
  o.log_user = &sink;
  o.log = [](void* user, uint32_t, const char*, uint64_t) {
    auto* self = static_cast<Sink*>(user);
    ++self->lines;
    if (!self->engine) throw 7;
    plait_text* t = nullptr;
    // Succeeds or is refused: never a deadlock.
    plait_error* e = plait_engine_describe(self->engine, &t);
    if (!e) ++self->described;
    plait_error_free(e);
    if (!e) plait_text_free(t);
    e = plait_engine_load(self->engine, "/nonexistent.so", PLAIT_NTS);  // logs as well
    CHECK(e != nullptr);
    plait_error_free(e);
  };
  plait_engine* engine = nullptr;
  host::check(plait_engine_open(&o, &engine));
  sink.engine = engine;
  CHECK(failure_of([&] {
          host::check(plait_engine_load(engine, "/nonexistent.so", PLAIT_NTS));
        }).code != PLAIT_OK);
  plait_experiment* x = nullptr;
  plait_plan* p = nullptr;
  plait_session* s = nullptr;
  plait_session_options so{};
  so.struct_size = sizeof so;
  so.no_files = 1;
  const std::string toml = small("[data.eval]\ntype = \"synthetic\"\nsamples = 33\n");
  host::check(plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "t", nullptr, &x));
  host::check(plait_plan_make(x, &p));
  host::check(plait_session_open(p, &so, &s));
  host::check(plait_session_run(s, nullptr));
  CHECK(sink.lines > 0);
  CHECK(sink.described > 0);
  plait_session_close(s);
  plait_plan_close(p);
  plait_experiment_close(x);
  sink.engine = nullptr;
  plait_engine_close(engine);
}

TEST_CASE("an engine is not for two threads at once either, and says so") {
  const Hooked other(go_on);  // separate engines share no state
  plait_engine* engine = host::new_engine();
  std::atomic<int> refused{0}, wrong{0};
  auto hurry = [&] {
    for (int i = 0; i < 100; ++i) {
      plait_text* t = nullptr;
      const auto f = failure_of([&] { host::check(plait_engine_describe(engine, &t)); });
      plait_text_free(t);
      if (f.code == PLAIT_OK) continue;
      ++refused;
      wrong += f.code != PLAIT_ERR_STATE || !contains(f.text, "plait_engine_describe() on engine");
    }
  };
  std::thread a(hurry), b(hurry);
  a.join();
  b.join();
  CHECK(wrong == 0);
  CHECK(refused < 200);
  plait_text* t = nullptr;
  host::check(plait_engine_describe(engine, &t));
  plait_text_free(t);
  plait_engine_close(engine);
}
