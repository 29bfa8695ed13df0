// Sessions: thin functions over engine/session.
#include <algorithm>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/config/bind.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

// Writes as much as the caller's struct has room for.
void fill(const session::StepResult& r, plait_step_result& out) {
  plait_step_result all{};
  all.struct_size = out.struct_size;
  all.step = r.step;
  all.epoch = r.epoch;
  all.samples = r.samples;
  all.loss = r.loss;
  all.grad_norm = r.grad_norm;
  all.learning_rate = r.learning_rate;
  all.seconds = r.seconds;
  all.skipped = r.skipped ? 1 : 0;
  all.finished = r.finished ? 1 : 0;
  all.tokens = r.tokens;
  all.skipped_steps = r.skipped_steps;
  all.grad_norm_clipped = r.grad_norm_clipped;
  all.mean_loss = r.mean_loss;
  all.samples_per_s = r.samples_per_s;
  all.tokens_per_s = r.tokens_per_s;
  all.tflops = r.tflops;
  all.tflops_full = r.tflops_full;
  all.mfu = r.mfu;
  all.mfu_full = r.mfu_full;
  all.metrics = r.metrics.data();
  all.n_metrics = static_cast<uint32_t>(r.metrics.size());
  __builtin_memcpy(&out, &all, std::min(out.struct_size, sizeof all));
}

void check_result(const plait_step_result* out) {
  if (!out) return;
  if (out->struct_size < kStepResultV1)
    fail_invalid("[capi] plait_step_result.struct_size is " + std::to_string(out->struct_size) +
                 ", expected at least " + std::to_string(kStepResultV1) +
                 "; set it to sizeof before the call");
}

session::Settings settings_of(const plait_plan& plan, const plait_session_options& o,
                              CallGuard& guard) {
  session::Settings s;
  if (o.run_dir && !*o.run_dir)
    fail_invalid(
        "[capi] plait_session_options.run_dir is \"\", expected a folder, or NULL for a new "
        "one in run.out");
  if (o.run_dir) s.run_dir = o.run_dir;
  s.no_files = o.no_files != 0;
  if (o.resume > PLAIT_RESUME_MUST)
    fail_invalid("[capi] plait_session_options.resume is " + std::to_string(o.resume));
  s.resume = static_cast<session::Resume>(o.resume);
  s.progress = o.progress != 0;
  if (o.on_step)
    s.on_step = [call = o.on_step, user = o.on_step_user, &guard](const session::StepResult& r) {
      plait_step_result c{};
      c.struct_size = sizeof c;
      fill(r, c);
      const CallGuard::Callback in_callback(guard);
      return call(user, &c) != 0;
    };
  if (o.command) s.command = o.command;
  if (o.stop_after < 0)
    fail_invalid("[capi] plait_session_options.stop_after is " + std::to_string(o.stop_after) +
                 ", expected a step, or 0 for none");
  s.stop_after = o.stop_after;
  s.overrides = plan.overrides;
  s.job = plan.job;
  if (!s.no_files)
    s.resolved_toml = config::bind(plan.plan->experiment, *plan.engine->registry, true);
  return s;
}

std::vector<session::HostField> fields_of(const plait_feed* feeds, uint32_t n) {
  std::vector<session::HostField> fields;
  if (n == 0) return fields;
  require(feeds, "feeds");
  if (feeds->struct_size < kFeedV1)
    fail_invalid("[capi] plait_feed.struct_size is " + std::to_string(feeds->struct_size) +
                 ", expected at least " + std::to_string(kFeedV1) + "; set it to sizeof");
  const char* at = reinterpret_cast<const char*>(feeds);
  for (uint32_t i = 0; i < n; ++i) {
    const auto* f = reinterpret_cast<const plait_feed*>(at + i * feeds->struct_size);
    require(f->field, "plait_feed.field");
    require(f->tensor, "plait_feed.tensor");
    fields.push_back({f->field, f->tensor});
  }
  return fields;
}

// What on_step may call: all that leaves the run where it is.
constexpr auto kInCallbacks = CallGuard::Nested::kAllowed;

// A view with the memory of its description; it keeps the arena alive.
struct ManagedView {
  session::View view;
  std::vector<int64_t> shape, strides;
  plait_dl_managed managed{};
};

