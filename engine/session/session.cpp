#include "engine/session/session.hpp"

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/probe_weights.hpp"
#include "engine/plan/decisions.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/calls_record.hpp"
#include "engine/session/compatibility.hpp"
#include "engine/session/identity.hpp"
#include "engine/session/profiler.hpp"
#include "engine/session/session_parts.hpp"
#include "engine/session/trainer.hpp"
#include "kit/shell_word.hpp"

namespace plait::session {
namespace {

constexpr auto kVerifyLater = checkpoint::Checkpoint::Verify::kLater;

// Behind the identities: not every rank knows the content of the data.
void compare_contents(SessionContext& c) {
  std::vector<std::vector<std::string>> of_ranks;
  for (const std::string& one : c.ranks.all_gather(join(contents_of(c.plan), "/")))
    of_ranks.push_back(split(one, '/'));
  if (const std::string text = differing_contents(c.plan, of_ranks); !text.empty())
    fail_collective(PLAIT_ERR_PEER, text);
}

struct Start {
  std::unique_ptr<checkpoint::Checkpoint> from;  // NULL: initial values
  bool own = false;                              // a checkpoint of the run itself
};

std::unique_ptr<checkpoint::Checkpoint> open_from(SessionContext& c) {
  const std::string& path = c.plan.experiment.run.from;
  checkpoint::probe_checkpoint(c.files, "run.from", path);
  return checkpoint::open_checkpoint(c.files, path, c.log);
}

// Opens the run directory and the checkpoint to begin with, as the settings say.
Start open_files(SessionParts& parts) {
  SessionContext& c = parts.context;
  Resume mode = c.settings.resume;
  if (mode == Resume::kConfig) {
    const std::string& text = c.plan.experiment.run.resume;
    mode = text == "must" ? Resume::kMust : text == "auto" ? Resume::kAuto : Resume::kNever;
  }
  if (mode != Resume::kNever && c.settings.run_dir.empty())
    c.settings.run_dir = newest_run(c.plan, c.files);
  // A new run beside checkpoints of an older one would have its own deleted by checkpoint.keep, and
  // would resume from the wrong ones.
  if (mode == Resume::kNever && !c.settings.no_files && !c.settings.run_dir.empty() &&
      !checkpoint::list_checkpoints(c.files, c.settings.run_dir + "/ckpt").empty())
    fail_config("[session] '" + c.settings.run_dir +
                "' holds checkpoints of an earlier run; resume it with run.resume = \"auto\" "
                "(plait run FILE --run-dir " +
                kit::path_word(c.settings.run_dir) + " --resume auto), or name another folder");
  Start start;
  std::unique_ptr<checkpoint::Checkpoint>& found = start.from;
  if (mode != Resume::kNever && !c.settings.run_dir.empty())
    found = checkpoint::open_newest(c.files, c.settings.run_dir + "/ckpt", c.log);
  if (!found && mode == Resume::kMust)
    fail_not_found("[session] there is no checkpoint to resume from in '" +
                   (c.settings.run_dir.empty()
                        ? c.plan.experiment.run.out + "/" + c.plan.experiment.run.name
                        : c.settings.run_dir) +
                   "'; start without resume, or name the run directory");
  start.own = found != nullptr;
  if (!found && !c.plan.experiment.run.from.empty() && !c.settings.no_files) found = open_from(c);
  // Before the run directory takes the settings of this process: one that cannot continue leaves it
  // as it is.
  if (found) {
    check_compatibility(c.plan, *found, c.files, false);
    parts.bases.check(*found);
  }
  if (c.settings.no_files) return start;
  c.run_files = std::make_unique<RunFiles>(c.plan, c.settings, c.files, c.log);
  c.rank_log.open(c.files, c.run_files->dir().path());
  return start;
}

// Other machines may not reach the run directory of rank 0.
void open_rank_metrics(SessionContext& c, const std::string& folder) {
  const std::string name = rank_metrics_name(c.plan);
  if (name.empty()) return;
  try {
    if (c.files.is_folder(folder))
      c.rank_metrics = std::make_unique<RankMetrics>(folder, name, c.plan, c.files, c.log);
    else
      c.log.warn("[session] " + name + " writes no metrics: there is no folder " + folder);
  } catch (const Error& e) {
    c.log.warn("[session] " + name + " writes no metrics: " + e.full_text());
  }
}

// Drops the lines that an earlier process wrote into the same folder.
void forget_steps(SessionContext& c) {
  const int64_t step = c.state.step;
  if (c.run_files && c.run_files->metrics().continues())
    c.run_files->metrics().resume(step, unix_seconds());
  if (c.rank_metrics && c.rank_metrics->continues()) c.rank_metrics->resume(step);
}

// Whether a checkpoint gave the parameters.
bool begin(SessionParts& parts) {
  SessionContext& c = parts.context;
  Start start;
  if (c.ranks.is_leader()) start = open_files(parts);
  if (c.run_files) forget_calls(c.files, c.run_files->dir().path(), c.log);
  const std::string folder =
      c.ranks.broadcast(c.run_files ? c.files.real_path(c.run_files->dir().path()) : "");
  c.keeps_files = !folder.empty();
  c.folder = folder;
  if (!c.keeps_files)
    c.rank_log.close();
  else if (!c.run_files)
    c.rank_log.open_if_there(c.files, folder);
  const std::string path = c.ranks.broadcast(start.from ? start.from->path() : "");
  start.own = c.ranks.broadcast(start.own ? "own" : "") == "own";
  if (c.keeps_files) open_rank_metrics(c, folder);
  if (path.empty()) {
    // An earlier process may have ended before its first checkpoint: its steps are made again.
    forget_steps(c);
    return false;
  }
  if (!start.from)
    start.from = std::make_unique<checkpoint::Checkpoint>(c.files, path, kVerifyLater);
  if (start.own)
    parts.checkpoints.restore(*start.from);
  else
    parts.checkpoints.begin_from(*start.from, c.plan.experiment.run.from_position);
  parts.parameters.forget_initial();
  if (!start.own) {
    forget_steps(c);
    return true;
  }
  c.state.resumed_from = path;
  c.resume_metrics();
  return true;
}

}  // namespace

Session::Session(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log,
                 FileSystem& files)
    : parts_(std::make_unique<SessionParts>(std::move(plan), std::move(settings), log, files)) {
  SessionContext& c = parts_->context;
  c.on_all_ranks("opening the session", [&] {
    tell_decisions(c.plan, log);
    c.ranks.compare_devices(c.executor.device());
    compare_contents(c);
    const Stopwatch watch;
    parts_->parameters.initialize();
    log.debug([&] {
      return strf("[session] %zu parameters have initial values after ", c.plan.parameters.size()) +
             duration_text(watch.seconds());
    });
    c.state.begin_lineage();
    // A checkpoint has all values.
    if (!begin(*parts_))
      parts_->adapters.start([&](const plan::AdapterPrograms::Start& s) {
        return !parts_->parameters.loaded(s.model, s.adapter);
      });
  });
}

Session::~Session() {
  parts_->checkpoints.close();
  parts_->context.executor.settle();   // before the groups close, for which its queue may wait
  parts_->context.ranks.disconnect();  // before the arena is freed
}

StepResult Session::step() {
  parts_->parameters.before_use();
  parts_->adapters.check_not_kept("step");
  return parts_->steps.step();
}
StepResult Session::step(const std::vector<HostField>& fields) {
  parts_->parameters.before_use();
  parts_->adapters.check_not_kept("step");
  return parts_->steps.step(fields);
}
StepResult Session::run() {
  parts_->parameters.before_use();
  parts_->adapters.check_not_kept("run");
  parts_->adapters.check_base("run");
  return Trainer(*parts_).run();
}

Evaluation Session::evaluate(const std::string& dataset, int64_t max_batches) {
  parts_->parameters.before_use();
  return parts_->evaluator.evaluate(dataset, max_batches);
}
void Session::predict(const std::vector<HostField>& fields, const std::vector<Prediction>& values) {
  parts_->parameters.before_use();
  parts_->evaluator.predict(fields, values);
}
bool Session::any_rank(bool own) {
  SessionContext& c = parts_->context;
  parts_->steps.drain();  // its own agreements come first, on every rank
  return c.on_all_ranks("any_rank()", [&] { return c.on_any_rank(own); });
}
TokenRunner& Session::token_runner() {
  parts_->parameters.before_use();
  if (!parts_->tokens)
    fail_config(
        "[session] the plan does not generate: generate.slots is 0; set it to the number of "
        "sequences that are generated at a time");
  return *parts_->tokens;
}
Profile Session::profile(const ProfileSettings& settings) {
  parts_->adapters.check_not_kept("profile");
  return session::profile(*parts_, settings);
}
void Session::cancel() { parts_->context.cancelled.store(true, std::memory_order_relaxed); }

std::string Session::save(const std::string& path) {
  parts_->parameters.before_use();
  parts_->adapters.check_base("save");
  return parts_->checkpoints.save(path);
}
std::string Session::save_model(const std::string& folder, const std::string& experiment) {
  parts_->parameters.before_use();
  return parts_->checkpoints.save_model(folder, experiment);
}
void Session::load(const std::string& path) {
  parts_->adapters.drop();
  if (parts_->checkpoints.load(path)) parts_->adapters.loaded_all();
  parts_->parameters.forget_initial();
  parts_->evaluator.forget();
}
void Session::load_parameters(const std::string& path) {
  parts_->adapters.drop();
  if (parts_->checkpoints.load_parameters(path)) parts_->adapters.loaded_all();
  parts_->parameters.forget_initial();
  parts_->evaluator.forget();
}

void Session::merge(bool keep) {
  parts_->parameters.before_use();
  parts_->adapters.merge(keep);
  parts_->evaluator.forget();
}
void Session::merge_adapter(const config::ModelConfig& model, const std::string& adapter,
                            bool keep) {
  parts_->parameters.before_use();
  parts_->adapters.merge(model, adapter, keep);
  parts_->evaluator.forget();
}
void Session::unmerge() {
  parts_->adapters.unmerge();
  parts_->evaluator.forget();
}

void Session::load_adapter(const config::ModelConfig& model, const std::string& adapter,
                           const MakeSource& make) {
  parts_->adapters.load(model, adapter, make);
  parts_->evaluator.forget();
}
void Session::reset_adapter(const config::ModelConfig& model, const std::string& adapter) {
  parts_->adapters.reset(model, adapter);
  parts_->evaluator.forget();
}
std::string Session::save_adapter(const std::string& folder, const config::ModelConfig& model,
                                  const std::string& adapter, const std::string& experiment) {
  parts_->adapters.check_beside_base("save an adapter", model);
  return parts_->checkpoints.save_adapter(folder, model, adapter, experiment);
}

void Session::read(const std::string& parameter, void* data, uint64_t bytes) {
  parts_->parameters.read(parameter, data, bytes);
}
void Session::write(const std::string& parameter, const void* data, uint64_t bytes) {
  parts_->parameters.write(parameter, data, bytes);
}
View Session::view(const std::string& name, const ViewRequest& request) {
  return view_of(parts_->context, parts_->steps, parts_->parameters, name, request);
}
char* Session::address(plan::BufferRef at) const { return parts_->context.executor.address(at); }
const plan::Plan& Session::plan() const { return parts_->context.plan; }
void Session::wait_stream(void* stream) {
  parts_->context.executor.queue().order(PLAIT_QUEUE_AFTER_STREAM, stream);
}

std::string Session::describe() const {
  const SessionContext& c = parts_->context;
  JsonWriter w;
  w.object().field("schema", 1).field("step", c.state.step).field("samples", c.state.samples);
  w.field("training_seconds", parts_->steps.training_seconds());
  w.field("run_dir", c.run_files ? c.run_files->dir().path() : std::string());
  w.field("device", c.plan.device).field("device_summary", c.executor.device().summary());
  const plait_dl_device dl = c.executor.device().dl_device();
  w.key("dl_device").array().value(int64_t{dl.type}).value(int64_t{dl.id}).end_array();
  w.field("arena_bytes", c.executor.bytes()).field("shared_bytes", c.executor.shared_bytes());
  w.key("groups").array();
  if (c.ranks.communicators())
    for (const auto& g : c.ranks.communicators()->connected())
      w.object()
          .field("name", g.group)
          .field("ranks", g.ranks)
          .field("backend", g.backend)
          .end_object();
  w.end_array().key("unsaved");
  if (c.unsaved.step >= 0)
    w.object().field("step", c.unsaved.step).field("bytes", c.unsaved.bytes).end_object();
  else
    w.null();
  w.key("last_evaluation");
  if (parts_->evaluator.last()) {
    w.object();
    write_members(w, *parts_->evaluator.last());
    w.end_object();
  } else {
    w.null();
  }
  w.key("parameters").array();
  for (const auto& p : c.plan.parameters) {
    w.object()
        .field("name", p.name)
        .field("dtype", program::dtype_name(p.shape.dtype))
        .key("shape")
        .array();
    for (uint32_t i = 0; i < p.shape.ndim; ++i) w.value(p.shape.dims[i]);
    w.end_array().field(
        "group", p.group < 0 ? std::string("frozen")
                             : plan::title_of(c.plan, c.plan.groups[static_cast<size_t>(p.group)]));
    w.end_object();
  }
  w.end_array().end_object();
  return w.text();
}

}  // namespace plait::session
