// plait/plait.hpp - training from C++20: a header-only layer over plait.h. Errors become
// plait::HostError, handles close themselves, texts are std::string, callbacks are std::function.
//
//   plait::Engine engine;
//   plait::Experiment experiment = plait::Experiment::read(engine, "experiment.toml");
//   plait::Plan plan(experiment);
//   plait::Session session(plan);
//   plait_step_result last = session.run();
//
// Objects are move-only and serve one thread at a time, except Session::cancel(). Every member
// function that calls the library throws HostError with the codes that plait.h lists for its C
// function, and leaves the same state behind. The names are in an inline namespace, so that a
// program may include <plait/plugin.hpp>, too.
#pragma once

#include <plait/plait.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace plait {
inline namespace embedding {

// The error of a library call. what() is the whole chain of causes, one line each.
class HostError : public std::runtime_error {
 public:
  HostError(uint32_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
  uint32_t code() const { return code_; }  // PLAIT_ERR_*

 private:
  uint32_t code_;
};

namespace host_detail {
inline void check(plait_error* e) {
  if (!e) return;
  const std::unique_ptr<plait_error, void (*)(plait_error*)> owner(e, plait_error_free);
  throw HostError(plait_error_code(e), plait_error_full_text(e));
}

// Calls f(&text) and returns that text as a string.
template <class F>
std::string text_of(F&& f) {
  plait_text* text = nullptr;
  check(f(&text));
  const std::unique_ptr<plait_text, void (*)(plait_text*)> owner(text, plait_text_free);
  return {plait_text_data(text), plait_text_size(text)};
}

// Closes a handle. `keep` owns the log sink that the callbacks use, so that it lives as long as the
// last handle.
template <class T, void (*Close)(T*)>
struct Closer {
  std::shared_ptr<void> keep;
  void operator()(T* object) const { Close(object); }
};
template <class T, void (*Close)(T*)>
using Handle = std::unique_ptr<T, Closer<T, Close>>;

inline std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}
}  // namespace host_detail

// Called for each log line, never by two threads at once, but also by threads of the engine. An
// exception that it throws is dropped.
using LogSink = std::function<void(uint32_t level, std::string_view text)>;
using LateCallback = std::function<void(std::string_view text)>;

struct EngineSettings {
  LogSink log;  // empty: silent
  uint32_t log_level = PLAIT_LOG_INFO;
  std::vector<std::string> plugin_paths;  // files or folders, searched first
  bool no_default_plugins = false;        // only plugin_paths
  bool keep_plugins_loaded = false;
  std::string data_folder;  // "": $PLAIT_DATA, else none
  LateCallback on_late;     // see plait_late_callback
};

// See plait_export_options.
struct ExportSettings {
  std::vector<std::string> names;  // "OURS=THEIRS"
  uint64_t max_shard_bytes = 0;    // 0: 5 GB
  uint32_t dtype = 0;              // PLAIT_*; 0: as they are
  std::string format;              // its type and options; "": none
  const plait_experiment* experiment = nullptr;
};

// An engine: its plugins and its log. Engines share nothing.
class Engine {
 public:
  explicit Engine(EngineSettings settings = {}) {
    const auto calls = std::make_shared<Callbacks>(
        Callbacks{std::move(settings.log), std::move(settings.on_late)});
    const std::vector<const char*> paths = host_detail::pointers(settings.plugin_paths);
    plait_engine_options o{};
    o.struct_size = sizeof o;
    o.log = calls->log ? &on_log : nullptr;
    o.log_user = calls.get();
    o.on_late = calls->late ? &on_late : nullptr;
    o.on_late_user = calls.get();
    o.log_level = settings.log_level;
    o.no_default_plugins = settings.no_default_plugins ? 1 : 0;
    o.plugin_paths = paths.data();
    o.n_plugin_paths = static_cast<uint32_t>(paths.size());
    o.keep_plugins_loaded = settings.keep_plugins_loaded ? 1 : 0;
    o.data_folder = settings.data_folder.empty() ? nullptr : settings.data_folder.c_str();
    plait_engine* engine = nullptr;
    host_detail::check(plait_engine_open(&o, &engine));
    engine_ = {engine, {calls}};
  }
  plait_engine* get() const { return engine_.get(); }
  const std::shared_ptr<void>& keep() const { return engine_.get_deleter().keep; }
  void load(std::string_view path) {
    host_detail::check(plait_engine_load(get(), path.data(), path.size()));
  }
  // JSON: version, plugins with their items and options, load report.
  std::string describe() const {
    return host_detail::text_of([&](plait_text** t) { return plait_engine_describe(get(), t); });
  }
  // JSON: the ops with their signatures and attributes.
  std::string ops() const {
    return host_detail::text_of([&](plait_text** t) { return plait_engine_ops(get(), t); });
  }
  // JSON: the devices of plugins, whether each can be used here, and why not.
  std::string devices() const {
    return host_detail::text_of([&](plait_text** t) { return plait_engine_devices(get(), t); });
  }
  // Writes the weights of a checkpoint to a file or folder; JSON: the files.
  std::string export_checkpoint(const std::string& checkpoint, const std::string& out,
                                const ExportSettings& settings = {}) const {
    const std::vector<const char*> pointers = host_detail::pointers(settings.names);
    plait_export_options o{};
    o.struct_size = sizeof o;
    o.max_shard_bytes = settings.max_shard_bytes;
    o.names = pointers.data();
    o.n_names = static_cast<uint32_t>(pointers.size());
    o.dtype = settings.dtype;
    o.format = settings.format.empty() ? nullptr : settings.format.data();
    o.format_size = settings.format.size();
    o.experiment = settings.experiment;
    return host_detail::text_of([&](plait_text** t) {
      return plait_checkpoint_export(get(), checkpoint.c_str(), out.c_str(), &o, t);
    });
  }
  // The folder of a model that another library wrote, as a folder with experiment.toml; format:
  // its type and options, `type = "hf"`. Returns JSON: files, tensors, bytes.
  std::string import_model(std::string_view format, const std::string& folder,
                           const std::string& out) const {
    return host_detail::text_of([&](plait_text** t) {
      return plait_model_import(get(), format.data(), format.size(), folder.c_str(), out.c_str(),
                                t);
    });
  }

 private:
  struct Callbacks {
    LogSink log;
    LateCallback late;
  };
  static void on_log(void* user, uint32_t level, const char* text, uint64_t size) {
    try {
      static_cast<Callbacks*>(user)->log(level, {text, size});
    } catch (...) {  // no exception may reach the C code, and a lost log line must not end a run
    }
  }
  static void on_late(void* user, const char* text, uint64_t size) {
    try {
      static_cast<Callbacks*>(user)->late({text, size});
    } catch (...) {  // as above
    }
  }
  host_detail::Handle<plait_engine, plait_engine_close> engine_;
};

// JSON: the metadata of a plugin file, read without loading it.
inline std::string inspect_plugin(std::string_view path) {
  return host_detail::text_of(
      [&](plait_text** t) { return plait_plugin_inspect(path.data(), path.size(), t); });
}

namespace host_detail {
// Options from "key.path=value" overrides; borrows the texts.
class ExperimentOptions {
 public:
  explicit ExperimentOptions(const std::vector<std::string>& overrides)
      : pointers_(pointers(overrides)) {
    options_.struct_size = sizeof options_;
    options_.overrides = pointers_.data();
    options_.n_overrides = static_cast<uint32_t>(pointers_.size());
  }
  const plait_experiment_options* get() const { return &options_; }

 private:
  std::vector<const char*> pointers_;
  plait_experiment_options options_{};
};
}  // namespace host_detail

// A checked configuration. Errors: HostError with PLAIT_ERR_CONFIG and all problems of the file,
// one per line.
class Experiment {
 public:
  static Experiment read(const Engine& engine, std::string_view path,
                         const std::vector<std::string>& overrides = {}) {
    const host_detail::ExperimentOptions options(overrides);
    plait_experiment* e = nullptr;
    host_detail::check(
        plait_experiment_read(engine.get(), path.data(), path.size(), options.get(), &e));
    return Experiment(e, engine.keep());
  }
  // `name` stands for the file in messages.
  static Experiment parse(const Engine& engine, std::string_view toml, const std::string& name,
                          const std::vector<std::string>& overrides = {}) {
    const host_detail::ExperimentOptions options(overrides);
    plait_experiment* e = nullptr;
    host_detail::check(plait_experiment_parse(engine.get(), toml.data(), toml.size(), name.c_str(),
                                              options.get(), &e));
    return Experiment(e, engine.keep());
  }
  // JSON list of all problems of a file; "[]" when it has none.
  static std::string check(const Engine& engine, std::string_view path,
                           const std::vector<std::string>& overrides = {}) {
    const host_detail::ExperimentOptions options(overrides);
    return host_detail::text_of([&](plait_text** t) {
      return plait_experiment_check(engine.get(), path.data(), path.size(), options.get(), t);
    });
  }
  plait_experiment* get() const { return experiment_.get(); }
  const std::shared_ptr<void>& keep() const { return experiment_.get_deleter().keep; }
  // The complete commented TOML.
  std::string bind() const {
    return host_detail::text_of([&](plait_text** t) { return plait_experiment_bind(get(), t); });
  }
  // JSON: every resolved value with its origin.
  std::string describe() const {
    return host_detail::text_of(
        [&](plait_text** t) { return plait_experiment_describe(get(), t); });
  }

 private:
  Experiment(plait_experiment* e, const std::shared_ptr<void>& keep) : experiment_(e, {keep}) {}
  host_detail::Handle<plait_experiment, plait_experiment_close> experiment_;
};

// One rank of a job, as the host describes it; see plait_job_options.
struct JobSettings {
  uint32_t rank = 0, size = 1;
  uint32_t local_rank = 0, local_size = 0;  // local_size 0: all ranks are on this machine
  std::string rendezvous = "";              // "HOST:PORT" or "file:PATH"; "": none, for plans
  std::string secret = "";                  // bytes
  double connect_timeout = 0, timeout = 0;  // seconds; 0: as [topology] says
};

// This process as one of the ranks that train together.
class Job {
 public:
  // Reads the environment: PLAIT_*, torchrun, a Slurm step, Open MPI, MPICH, in this order;
  // otherwise a single rank.
  static Job from_environment() {
    Job job;
    job.open(nullptr);
    return job;
  }
  explicit Job(const JobSettings& settings) {
    plait_job_options o{};
    o.struct_size = sizeof o;
    o.rank = settings.rank;
    o.size = settings.size;
    o.local_rank = settings.local_rank;
    o.local_size = settings.local_size;
    o.rendezvous = settings.rendezvous.empty() ? nullptr : settings.rendezvous.c_str();
    o.secret = settings.secret.data();
    o.secret_size = settings.secret.size();
    o.connect_timeout = settings.connect_timeout;
    o.timeout = settings.timeout;
    open(&o);
  }
  const plait_job* get() const { return job_.get(); }
  // Tells the other ranks that this one has failed before its session was opened, and why.
  void fail(const std::string& text) const {
    host_detail::check(plait_job_fail(get(), text.data(), text.size()));
  }
  // JSON: rank, size, local_rank, local_size, rendezvous, source and reason; never the secret.
  std::string describe() const {
    return host_detail::text_of([&](plait_text** t) { return plait_job_describe(get(), t); });
  }

 private:
  Job() = default;
  void open(const plait_job_options* options) {
    plait_job* job = nullptr;
    host_detail::check(plait_job_open(options, &job));
    job_ = {job, {}};
  }
  host_detail::Handle<plait_job, plait_job_close> job_;
};

// A plan: programs, kernels and memory layout, with nothing allocated on a device.
class Plan {
 public:
  explicit Plan(const Experiment& experiment) {
    plait_plan* plan = nullptr;
    host_detail::check(plait_plan_make(experiment.get(), &plan));
    plan_ = {plan, {experiment.keep()}};
  }
  // For one rank of a job; its sessions train together with the sessions of the other ranks.
  Plan(const Experiment& experiment, const Job& job) {
    plait_plan* plan = nullptr;
    host_detail::check(plait_plan_make_for(experiment.get(), job.get(), &plan));
    plan_ = {plan, {experiment.keep()}};
  }
  plait_plan* get() const { return plan_.get(); }
  const std::shared_ptr<void>& keep() const { return plan_.get_deleter().keep; }
  std::string describe() const {
    return host_detail::text_of([&](plait_text** t) { return plait_plan_describe(get(), t); });
  }
  // The programs as text; program: the name of one, empty: all.
  std::string ir(std::string_view program = {}) const {
    return host_detail::text_of([&](plait_text** t) {
      return plait_plan_ir(get(), program.empty() ? nullptr : program.data(), program.size(), t);
    });
  }
  // The schedule of the pipeline as SVG.
  std::string picture() const {
    return host_detail::text_of([&](plait_text** t) { return plait_plan_picture(get(), t); });
  }

 private:
  host_detail::Handle<plait_plan, plait_plan_close> plan_;
};

// JSON about the plans of all ranks that [topology] asks for. Errors: HostError with PLAIT_ERR_PEER
// when their collectives or messages do not match or do not finish.
inline std::string plan_every_rank(const Experiment& experiment) {
  return host_detail::text_of(
      [&](plait_text** t) { return plait_plan_every_rank(experiment.get(), t); });
}

// The DLPack element type of a C++ arithmetic type.
template <class T>
constexpr plait_dl_dtype dl_dtype() {
  constexpr auto kBits = static_cast<uint8_t>(8 * sizeof(T));
  if constexpr (std::is_same_v<T, bool>)
    return {6, kBits, 1};
  else if constexpr (std::is_floating_point_v<T>)
    return {2, kBits, 1};
  else
    return {static_cast<uint8_t>(std::is_unsigned_v<T> ? 1 : 0), kBits, 1};
}

// One field of a batch, row-major, in host memory or in that of the session's device. Borrows the
// data, which must live until the call that takes the feed returns. Errors: HostError with
// PLAIT_ERR_INVALID when shape and data disagree.
class Feed {
 public:
  // A tensor of DLPack, wherever it lies. Shape and strides are copied.
  Feed(std::string field, const plait_dl_tensor& tensor)
      : field_(std::move(field)),
        shape_(tensor.shape, tensor.shape + tensor.ndim),
        strides_(tensor.strides, tensor.strides + (tensor.strides ? tensor.ndim : 0)),
        tensor_(tensor) {}
  template <class T>
  Feed(std::string field, std::span<const T> data, std::vector<int64_t> shape)
      : field_(std::move(field)), shape_(std::move(shape)) {
    int64_t n = 1;
    for (const int64_t extent : shape_) n *= extent;
    if (static_cast<uint64_t>(n) != data.size())
      throw HostError(PLAIT_ERR_INVALID, "[feed] field '" + field_ + "': the shape has " +
                                             std::to_string(n) + " elements, the data " +
                                             std::to_string(data.size()));
    tensor_.data = const_cast<T*>(data.data());  // DLPack has no const; the engine only reads
    tensor_.device = {1, 0};
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.dtype = dl_dtype<T>();
  }

 private:
  friend class Session;
  std::string field_;
  std::vector<int64_t> shape_, strides_;  // strides: none if row-major
  plait_dl_tensor tensor_{};
};

// A view of the memory of a parameter, in host memory unless view.hpp made it. Steps and loads
// change its content. It may outlive the session. While there is one that may be written, copies of
// parameters are made again before each launch: keep it no longer than needed.
class ParameterView {
 public:
  explicit ParameterView(plait_dl_managed* managed) : managed_(managed) {}
  const plait_dl_tensor& tensor() const { return managed_->tensor; }
  std::span<const int64_t> shape() const {
    return {managed_->tensor.shape, static_cast<size_t>(managed_->tensor.ndim)};
  }
  const void* data() const {
    return static_cast<const char*>(managed_->tensor.data) + managed_->tensor.byte_offset;
  }

 private:
  struct Release {
    void operator()(plait_dl_managed* m) const {
      if (m->deleter) m->deleter(m);
    }
  };
  std::unique_ptr<plait_dl_managed, Release> managed_;
};

// Called after each step of Session::run(); true stops the run after a save. An exception stops it,
// too, and run() throws that exception again.
using StepCallback = std::function<bool(const plait_step_result&)>;

struct SessionSettings {
  std::string run_dir;    // "": a new one in run.out
  bool no_files = false;  // write no files
  uint32_t resume = PLAIT_RESUME_CONFIG;
  bool progress = false;
  StepCallback on_step;
  std::string command;     // for env.json
  int64_t stop_after = 0;  // run() ends behind this step, as after cancel(); equal on all ranks
};

struct ProfileRequest {
  std::string entry_point = "train_step";  // or "evaluate", on `dataset`
  std::string dataset = "eval";
  uint32_t runs = 1, warm_up = 0;
  bool trace = false;
};
struct ProfileTexts {
  std::string table;  // JSON
  std::string trace;  // JSON, "" on ranks other than 0
};

// A plan in execution.
class Session {
 public:
  explicit Session(const Plan& plan, SessionSettings settings = {})
      : hook_(std::make_unique<Hook>()) {
    hook_->on_step = std::move(settings.on_step);
    plait_session_options o{};
    o.struct_size = sizeof o;
    o.run_dir = settings.run_dir.empty() ? nullptr : settings.run_dir.c_str();
    o.no_files = settings.no_files ? 1 : 0;
    o.resume = settings.resume;
    o.progress = settings.progress ? 1 : 0;
    o.on_step = hook_->on_step ? &on_step : nullptr;
    o.on_step_user = hook_.get();
    o.command = settings.command.empty() ? nullptr : settings.command.c_str();
    o.stop_after = settings.stop_after;
    plait_session* session = nullptr;
    host_detail::check(plait_session_open(plan.get(), &o, &session));
    session_ = {session, {plan.keep()}};
  }
  plait_session* get() const { return session_.get(); }

  // Runs to the end. Throws HostError with PLAIT_ERR_CANCELLED after cancel(), or after on_step
  // returned true.
  plait_step_result run() {
    plait_step_result result = empty_result();
    plait_error* error = plait_session_run(get(), &result);
    if (hook_->thrown) {
      plait_error_free(error);
      std::rethrow_exception(std::exchange(hook_->thrown, nullptr));
    }
    host_detail::check(error);
    return result;
  }
  // Makes one step on these samples, or without feeds on the next batch of [data.train].
  plait_step_result step(std::span<const Feed> feeds = {}) {
    const std::vector<plait_feed> raw = raw_feeds(feeds);
    plait_step_result result = empty_result();
    host_detail::check(
        plait_session_step(get(), raw.data(), static_cast<uint32_t>(raw.size()), &result));
    return result;
  }
  // JSON: loss, samples, seconds and each metric on [data.NAME].
  std::string evaluate(const std::string& dataset = "eval") {
    return host_detail::text_of(
        [&](plait_text** t) { return plait_session_evaluate(get(), dataset.c_str(), t); });
  }
  // Makes steps or evaluates batches, and measures their kernels.
  ProfileTexts profile(const ProfileRequest& request = {}) {
    plait_profile_options o{};
    o.struct_size = sizeof o;
    o.entry_point = request.entry_point.c_str();
    o.dataset = request.dataset.c_str();
    o.runs = request.runs;
    o.warm_up = request.warm_up;
    o.trace = request.trace ? 1 : 0;
    plait_text* trace = nullptr;
    ProfileTexts texts;
    texts.table = host_detail::text_of(
        [&](plait_text** t) { return plait_session_profile(get(), &o, t, &trace); });
    if (trace)
      texts.trace = host_detail::text_of([&](plait_text** t) -> plait_error* {
        *t = trace;
        return nullptr;
      });
    return texts;
  }
  // Computes the named value for the samples of feeds; out.size_bytes() must be exactly its size,
  // and T the C++ type of its elements.
  template <class T>
  void predict(std::span<const Feed> feeds, const std::string& value, std::span<T> out) {
    const std::vector<plait_feed> raw = raw_feeds(feeds);
    host_detail::check(plait_session_predict(get(), raw.data(), static_cast<uint32_t>(raw.size()),
                                             value.c_str(), out.data(), out.size_bytes()));
  }
  // Several values, in one run of the evaluation program.
  void predict(std::span<const Feed> feeds, std::span<const plait_prediction> values) {
    const std::vector<plait_feed> raw = raw_feeds(feeds);
    host_detail::check(plait_session_predict_all(get(), raw.data(),
                                                 static_cast<uint32_t>(raw.size()), values.data(),
                                                 static_cast<uint32_t>(values.size())));
  }
  // Whether it is so on any rank; returns when all ranks have called it.
  bool any_rank(bool own) {
    uint32_t any = 0;
    host_detail::check(plait_session_any_rank(get(), own ? 1 : 0, &any));
    return any != 0;
  }
  // May be called by any thread. A signal handler calls plait_session_cancel(get()).
  void cancel() noexcept { plait_session_cancel(get()); }
  // Saves into the folder `path`; "": into the run directory.
  void save(const std::string& path = {}) {
    host_detail::check(plait_session_save(get(), path.empty() ? nullptr : path.c_str()));
  }
  void load(const std::string& path) {
    host_detail::check(plait_session_load(get(), path.c_str()));
  }
  void load_parameters(const std::string& path) {
    host_detail::check(plait_session_load_parameters(get(), path.c_str()));
  }
  std::string describe() const {
    return host_detail::text_of([&](plait_text** t) { return plait_session_describe(get(), t); });
  }
  template <class T>
  void read(const std::string& parameter, std::span<T> out) const {
    host_detail::check(plait_session_read(get(), parameter.c_str(), out.data(), out.size_bytes()));
  }
  template <class T>
  void write(const std::string& parameter, std::span<const T> data) {
    host_detail::check(
        plait_session_write(get(), parameter.c_str(), data.data(), data.size_bytes()));
  }
  ParameterView view(const std::string& parameter) const {
    plait_dl_managed* managed = nullptr;
    host_detail::check(plait_session_view(get(), parameter.c_str(), &managed));
    return ParameterView(managed);
  }

 private:
  struct Hook {
    StepCallback on_step;
    std::exception_ptr thrown;
  };
  static uint32_t on_step(void* user, const plait_step_result* result) {
    auto* hook = static_cast<Hook*>(user);
    try {
      return hook->on_step(*result) ? 1 : 0;
    } catch (...) {
      hook->thrown = std::current_exception();
      return 1;
    }
  }
  static plait_step_result empty_result() {
    plait_step_result result{};
    result.struct_size = sizeof result;
    return result;
  }
  static std::vector<plait_feed> raw_feeds(std::span<const Feed> feeds) {
    std::vector<plait_feed> raw;
    for (const Feed& feed : feeds) {
      // The pointers are set here: the Feed may have been moved since it was made.
      auto& tensor = const_cast<plait_dl_tensor&>(feed.tensor_);
      tensor.shape = const_cast<int64_t*>(feed.shape_.data());
      tensor.strides = feed.strides_.empty() ? nullptr : const_cast<int64_t*>(feed.strides_.data());
      raw.push_back({sizeof(plait_feed), feed.field_.c_str(), &tensor});
    }
    return raw;
  }
  std::unique_ptr<Hook> hook_;  // outlives the session, at one address
  host_detail::Handle<plait_session, plait_session_close> session_;
};

}  // namespace embedding
}  // namespace plait