plait_dl_managed* managed(session::View view) {
  auto made = std::make_unique<ManagedView>();
  made->view = std::move(view);
  const plait_shape& shape = made->view.shape;
  made->shape.assign(shape.dims, shape.dims + shape.ndim);
  made->strides.resize(made->shape.size());
  int64_t stride = 1;
  for (size_t i = made->shape.size(); i-- > 0; stride *= made->shape[i]) made->strides[i] = stride;
  plait_dl_managed& m = made->managed;
  m.major = 1;
  m.deleter = [](plait_dl_managed* self) { delete static_cast<ManagedView*>(self->manager_ctx); };
  m.manager_ctx = made.get();
  m.flags = made->view.read_only ? PLAIT_DL_READ_ONLY : 0;
  m.tensor.data = made->view.data;
  m.tensor.device = made->view.device;
  m.tensor.ndim = static_cast<int32_t>(shape.ndim);
  m.tensor.dtype = session::to_dl(shape.dtype);
  m.tensor.shape = made->shape.data();
  m.tensor.strides = made->strides.data();
  return &made.release()->managed;
}

session::ViewRequest request_of(const plait_view_options* options) {
  const auto o = read_options(options, kViewOptionsV1, "plait_view_options");
  if (o.flags & ~uint64_t{PLAIT_DL_READ_ONLY})
    fail_invalid("[capi] plait_view_options.flags is " + std::to_string(o.flags) +
                 ", expected 0 or PLAIT_DL_READ_ONLY (1)");
  return {o.kind, o.flags != 0, o.device, o.stream, true};
}

std::string evaluation_json(const session::Evaluation& e) {
  JsonWriter w;
  w.object().field("schema", 1);
  session::write_members(w, e);
  w.end_object();
  return w.text();
}

}  // namespace

extern "C" {

plait_error* plait_session_open(plait_plan* plan, const plait_session_options* options,
                                plait_session** out) {
  return guard_c([&] {
    require(plan, "plan");
    require(out, "out");
    plan->engine->check_own("plait_session_open", "plan");
    const auto o = read_options(options, kSessionOptionsV1, "plait_session_options");
    auto session = std::make_unique<plait_session>();
    session->engine = plan->engine;
    session->state->handle = session.get();
    session->state->mark =
        std::make_unique<CallMark>(*plan->engine->watch, plan->plan->experiment.run.plugin_timeout);
    const WatchedThread watched(session->watched());
    session->session = std::make_unique<session::Session>(
        plan->plan, settings_of(*plan, o, session->guard), plan->engine->log, plan->engine->files);
    *out = session.release();
  });
}

void plait_session_close(plait_session* session) {
  if (!session || session->guard.is_foreign()) return;
  session->session->cancel();  // a call in progress ends soon, and closes the session then
  if (session->guard.close()) delete session;
}

plait_error* plait_session_run(plait_session* session, plait_step_result* result) {
  return guard_c([&] {
    require(session, "session");
    check_result(result);  // before the work: a refused call must have done nothing
    const ApiCall call(*session, "plait_session_run", "session");
    const session::StepResult r = session->session->run();
    if (result) fill(r, *result);
  });
}

plait_error* plait_session_step(plait_session* session, const plait_feed* feeds, uint32_t n_feeds,
                                plait_step_result* result) {
  return guard_c([&] {
    require(session, "session");
    check_result(result);
    const ApiCall call(*session, "plait_session_step", "session");
    const session::StepResult r =
        n_feeds == 0 ? session->session->step() : session->session->step(fields_of(feeds, n_feeds));
    if (result) fill(r, *result);
  });
}

plait_error* plait_session_evaluate(plait_session* session, const char* dataset,
                                    plait_text** json) {
  return guard_c([&] {
    require(session, "session");
    require(json, "json");
    const ApiCall call(*session, "plait_session_evaluate", "session", kInCallbacks);
    *json = new_text(evaluation_json(session->session->evaluate(dataset ? dataset : "eval")));
  });
}

plait_error* plait_session_profile(plait_session* session, const plait_profile_options* options,
                                   plait_text** json, plait_text** trace_json) {
  return guard_c([&] {
    require(session, "session");
    require(json, "json");
    const auto o = read_options(options, kProfileOptionsV1, "plait_profile_options");
    if (o.trace) require(trace_json, "trace_json");
    const ApiCall call(*session, "plait_session_profile", "session");
    session::ProfileSettings s;
    if (o.entry_point) s.entry_point = o.entry_point;
    if (o.dataset) s.dataset = o.dataset;
    s.runs = std::max(o.runs, 1u);
    s.warm_up = o.warm_up;
    s.trace = o.trace != 0;
    session::Profile made = session->session->profile(s);
    std::unique_ptr<plait_text> table(new_text(std::move(made.table)));
    if (trace_json) *trace_json = made.trace.empty() ? nullptr : new_text(std::move(made.trace));
    *json = table.release();
  });
}

plait_error* plait_session_predict(plait_session* session, const plait_feed* feeds,
                                   uint32_t n_feeds, const char* value, void* out, uint64_t bytes) {
  return guard_c([&] {
    require(session, "session");
    require(feeds, "feeds");
    require(value, "value");
    require(out, "out");
    const ApiCall call(*session, "plait_session_predict", "session", kInCallbacks);
    session->session->predict(fields_of(feeds, n_feeds), {{value, out, bytes}});
  });
}

plait_error* plait_session_predict_all(plait_session* session, const plait_feed* feeds,
                                       uint32_t n_feeds, const plait_prediction* values,
                                       uint32_t n) {
  return guard_c([&] {
    require(session, "session");
    require(feeds, "feeds");
    require(values, "values");
    if (n == 0) fail_invalid("[api] n is 0; name at least one value to predict");
    std::vector<session::Prediction> all;
    for (uint32_t i = 0; i < n; ++i) {
      require(values[i].value, "values[].value");
      if (values[i].bytes > 0) require(values[i].out, "values[].out");
      all.push_back({values[i].value, values[i].out, values[i].bytes});
    }
    const ApiCall call(*session, "plait_session_predict_all", "session", kInCallbacks);
    session->session->predict(fields_of(feeds, n_feeds), all);
  });
}

plait_error* plait_session_any_rank(plait_session* session, uint32_t own, uint32_t* any) {
  return guard_c([&] {
    require(session, "session");
    require(any, "any");
    if (own > 1) fail_invalid(strf("[api] own is %u, expected 0 or 1", own));
    const ApiCall call(*session, "plait_session_any_rank", "session", kInCallbacks);
    *any = session->session->any_rank(own == 1) ? 1 : 0;
  });
}

void plait_session_cancel(plait_session* session) {
  if (session && !session->guard.is_foreign()) session->session->cancel();
}

plait_error* plait_session_save(plait_session* session, const char* path) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_save", "session", kInCallbacks);
    session->session->save(path ? path : "");
  });
}

