#include "engine/session/session.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/initialize.hpp"

namespace plait::session {

Session::Session(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log,
                 FileSystem& files)
    : plan_(std::move(plan)),
      settings_(std::move(settings)),
      log_(log),
      files_(files),
      ranks_(plan_, settings_.job, log),
      executor_(abort_on_error("opening the session",
                               [this] {
                                 const plugin::JobScope scope(runtime::place_of(settings_.job));
                                 return runtime::Executor(plan_,
                                                          [this](const runtime::Device& device) {
                                                            return ranks_.connect(device);
                                                          });
                               })),
      schedules_(*plan_),
      train_feeder_(plan_->train_feed, *plan_->dataset("train"),
                    plan_->train_feed.batch * plan_->accumulation),
      scalars_(plan_->scalars),
      results_(plan_->results),
      step_sums_({plan_->results.segment, plan_->results.dtype, 2}),
      background_collectives_(ranks_.collectives("background")) {
  numbers_.emplace(executor_.queue(), 4, scalars_.bytes() + 64);
  outcomes_.emplace(executor_.queue(), 4, results_.bytes());
  if (const runtime::Communicators* groups = ranks_.communicators())
    for (const auto& g : groups->connected())
      log_.debug(strf("[session] %s: %d ranks exchange over %s", g.group.c_str(), g.ranks,
                      g.backend.c_str()));
  on_all_ranks("opening the session", [&] {
    compare_identities();
    initialize_parameters();
    begin_lineage();
    resume();
  });
}

Session::~Session() {
  try {
    background_saver_.wait();
  } catch (const std::exception& e) {
    log_.error(e.what());
  }
  executor_.settle();   // before the groups close, for which its queue may wait
  ranks_.disconnect();  // before the arena is freed
}

void Session::initialize_parameters() {
  std::vector<char> values;
  executor_.sync();
  const auto seed = static_cast<uint64_t>(plan_->experiment.run.seed);
  for (const plan::Parameter& p : plan_->parameters)
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(*plan_, p))
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        const auto fill = [&](int64_t at, int64_t count, void* out) {
          initialize(p, seed, global + at, count, held.dtype, out, plan_->threads);
        };
        if (host_visible())
          return fill(0, n, executor_.address(plan::offset_by(held.at, first, held.dtype)));
        // In pieces that are copied at once.
        const auto piece =
            static_cast<int64_t>(runtime::Transfers::kPiece / program::dtype_bytes(held.dtype));
        for (int64_t at = 0; at < n; at += piece) {
          const int64_t count = std::min(piece, n - at);
          values.resize(program::bytes_of(count, held.dtype));
          fill(at, count, values.data());
          executor_.write(plan::offset_by(held.at, first + at, held.dtype), values.data(),
                          values.size());
        }
      });
  for (const plan::Parameter& p : plan_->parameters) {
    for (const plan::StateBlocks& s : plan::local_states(*plan_, p)) {
      if (s.initial == 0) continue;  // the arena is zero
      // Padding stays zero: only the elements of parameters get the initial value.
      for (const plan::LocalBlock& held : s.blocks) {
        const int64_t n = topology::elements(held.box);
        values.resize(program::bytes_of(n, held.dtype));
        for (int64_t i = 0; i < n; ++i)
          program::store_element(held.dtype, values.data(), i, s.initial);
        executor_.write(held.at, values.data(), values.size());
        executor_.sync();
      }
    }
  }
  for (const auto& model : plan_->experiment.models)
    if (!model.load.empty()) load_weights(model);
}

data::DataLoader& Session::train_loader() {
  if (!train_loader_) {
    data::DataLoaderConfig l = plan::loader_config(*plan_, "train", true);
    l.first_batch = next_batch_;
    const plan::Dataset& d = *plan_->dataset("train");
    train_loader_.emplace(d.source(), l);
  }
  return *train_loader_;
}

StepResult Session::step() {
  return on_all_ranks("step", [&] {
    if (drained_) return *std::exchange(drained_, std::nullopt);
    if (in_flight() == 0) launch_next();
    return finish_step();
  });
}

void Session::launch_next() {
  const data::Batch* batch = train_loader().next();
  if (!batch) fail(PLAIT_ERR_DATA, "[session] [data.train] holds no samples");
  train_feeder_.set_batch(*batch);
  launch_step(batch->epoch, batch->valid, batch->index + 1);
}

StepResult Session::step(const std::vector<HostField>& fields) {
  // An invalid feed is refused before the collective call, so that it does not end the job.
  drain();
  drained_.reset();
  const int64_t n = train_feeder_.set_batch(fields, false);
  return on_all_ranks("step", [&] { return run_step(0, n); });
}

