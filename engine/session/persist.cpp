// Saving, loading and resuming: global tensors by name, independent of the layout.
#include <algorithm>
#include <deque>
#include <new>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/session.hpp"

namespace plait::session {
namespace {

std::vector<int64_t> dims(const plan::CheckpointBlock& b) { return program::dims_of(b.shape); }

checkpoint::SaveTensor save_tensor(const plan::CheckpointBlock& b, const void* data) {
  return {b.tensor,    b.local.dtype,      dims(b),           data,
          b.optimizer, b.local.box.offset, b.local.box.extent};
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
  int64_t updates, skipped_in_a_row, evaluations_without_gain;
  double best;
};

Extra parse_extra(const std::string& text, int64_t step, const std::string& where) {
  const auto bad = [&](const std::string& what) {
    fail_data("[session] the state in '" + where + "' cannot be read: it " + what);
  };
  JsonValue json;
  try {
    json = parse_json(text);
  } catch (const Error& e) {
    bad(e.text());
  }
  using Kind = JsonValue::Kind;
  const auto number = [&](const char* key, int64_t otherwise) {
    const JsonValue* v = json.find(key);
    if (!v) return otherwise;
    if (!v->is(Kind::kWhole) && !v->is(Kind::kNegative))
      bad(std::string("has '") + key + "' that is no whole number");
    return static_cast<int64_t>(v->whole);
  };
  const JsonValue* best = json.find("best");
  if (best && !best->is(Kind::kText)) bad("has 'best' that is no text");
  return {number("updates", step), number("skipped_in_a_row", 0),
          number("evaluations_without_gain", -1),
          best ? std::strtod(best->text.c_str(), nullptr) : 0};
}

}  // namespace

checkpoint::RunState Session::state() const {
  checkpoint::RunState s;
  s.step = step_;
  s.samples = samples_;
  s.world = {plan_->grid.data(), plan_->grid.tensor(), plan_->grid.pipeline()};
  s.seed = static_cast<uint64_t>(plan_->experiment.run.seed);
  s.random_step = step_;
  s.cursors["train"] = next_batch_;
  s.config_hash = hex64(plan_->hash());
  s.settings = result_config(*plan_);
  s.engine_version = PLAIT_VERSION;
  s.lineage = lineage_;
  s.lineage_from = lineage_from_;
  // A pretty-printed double would lose bits; the hexadecimal form keeps all.
  JsonWriter extra;
  extra.object().field("updates", updates_).field("skipped_in_a_row", consecutive_skipped_);
  extra.field("best", strf("%a", best_));
  extra.field("evaluations_without_gain", evaluations_without_gain_).end_object();
  s.extra = extra.text();
  return s;
}

std::string Session::save(const std::string& path) {
  if (path.empty() && !keeps_files_)
    fail(
        PLAIT_ERR_STATE,
        "[session] this session has no run directory; give save() a folder, or open it with files");
  drain();
  return on_all_ranks("saving", [&] {
    background_saver_.wait();
    executor_.sync();
    std::deque<std::vector<char>> copies;  // only where device memory cannot be read in place
    std::vector<checkpoint::SaveTensor> tensors;
    plan::for_each_block(*plan_, [&](const plan::CheckpointBlock& b) {
      if (!b.ours) return;
      const void* data = executor_.address(b.local.at);
      if (!host_visible()) {
        copies.emplace_back(b.bytes());
        executor_.read(b.local.at, copies.back().data(), copies.back().size());
        data = copies.back().data();
      }
      tensors.push_back(save_tensor(b, data));
    });
    std::optional<checkpoint::CheckpointWriter> other;
    checkpoint::CheckpointWriter* writer = run_files_ ? &run_files_->checkpoints() : nullptr;
    if (ranks_.is_leader() && !path.empty()) writer = &other.emplace(files_, path, 0, log_);
    return write_checkpoint(files_, ranks_.collectives(), writer, state(), tensors);
  });
}

// Begins a save into the run directory: copies what this rank writes; a thread writes the copy.
void Session::save_in_background() {
  drain();
  on_all_ranks("saving", [&] {
    background_saver_.wait();
    if (!save_buffer_) save_buffer_ = new_save_buffer(plan::checkpoint_copy_bytes(*plan_));
    std::vector<checkpoint::SaveTensor> tensors;
    uint64_t used = 0;
    plan::for_each_block(*plan_, [&](const plan::CheckpointBlock& b) {
      if (!b.ours) return;
      executor_.read(b.local.at, save_buffer_.get() + used, b.bytes());
      tensors.push_back(save_tensor(b, save_buffer_.get() + used));
      used += b.bytes();
    });
    checkpoint::CheckpointWriter* writer = run_files_ ? &run_files_->checkpoints() : nullptr;
    background_saver_.start(step_, [this, writer, state = state(), tensors = std::move(tensors)] {
      return write_checkpoint(files_, background_collectives_, writer, state, tensors);
    });
  });
}

// An error of a save in the background is returned by this call.
void Session::wait_for_save() {
  abort_on_error("saving", [&] { background_saver_.wait(); });
}

// Rank 0 verifies all files, the other ranks those that they read.
std::unique_ptr<checkpoint::Checkpoint> Session::open_on_all_ranks(const std::string& path) {
  background_saver_.wait();
  std::unique_ptr<checkpoint::Checkpoint> c;
  if (ranks_.is_leader()) c = checkpoint::open_checkpoint(files_, path, log_);
  const std::string found = ranks_.broadcast(c ? c->path() : "");
  if (!c) c = std::make_unique<checkpoint::Checkpoint>(files_, found, kVerifyLater);
  return c;
}

void Session::load(const std::string& path) {
  drain();
  drained_.reset();
  on_all_ranks("loading", [&] {
    restore(*open_on_all_ranks(path));
    modified();
    if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
  });
}

void Session::load_parameters(const std::string& path) {
  drain();
  drained_.reset();
  on_all_ranks("loading", [&] {
    const auto c = open_on_all_ranks(path);
    for (const auto& [at, bytes] : read_blocks(*c, true))
      executor_.write(at, bytes.data(), bytes.size());
    executor_.sync();
    modified();
    step_ = launched_ = c->state().step;
    begin_lineage();
    last_evaluation_.reset();
    if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
  });
}

// Checks everything first: a checkpoint that does not fit leaves the session unchanged.
std::vector<std::pair<plan::BufferRef, std::vector<char>>> Session::read_blocks(
    const checkpoint::Checkpoint& c, bool parameters_only) {
  check_compatibility(c, parameters_only);
  std::vector<std::pair<plan::BufferRef, std::vector<char>>> loaded;
  plan::for_each_block(*plan_, [&](const plan::CheckpointBlock& b) {
    if (parameters_only && b.optimizer) return;
    auto bytes = with_memory("session", ("hold tensor '" + b.tensor + "' of").c_str(), c.path(),
                             b.bytes(), [&] { return std::vector<char>(b.bytes()); });
    c.read_block(b.tensor, b.local.dtype, dims(b), b.local.box, bytes.data());
    loaded.emplace_back(b.local.at, std::move(bytes));
  });
  return loaded;
}

// Begins a lineage: from here on checkpoints belong together; existing ones of a higher step become
// stale.
void Session::begin_lineage() {
  lineage_ = checkpoint::unique_id();
  lineage_from_ = step_;
}

void Session::restore(const checkpoint::Checkpoint& c) {
  const checkpoint::RunState& s = c.state();
  const auto loaded = read_blocks(c, false);
  const Extra extra = parse_extra(s.extra, s.step, c.path());
  warn_of_differences(s, c.path());
  for (const auto& [at, bytes] : loaded) executor_.write(at, bytes.data(), bytes.size());
  executor_.sync();
  step_ = launched_ = s.step;
  begin_lineage();
  last_evaluation_.reset();
  samples_ = s.samples;
  updates_ = extra.updates;
  write_updates();
  consecutive_skipped_ = extra.skipped_in_a_row;
  best_ = extra.best;
  evaluations_without_gain_ = extra.evaluations_without_gain;
  const auto cursor = s.cursors.find("train");
  next_batch_ = cursor == s.cursors.end() ? s.step : cursor->second;
  if (train_loader_) train_loader_->seek(next_batch_);
  log_.info("[session] continues from '" + c.path() + "', step " + std::to_string(step_));
}

void Session::resume() {
  std::unique_ptr<checkpoint::Checkpoint> c;
  if (ranks_.is_leader()) c = open_files();
  keeps_files_ = ranks_.broadcast(run_files_ ? "files" : "") == "files";
  const std::string path = ranks_.broadcast(c ? c->path() : "");
  if (path.empty()) return;
  if (!c) c = std::make_unique<checkpoint::Checkpoint>(files_, path, kVerifyLater);
  restore(*c);
  resumed_from_ = path;
  if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
}

// Opens the run directory and the checkpoint to resume from, as the settings say.
std::unique_ptr<checkpoint::Checkpoint> Session::open_files() {
  Resume mode = settings_.resume;
  if (mode == Resume::kConfig) {
    const std::string& text = plan_->experiment.run.resume;
    mode = text == "must" ? Resume::kMust : text == "auto" ? Resume::kAuto : Resume::kNever;
  }
  if (mode != Resume::kNever && settings_.run_dir.empty())
    settings_.run_dir = newest_run(*plan_, files_);
  // A new run beside checkpoints of an older one would have its own deleted by checkpoint.keep, and
  // would resume from the wrong ones.
  if (mode == Resume::kNever && !settings_.no_files && !settings_.run_dir.empty() &&
      !checkpoint::list_checkpoints(files_, settings_.run_dir + "/ckpt").empty())
    fail_config("[session] '" + settings_.run_dir +
                "' holds checkpoints of an earlier run; resume it with run.resume = \"auto\" "
                "(plait run FILE "
                "--run-dir " +
                settings_.run_dir + " --resume auto), or name another folder");
  std::unique_ptr<checkpoint::Checkpoint> c;
  if (mode != Resume::kNever && !settings_.run_dir.empty())
    c = checkpoint::open_newest(files_, settings_.run_dir + "/ckpt", log_);
  if (!c && mode == Resume::kMust)
    fail_not_found("[session] there is no checkpoint to resume from in '" +
                   (settings_.run_dir.empty()
                        ? plan_->experiment.run.out + "/" + plan_->experiment.run.name
                        : settings_.run_dir) +
                   "'; start without resume, or name the run directory");
  if (!settings_.no_files) run_files_ = std::make_unique<RunFiles>(*plan_, settings_, files_, log_);
  return c;
}

void Session::load_weights(const config::ModelConfig& model) {
  const checkpoint::SafetensorsFile file(files_, model.load);
  for (const plan::Parameter& p : plan_->parameters) {
    if (p.model != model.name) continue;
    // Names with the model's name in front, as Plait writes them, or without.
    const checkpoint::TensorEntry* entry = file.header().find(p.name);
    if (!entry) entry = file.header().find(p.name.substr(model.name.size() + 1));
    if (!entry) {
      std::vector<std::string> names;
      for (const auto& t : file.header().tensors) names.push_back(t.name);
      fail_data("[session] '" + model.load + "' (" + model.path + ".load) has no tensor '" +
                p.name + "'" + did_you_mean(nearest(p.name, names)));
    }
    if (entry->dtype != p.shape.dtype || entry->shape != program::dims_of(p.shape)) {
      std::string found = entry->dtype_text + " (";
      for (size_t i = 0; i < entry->shape.size(); ++i)
        found += (i ? ", " : "") + std::to_string(entry->shape[i]);
      fail_data("[session] tensor '" + entry->name + "' of '" + model.load + "' is " + found +
                "), expected " + program::text(p.shape));
    }
    std::vector<char> piece(checkpoint::SafetensorsFile::kPiece);
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(*plan_, p))
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        const uint64_t bytes = program::bytes_of(n, held.dtype);
        const uint64_t skipped = program::bytes_of(global, held.dtype);
        const plan::BufferRef to = plan::offset_by(held.at, first, held.dtype);
        for (uint64_t at = 0; at < bytes; at += piece.size()) {
          const size_t size = std::min<uint64_t>(piece.size(), bytes - at);
          file.read(*entry, skipped + at, piece.data(), size);
          executor_.write({to.segment, to.offset + at}, piece.data(), size);
          executor_.sync();
        }
      });
  }
}

}  // namespace plait::session