plait_error* plait_session_load(plait_session* session, const char* path) {
  return guard_c([&] {
    require(session, "session");
    require(path, "path");
    const ApiCall call(*session, "plait_session_load", "session");
    session->session->load(path);
  });
}

plait_error* plait_session_load_parameters(plait_session* session, const char* path) {
  return guard_c([&] {
    require(session, "session");
    require(path, "path");
    const ApiCall call(*session, "plait_session_load_parameters", "session");
    session->session->load_parameters(path);
  });
}

plait_error* plait_session_describe(plait_session* session, plait_text** json) {
  return guard_c([&] {
    require(session, "session");
    require(json, "json");
    const ApiCall call(*session, "plait_session_describe", "session", kInCallbacks);
    *json = new_text(session->session->describe());
  });
}

plait_error* plait_session_read(plait_session* session, const char* parameter, void* data,
                                uint64_t bytes) {
  return guard_c([&] {
    require(session, "session");
    require(data, "data");
    const ApiCall call(*session, "plait_session_read", "session", kInCallbacks);
    session->session->read(text_argument(parameter, PLAIT_NTS, "parameter"), data, bytes);
  });
}

plait_error* plait_session_write(plait_session* session, const char* parameter, const void* data,
                                 uint64_t bytes) {
  return guard_c([&] {
    require(session, "session");
    require(data, "data");
    const ApiCall call(*session, "plait_session_write", "session", kInCallbacks);
    session->session->write(text_argument(parameter, PLAIT_NTS, "parameter"), data, bytes);
  });
}

plait_error* plait_session_view(plait_session* session, const char* parameter,
                                plait_dl_managed** out) {
  return guard_c([&] {
    require(session, "session");
    require(out, "out");
    const ApiCall call(*session, "plait_session_view", "session", kInCallbacks);
    session::ViewRequest request;
    request.device = {1, 0};
    request.waits = false;
    *out =
        managed(session->session->view(text_argument(parameter, PLAIT_NTS, "parameter"), request));
  });
}

plait_error* plait_session_view_of(plait_session* session, const char* name,
                                   const plait_view_options* options, plait_dl_managed** out) {
  return guard_c([&] {
    require(session, "session");
    require(out, "out");
    const ApiCall call(*session, "plait_session_view_of", "session", kInCallbacks);
    *out = managed(
        session->session->view(text_argument(name, PLAIT_NTS, "name"), request_of(options)));
  });
}

plait_error* plait_session_wait_stream(plait_session* session, void* stream) {
  return guard_c([&] {
    require(session, "session");
    require(stream, "stream");
    const ApiCall call(*session, "plait_session_wait_stream", "session", kInCallbacks);
    session->session->wait_stream(stream);
  });
}

}  // extern "C"