// Writes the learning rates of this step as one block: all scalars lie in one segment.
void Session::write_scalars() {
  for (size_t g = 0; g < plan_->groups.size(); ++g) {
    const double factor = schedules_.factor(g, launched_ + 1);
    scalars_.set(plan_->groups[g].learning_rate_at, plan_->groups[g].learning_rate * factor);
    scalars_.set(plan_->groups[g].schedule_factor_at, factor);
  }
  numbers_->write(executor_.address(scalars_.place()), scalars_.data(), scalars_.bytes());
}

// Sets the device's count of updates to that of a checkpoint.
void Session::write_updates() {
  std::vector<char> made(program::bytes_of(1, plan_->precision.scalar));
  program::store_element(plan_->precision.scalar, made.data(), 0, static_cast<double>(updates_));
  executor_.write(plan_->step, made.data(), made.size());
  executor_.sync();
}

StepResult Session::run_step(int64_t epoch, int64_t samples) {
  launch_step(epoch, samples, -1);
  return finish_step();
}

void Session::drain() {
  if (in_flight() == 0) return;
  abort_on_error("step", [&] {
    // At most one step is in flight when the host calls: it was launched while the results of the
    // previous one were awaited.
    drained_ = finish_step();
  });
}

void Session::launch_step(int64_t epoch, int64_t samples, int64_t next_batch) {
  const int64_t step = launched_ + 1;
  Launched& launch = launches_[step % 2];
  launch = {epoch, next_batch, monotonic_ns(), 0, {}};
  modified();
  ranks_.at_step(step);
  step_sums_.set(plan_->results.at(0), static_cast<double>(samples));
  step_sums_.set(plan_->results.at(1), cancelled_.load(std::memory_order_relaxed) ? 1 : 0);
  numbers_->begin();
  numbers_->write(executor_.address(plan_->step_sums), step_sums_.data(), step_sums_.bytes());
  write_scalars();
  numbers_->end();
  const int64_t micro = plan_->train_feed.batch;
  const int64_t share = plan_->at.data * plan_->accumulation * micro;
  for (const runtime::Executor::LaunchGroup& group : executor_.step()) {
    const plan::Launch& t = *group.first;
    if (t.feed >= 0)
      train_feeder_.feed(executor_, plan_->train_feeds[static_cast<size_t>(t.feed)], t.micro,
                         t.slot, step, share + t.micro * micro);
    executor_.launch(group);
  }
  launch.results = outcomes_->ask(executor_.address(results_.place()));
  if (looks_ahead_) launch.outside = train_feeder_.find_out_of_range();
  launched_ = step;
}

StepResult Session::finish_step() {
  const Launched launch = launches_[(step_ + 1) % 2];
  StepResult r;
  try {
    std::memcpy(results_.data(), outcomes_->get(launch.results), results_.bytes());
    if (in_flight() == 1) executor_.sync();  // reports asynchronous errors
  } catch (...) {
    launched_ = step_;  // neither this step nor one launched behind it will finish
    throw;
  }
  read_results(r);
  ++step_;
  samples_ += r.samples;
  if (!r.skipped) ++updates_;
  r.step = step_;
  r.epoch = launch.epoch;
  r.samples = samples_;
  r.learning_rate =
      plan_->groups.empty() ? 0 : plan_->groups[0].learning_rate * schedules_.factor(0, step_);
  const uint64_t now = monotonic_ns();
  r.seconds = static_cast<double>(now - std::max(launch.start_ns, finished_ns_)) * 1e-9;
  finished_ns_ = now;
  r.finished = plan_->total_steps > 0 && step_ >= plan_->total_steps;
  // Before guard_numerics(), which may throw: a save after its error must not repeat the batch.
  if (launch.next_batch >= 0) next_batch_ = launch.next_batch;
  guard_numerics(r,
                 r.skipped && !looks_ahead_ ? train_feeder_.find_out_of_range() : launch.outside);
  return r;
}

void Session::read_results(StepResult& r) {
  double squares = 0;
  const auto at = [&](plan::BufferRef p) { return results_.get(p); };
  r.samples = std::lround(at(plan_->step_sums));
  stop_agreed_ = at(plan_->results.at(1)) > 0;
  for (const plan::Model& m : plan_->models) {
    if (!m.trained) continue;
    r.loss += at(m.loss);
    squares += at(m.norm) * at(m.norm);
    r.skipped = r.skipped || at(m.finite) == 0;
  }
  r.grad_norm = std::sqrt(squares);
}

// Different devices compute different bits, so replicated parameters would diverge.
void Session::compare_identities() {
  const std::vector<std::string> all = ranks_.all_gather(executor_.device().identity());
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      fail_collective(PLAIT_ERR_PEER, "[session] the ranks' devices differ: rank 0 has '" + all[0] +
                                          "', rank " + std::to_string(r) + " '" + all[r] +
                                          "'; run all ranks on equal devices and libraries");
}

