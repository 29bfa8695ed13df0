#include "engine/session/checkpoint_io.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <new>
#include <optional>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/json.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/adapter_record.hpp"
#include "engine/session/block_access.hpp"
#include "engine/session/compatibility.hpp"
#include "engine/session/result_config.hpp"

namespace plait::session {
namespace {

std::vector<int64_t> dims(const plan::CheckpointBlock& b) { return program::dims_of(b.shape); }

checkpoint::SaveTensor save_tensor(const plan::CheckpointBlock& b, const void* data) {
  return {b.tensor,    b.local.dtype,      dims(b),           data,
          b.optimizer, b.local.box.offset, b.local.box.extent};
}

bool is_saved(const plan::CheckpointBlock& b) { return b.saved; }

bool has_states(const plan::Plan& plan) {
  bool found = false;
  plan::for_each_block(plan, [&](const plan::CheckpointBlock& b) { found = found || b.optimizer; });
  return found;
}

std::unique_ptr<char[]> new_save_buffer(uint64_t bytes) {
  try {
    return std::make_unique_for_overwrite<char[]>(bytes);
  } catch (const std::bad_alloc&) {
    fail(PLAIT_ERR_MEMORY,
         "[session] there is no memory for the copy that a checkpoint is written "
         "from while steps go on, " +
             human_bytes(bytes) + "; checkpoint.background = false writes it without one");
  }
}

constexpr auto kVerifyLater = checkpoint::Checkpoint::Verify::kLater;

// The state of a session besides tensors and the fields of the manifest.
struct Extra {
  std::vector<int64_t> adapter_updates;
  int64_t updates, updates_before, tokens, skipped_in_a_row, evaluations_without_gain;
  double best;
  TrainingState::Best kept;
  std::vector<double> loss_scale;  // empty: the run had none
};

// Three positive numbers as text, in the hexadecimal form.
template <class Bad>
std::vector<double> loss_scale_of(const JsonValue& json, const Bad& bad) {
  const JsonValue* text = json.find("loss_scale");
  if (!text) return {};
  std::vector<double> numbers;
  if (text->is(JsonValue::Kind::kText)) {
    const char* at = text->text.c_str();
    for (char* end = nullptr; numbers.size() < 3; at = end) {
      const double v = std::strtod(at, &end);
      if (end == at || !std::isfinite(v) || v < 0) break;
      numbers.push_back(v);
    }
  }
  if (numbers.size() != 3 || numbers[0] <= 0) bad("has 'loss_scale' that is not three numbers");
  return numbers;
}

// "updates.MODEL.ADAPTER": as TrainingState::adapter_updates.
std::vector<std::string> keys_of_adapters(const plan::Plan& plan) {
  std::vector<std::string> keys;
  for (const plan::Model& m : plan.models)
    for (const plan::GradientNorm& norm : m.norms)
      if (!norm.weights.empty()) keys.push_back(updates_key(m.name, norm.adapter));
  return keys;
}

Extra parse_extra(const plan::Plan& plan, const std::string& extra, int64_t step,
                  const std::string& where) {
  const auto bad = [&](const std::string& what) {
    fail_data("[session] the state in '" + where + "' cannot be read: it " + what);
  };
  JsonValue json;
  try {
    json = parse_json(extra);
  } catch (const Error& e) {
    bad(e.text());
  }
  using Kind = JsonValue::Kind;
  const auto number = [&](const char* key, int64_t otherwise) {
    const JsonValue* v = json.find(key);
    if (!v) return otherwise;
    constexpr uint64_t kMost = uint64_t{1} << 53;
    if (!v->is(Kind::kNegative) && (!v->is(Kind::kWhole) || v->whole > kMost))
      bad(std::string("has '") + key + "' that is not a whole number up to 2^53");
    return static_cast<int64_t>(v->whole);
  };
  const auto text = [&](const char* key) {
    const JsonValue* v = json.find(key);
    if (v && !v->is(Kind::kText)) bad(std::string("has '") + key + "' that is no text");
    return v ? v->text : std::string();
  };
  const auto real = [&](const char* key) { return std::strtod(text(key).c_str(), nullptr); };
  const int64_t updates = number("updates", step);
  // One that was alone in its run, or took all of its samples, made the updates of the run.
  std::vector<int64_t> of_adapters;
  for (const std::string& key : keys_of_adapters(plan))
    of_adapters.push_back(number(key.c_str(), updates));
  return {std::move(of_adapters),
          updates,
          number("updates_before", 0),
          number("tokens", -1),
          number("skipped_in_a_row", 0),
          number("evaluations_without_gain", -1),
          real("best"),
          {text("kept_metric"), real("kept_best"), number("kept_step", -1)},
          loss_scale_of(json, bad)};
}

// Where the run was, besides the values of tensors.
void take_position(TrainingState& to, const checkpoint::RunState& s, const Extra& extra,
                   int64_t tokens_per_sample) {
  to.step = s.step;
  to.samples = s.samples;
  // Older engines did not count them.
  to.tokens = extra.tokens >= 0 ? extra.tokens : s.samples * tokens_per_sample;
  to.consecutive_skipped = extra.skipped_in_a_row;
  to.best = extra.best;
  to.kept = extra.kept;
  to.evaluations_without_gain = extra.evaluations_without_gain;
  const auto cursor = s.cursors.find("train");
  to.next_batch = cursor == s.cursors.end() ? s.step : cursor->second;
}

}  // namespace

checkpoint::RunState CheckpointIo::run_state(bool whole) {
  checkpoint::RunState s;
  if (whole && c_.ranks.is_leader()) s.bases = bases_.records();
  s.states_left_out = !whole && has_states(c_.plan);
  s.step = c_.state.step;
  s.samples = c_.state.samples;
  s.world = {c_.plan.grid.data(), c_.plan.grid.tensor(), c_.plan.grid.pipeline()};
  s.seed = static_cast<uint64_t>(c_.plan.experiment.run.seed);
  s.random_step = c_.state.step;
  s.cursors["train"] = c_.state.next_batch;
  s.config_hash = hex64(c_.plan.hash());
  s.settings = result_config(c_.plan);
  s.engine_version = PLAIT_VERSION;
  s.saved_at = static_cast<int64_t>(unix_seconds());
  s.experiment = c_.settings.resolved_toml;
  s.lineage = c_.state.lineage;
  s.lineage_from = c_.state.lineage_from;
  // A pretty-printed double would lose bits; the hexadecimal form keeps all.
  JsonWriter extra;
  extra.object()
      .field("updates", c_.state.updates)
      .field("tokens", c_.state.tokens)
      .field("skipped_in_a_row", c_.state.consecutive_skipped);
  if (c_.state.updates_before > 0) extra.field("updates_before", c_.state.updates_before);
  const std::vector<std::string> of_adapters = keys_of_adapters(c_.plan);
  for (size_t i = 0; i < of_adapters.size(); ++i)
    extra.field(of_adapters[i], c_.state.adapter_updates[i]);
  extra.field("best", strf("%a", c_.state.best));
  if (c_.state.kept.step >= 0)
    extra.field("kept_metric", c_.state.kept.metric)
        .field("kept_best", strf("%a", c_.state.kept.value))
        .field("kept_step", c_.state.kept.step);
  s.best_step = c_.state.kept.step;
  if (c_.plan.scaler.exists())
    extra.field("loss_scale", strf("%a %a %a", c_.state.loss_scale[0], c_.state.loss_scale[1],
                                   c_.state.loss_scale[2]));
  c_.normalizer.save(extra);
  extra.field("evaluations_without_gain", c_.state.evaluations_without_gain).end_object();
  s.extra = extra.text();
  return s;
}

std::string CheckpointIo::save(const std::string& path) {
  if (path.empty() && !c_.keeps_files)
    fail(
        PLAIT_ERR_STATE,
        "[session] this session has no run directory; give save() a folder, or open it with files");
  steps_.drain();
  return c_.on_all_ranks("saving", [&] {
    saver_.wait();
    std::optional<checkpoint::CheckpointWriter> other;
    const SavedCheckpoint saved = write_in_place(
        [&]() -> checkpoint::CheckpointWriter& {
          if (path.empty()) return c_.run_files->checkpoints();
          return other ? *other : other.emplace(c_.files, path, 0, c_.log);
        },
        run_state(), is_saved);
    if (saved.error) fail_saving(saved);
    return saved.path;
  });
}

std::string CheckpointIo::save_part(const std::string& folder, const checkpoint::RunState& state,
                                    const Chosen& chosen) {
  std::optional<checkpoint::CheckpointWriter> to;
  const auto writer = [&]() -> checkpoint::CheckpointWriter& {
    return to ? *to : to.emplace(c_.files, folder, 0, c_.log);
  };
  const SavedCheckpoint saved = write_in_place(writer, state, chosen);
  if (saved.error) fail_saving(saved);
  return saved.path;
}

std::string CheckpointIo::save_model(const std::string& folder, const std::string& experiment) {
  steps_.drain();
  return c_.on_all_ranks("saving", [&] {
    saver_.wait();
    checkpoint::RunState state = run_state(false);  // it has no base: it is complete
    state.experiment = experiment;
    for (const config::ModelConfig& model : c_.plan.experiment.models) {
      keep_adapters(state.settings, model.path, [](const auto&) { return false; });
      leave_adapter_field(state.settings, model.path);
    }
    return save_part(folder, state, [](const plan::CheckpointBlock& b) {
      return !b.optimizer && b.parameter.adapter.empty();
    });
  });
}

std::string CheckpointIo::save_adapter(const std::string& folder, const config::ModelConfig& model,
                                       const std::string& adapter, const std::string& experiment) {
  steps_.drain();
  return c_.on_all_ranks("saving", [&] {
    saver_.wait();
    checkpoint::RunState state = run_state(false);
    state.experiment = experiment;
    for (const config::ModelConfig& one : c_.plan.experiment.models) {
      keep_adapters(state.settings, one.path, [&](const std::string& name) {
        return one.name == model.name && name == adapter;
      });
      leave_adapter_field(state.settings, one.path);
    }
    if (c_.ranks.is_leader()) state.bases = bases_.beside_adapter(model);
    return save_part(folder, state, [&](const plan::CheckpointBlock& b) {
      return !b.optimizer && b.parameter.model == model.name && b.parameter.adapter == adapter;
    });
  });
}

// Writes from where the tensors lie.
SavedCheckpoint CheckpointIo::write_in_place(const WriterOf& writer,
                                             const checkpoint::RunState& state,
                                             const Chosen& chosen) {
  c_.executor.sync();
  std::deque<std::vector<char>> copies;  // only where device memory cannot be read in place
  std::vector<checkpoint::SaveTensor> tensors;
  plan::for_each_block(c_.plan, [&](const plan::CheckpointBlock& b) {
    if (!b.ours || !chosen(b)) return;
    if (!b.local.is_plain()) {
      tensors.push_back(save_tensor(b, nullptr));
      tensors.back().next = pieces_of(c_.executor, b.local);
      return;
    }
    const void* data = c_.executor.address(b.local.at);
    if (!c_.host_visible()) {
      copies.emplace_back(b.bytes());
      c_.executor.read(b.local.at, copies.back().data(), copies.back().size());
      data = copies.back().data();
    }
    tensors.push_back(save_tensor(b, data));
  });
  return write_part(c_.ranks.collectives(), writer, state, tensors);
}

SavedCheckpoint CheckpointIo::write_part(ControlCollectives& collectives, const WriterOf& writer,
                                         const checkpoint::RunState& state,
                                         std::span<const checkpoint::SaveTensor> tensors) {
  const Stopwatch watch;
  SavedCheckpoint saved = write_checkpoint(c_.files, collectives, writer, state, tensors);
  if (!saved.error)
    c_.log.debug([&] {
      return strf("[checkpoint] rank %d wrote %zu tensors, ", c_.ranks.rank(), tensors.size()) +
             human_bytes(checkpoint::bytes_of(tensors)) + ", of " + saved.path +
             ", complete after " + duration_text(watch.seconds());
    });
  return saved;
}

void CheckpointIo::reserve_copy() {
  c_.on_all_ranks("saving", [&] {
    if (!save_buffer_) save_buffer_ = new_save_buffer(plan::checkpoint_copy_bytes(c_.plan));
  });
}

void CheckpointIo::save_between(bool in_background) {
  steps_.drain();
  c_.on_all_ranks("saving", [&] {
    saver_.wait();
    const WriterOf writer = [this]() -> checkpoint::CheckpointWriter& {
      return c_.run_files->checkpoints();
    };
    if (!in_background)
      return saver_.run([&] { return write_in_place(writer, run_state(), is_saved); });
    if (!save_buffer_) save_buffer_ = new_save_buffer(plan::checkpoint_copy_bytes(c_.plan));
    std::vector<checkpoint::SaveTensor> tensors;
    uint64_t used = 0;
    plan::for_each_block(c_.plan, [&](const plan::CheckpointBlock& b) {
      if (!b.ours || !b.saved) return;
      read_block(c_.executor, b.local, 0, topology::elements(b.local.box),
                 save_buffer_.get() + used);
      tensors.push_back(save_tensor(b, save_buffer_.get() + used));
      used += b.bytes();
    });
    saver_.start([this, writer, state = run_state(), tensors = std::move(tensors)] {
      return write_part(background_collectives_, writer, state, tensors);
    });
  });
}

void CheckpointIo::wait_for_save() {
  c_.abort_on_error("saving", [&] { saver_.wait(); });
}

void CheckpointIo::close() noexcept {
  try {
    saver_.wait();
    const std::optional<SavedCheckpoint> saved = saver_.take();
    if (saved && saved->error) c_.log.error(saved->error->full_text());
  } catch (const std::exception& e) {
    c_.log.error(e.what());
  }
}

// Rank 0 verifies all files, the other ranks those that they read.
std::unique_ptr<checkpoint::Checkpoint> CheckpointIo::open_on_all_ranks(const std::string& path) {
  saver_.wait();
  std::unique_ptr<checkpoint::Checkpoint> c;
  if (c_.ranks.is_leader()) c = checkpoint::open_checkpoint(c_.files, path, c_.log);
  const std::string found = c_.ranks.broadcast(c ? c->path() : "");
  if (!c) c = std::make_unique<checkpoint::Checkpoint>(c_.files, found, kVerifyLater);
  return c;
}

namespace {

// Calls f(), which loads `path`. When memory runs out, the error names what was loaded.
template <class F>
void naming(const std::string& path, F&& f) {
  with_memory("session", "load", path, 0, [&] {
    try {
      f();
    } catch (const Error& e) {
      if (e.code() != PLAIT_ERR_MEMORY) throw;
      rethrow_with("[session] cannot load '" + path + "'");
    }
  });
}

}  // namespace

bool CheckpointIo::load(const std::string& path) {
  bool complete = false;
  naming(path, [&] { complete = load_all(path); });
  return complete;
}

bool CheckpointIo::load_parameters(const std::string& path) {
  bool complete = false;
  naming(path, [&] { complete = load_only_parameters(path); });
  return complete;
}

bool CheckpointIo::load_all(const std::string& path) {
  steps_.discard();
  return c_.on_all_ranks("loading", [&] {
    const auto c = open_on_all_ranks(path);
    c_.parameters_changed();  // before the first of them, as a failure may leave some of them new
    restore(*c);
    c_.state.kept = {};  // which may be another run's
    c_.state.modified();
    c_.resume_metrics();
    return c->state().bases.empty();
  });
}

bool CheckpointIo::load_only_parameters(const std::string& path) {
  steps_.discard();
  return c_.on_all_ranks("loading", [&] {
    const auto c = open_on_all_ranks(path);
    if (c_.ranks.is_leader()) log_conversions(c_.plan, *c, c_.log);
    const auto blocks = read_blocks(*c, true);
    auto normalization = c_.normalizer.parse(c->state().extra, c->path());
    c_.parameters_changed();  // as above
    write_blocks(blocks);
    c_.normalizer.take(std::move(normalization));
    c_.executor.sync();
    c_.state.modified();
    c_.state.kept = {};
    c_.state.step = c->state().step;
    c_.state.begin_lineage();
    steps_.restore(false);
    c_.resume_metrics();
    return c->state().bases.empty();
  });
}

// Checks everything first: a checkpoint that does not fit leaves the session unchanged.
std::vector<CheckpointIo::LoadedBlock> CheckpointIo::read_blocks(const checkpoint::Checkpoint& c,
                                                                 bool parameters_only) {
  check_compatibility(c_.plan, c, c_.files, parameters_only);
  if (c_.ranks.is_leader()) bases_.check(c);
  if (c_.ranks.is_leader()) warn_of_unread(c_.plan, c, c_.log);
  std::vector<LoadedBlock> loaded;
  uint64_t n_bytes = 0;
  const Stopwatch watch;
  plan::for_each_block(c_.plan, [&](const plan::CheckpointBlock& b) {
    if (parameters_only && b.optimizer) return;
    if (!b.optimizer && !c.find(b.tensor)) return;  // of model.load
    auto bytes = with_memory("session", ("hold tensor '" + b.tensor + "' of").c_str(), c.path(),
                             b.bytes(), [&] { return std::vector<char>(b.bytes()); });
    c.read_block(b.tensor, b.local.dtype, dims(b), b.local.box, bytes.data());
    n_bytes += b.bytes();
    loaded.push_back({b.local, std::move(bytes), b.optimizer ? nullptr : &b.parameter});
  });
  c_.log.debug([&] {
    return strf("[checkpoint] rank %d read %zu tensors, ", c_.ranks.rank(), loaded.size()) +
           human_bytes(n_bytes) + ", of " + c.path() + " in " + duration_text(watch.seconds());
  });
  return loaded;
}

// Those with other values than model.load gave them on any rank, and those that have its again.
void CheckpointIo::note_written(const std::vector<LoadedBlock>& blocks) {
  std::string same, other;  // names, of blocks of this rank
  for (const auto& [block, bytes, p] : blocks) {
    if (!p || !bases_.holds(*p)) continue;
    std::string& names = bases_.is_original(c_.executor, *p, block, bytes) ? same : other;
    names += (names.empty() ? "" : "/") + p->name;
  }
  const auto for_each = [&](const std::string& names, auto&& call) {
    for (const std::string& of_rank : c_.ranks.all_gather(names))
      for (const std::string& name : split(of_rank, '/'))
        if (const plan::Parameter* p = c_.plan.parameter(name)) call(*p);
  };
  for_each(same, [&](const plan::Parameter& p) { bases_.restored(p); });
  for_each(other, [&](const plan::Parameter& p) {
    bases_.remember(c_.executor, p);
    bases_.written(p);
  });
}

void CheckpointIo::write_blocks(const std::vector<LoadedBlock>& blocks) {
  note_written(blocks);
  for (const auto& [block, bytes, parameter] : blocks)
    write_block(c_.executor, block, 0, topology::elements(block.box), bytes.data());
}

void CheckpointIo::restore(const checkpoint::Checkpoint& c) {
  if (c_.ranks.is_leader()) warn_of_differences(c_.plan, c.state(), c.path(), c_.log);
  take(c, true);
  c_.log.info("[session] continues from '" + c.path() + "', step " + std::to_string(c_.state.step));
}

void CheckpointIo::begin_from(const checkpoint::Checkpoint& c, bool position) {
  take(c, position);
  // These were of the other run, which may have watched another metric.
  c_.state.kept = {};
  c_.state.best = 0;
  c_.state.evaluations_without_gain = -1;
  if (const int64_t total = c_.plan.total_steps; total > 0 && c_.state.step >= total)
    c_.log.warn(
        strf("[session] run.from is at step %ld, and the run ends at step %ld: there is "
             "nothing to train; set run.steps to more",
             static_cast<long>(c_.state.step), static_cast<long>(total)));
  c_.log.info(position ? strf("[session] begins at step %ld of '%s'",
                              static_cast<long>(c_.state.step), c.path().c_str())
                       : strf("[session] begins at step 0 with the weights and the optimizer's "
                              "states of '%s'",
                              c.path().c_str()));
}

void CheckpointIo::take(const checkpoint::Checkpoint& c, bool position) {
  const checkpoint::RunState& s = c.state();
  const auto loaded = read_blocks(c, false);
  if (c_.ranks.is_leader()) log_conversions(c_.plan, c, c_.log);
  const Extra extra = parse_extra(c_.plan, s.extra, s.step, c.path());
  auto normalization = c_.normalizer.parse(s.extra, c.path());
  write_blocks(loaded);
  c_.normalizer.take(std::move(normalization));
  c_.executor.sync();
  c_.state.updates = c_.state.updates_taken = extra.updates;
  c_.state.updates_before = position ? extra.updates_before : extra.updates;
  c_.state.adapter_updates = extra.adapter_updates;
  if (!extra.loss_scale.empty())
    std::copy_n(extra.loss_scale.begin(), 3, c_.state.loss_scale.begin());
  if (position) take_position(c_.state, s, extra, c_.plan.tokens_per_sample);
  c_.state.begin_lineage();
  steps_.restore(true);
}

}  // namespace plait::session