void Session::throw_on_all_ranks(const char* what, const Error& e) {
  const std::string where =
      strf("[session] %s failed in step %ld", what, static_cast<long>(step_ + 1));
  ranks_.fail_on_all_ranks(where, e);
}

const plan::Parameter& Session::parameter(const std::string& name) const {
  if (const plan::Parameter* p = plan_->parameter(name)) return *p;
  std::vector<std::string> names;
  for (const auto& p : plan_->parameters) names.push_back(p.name);
  fail_not_found("[session] there is no parameter '" + name + "'" +
                 did_you_mean(nearest(name, names)) + "; there are: " + join(names));
}

namespace {
void check_bytes(const plan::Parameter& p, uint64_t bytes) {
  if (bytes != program::bytes(p.shape))
    fail_invalid(strf("[session] parameter '%s' is %s, %lu bytes; the call gives %lu",
                      p.name.c_str(), program::text(p.shape).c_str(),
                      static_cast<unsigned long>(program::bytes(p.shape)),
                      static_cast<unsigned long>(bytes)));
}
}  // namespace

void Session::read(const std::string& name, void* data, uint64_t bytes) {
  const plan::Parameter& p = parameter(name);
  check_bytes(p, bytes);
  drain();
  if (plan::is_fully_local(*plan_, p)) return executor_.read(p.value, data, bytes);
  // Every rank contributes its part in a tensor of zeros, summed as integers, which preserves the
  // bits. The caller's memory is written last, so it is unchanged if a rank fails.
  on_all_ranks("reading a parameter", [&] {
    std::vector<int32_t> whole((bytes + sizeof(int32_t) - 1) / sizeof(int32_t), 0);
    std::vector<char> own;
    const uint64_t size = program::dtype_bytes(p.shape.dtype);
    const bool counts = p.holders[0] == plan_->at.pipeline;  // one of the holders
    for (const plan::LocalBlock& held :
         counts ? plan::local_parameter_blocks(*plan_, p) : std::vector<plan::LocalBlock>{}) {
      own.resize(program::bytes_of(topology::elements(held.box), held.dtype));
      executor_.read(held.at, own.data(), own.size());
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        std::memcpy(reinterpret_cast<char*>(whole.data()) + static_cast<uint64_t>(global) * size,
                    own.data() + static_cast<uint64_t>(first) * size,
                    static_cast<uint64_t>(n) * size);
      });
    }
    const std::span<int32_t> bits(whole);
    if (p.sharded) ranks_.communicators()->sum(topology::Axis::kTensor, bits);
    if (p.group >= 0 && plan_->zero == 3) ranks_.communicators()->sum(topology::Axis::kData, bits);
    if (plan_->grid.pipeline() > 1) ranks_.communicators()->sum(topology::Axis::kPipeline, bits);
    std::memcpy(data, whole.data(), bytes);
  });
}

void Session::write(const std::string& name, const void* data, uint64_t bytes) {
  const plan::Parameter& p = parameter(name);
  check_bytes(p, bytes);
  drain();
  modified();
  for (const plan::LocalBlock& held : plan::local_parameter_blocks(*plan_, p))
    plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
      executor_.write(plan::offset_by(held.at, first, held.dtype),
                      static_cast<const char*>(data) + program::bytes_of(global, held.dtype),
                      program::bytes_of(n, held.dtype));
      executor_.sync();
    });
}

std::string Session::describe() const {
  JsonWriter w;
  w.object().field("schema", 1).field("step", step_).field("samples", samples_);
  w.field("run_dir", run_files_ ? run_files_->dir().path() : std::string());
  w.field("device", plan_->device).field("device_summary", executor_.device().info().summary);
  w.field("arena_bytes", executor_.bytes()).field("shared_bytes", executor_.shared_bytes());
  w.key("groups").array();
  if (ranks_.communicators())
    for (const auto& g : ranks_.communicators()->connected())
      w.object()
          .field("name", g.group)
          .field("ranks", g.ranks)
          .field("backend", g.backend)
          .end_object();
  w.end_array().key("last_evaluation");
  if (last_evaluation_) {
    w.object();
    write_members(w, *last_evaluation_);
    w.end_object();
  } else {
    w.null();
  }
  w.key("parameters").array();
  for (const auto& p : plan_->parameters) {
    w.object()
        .field("name", p.name)
        .field("dtype", program::dtype_name(p.shape.dtype))
        .key("shape")
        .array();
    for (uint32_t i = 0; i < p.shape.ndim; ++i) w.value(p.shape.dims[i]);
    w.end_array().field("group", p.group < 0 ? std::string("frozen")
                                             : plan_->groups[static_cast<size_t>(p.group)].name);
    w.end_object();
  }
  w.end_array().end_object();
  return w.text();
}

}  // namespace plait::session
