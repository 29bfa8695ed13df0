// Saving, loading and resuming: global tensors by name, whatever layout wrote them.
#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/rule.hpp"
#include "engine/session/session.hpp"

namespace plait::session {
namespace {

std::vector<int64_t> dims(const plan::Parameter& p) { return program::dims_of(p.shape); }

// A block of a checkpoint's tensor that this rank holds.
struct Block {
  std::string tensor;
  const plan::Parameter& parameter;
  plan::Held held;
  bool optimizer;
  bool ours;  // this rank writes it: what replicas hold alike, one of them does
};

// Which rank writes a parameter that several hold alike: each about the same number of bytes. Parts that the tensor ranks share
// are each written where they are, by one replica; what several pipeline ranks hold, by the first of them.
std::vector<topology::Coordinates> writers(const plan::Plan& plan) {
  const int32_t data = plan.grid.data(), tensor = plan.grid.tensor();
  const auto n = static_cast<size_t>(data * tensor);
  std::vector<std::vector<int64_t>> loads(static_cast<size_t>(plan.grid.pipeline()),
                                          std::vector<int64_t>(n, 0));
  std::vector<topology::Coordinates> writer;
  for (const plan::Parameter& p : plan.parameters) {
    std::vector<int64_t>& load = loads[static_cast<size_t>(p.holders[0])];
    // The parts of one parameter all go to the same replica.
    const auto lightest =
        static_cast<int32_t>(std::min_element(load.begin(), load.end()) - load.begin());
    writer.push_back({p.holders[0], lightest / tensor, lightest % tensor});
    for (int32_t t = 0; t < tensor; ++t)
      if (p.split() || t == lightest % tensor)
        load[static_cast<size_t>(lightest / tensor * tensor + t)] += topology::elements(p.box);
  }
  return writer;
}

// Every block of every tensor: parameters, then the optimizer's states of each parameter.
template <class Visit>
void for_each_block(const plan::Plan& plan, Visit&& visit) {
  const std::vector<topology::Coordinates> writer = writers(plan);
  const bool states_shared = plan.zero > 0;
  const auto of_us = [&](size_t i, bool every_replica) {
    return writer[i].pipeline == plan.at.pipeline &&
           (every_replica || writer[i].data == plan.at.data) &&
           (plan.parameters[i].split() || writer[i].tensor == plan.at.tensor);
  };
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& p = plan.parameters[i];
    for (plan::Held& h : plan::held_value(plan, p))
      visit(Block{p.name, p, std::move(h), false, of_us(i, p.group >= 0 && plan.zero == 3)});
  }
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& p = plan.parameters[i];
    if (p.group < 0) continue;
    for (const plan::State& s : plan.groups[static_cast<size_t>(p.group)].states)
      for (plan::Held& h : plan::held_state(plan, p, s))
        visit(Block{p.name + "." + s.name, p, std::move(h), true, of_us(i, states_shared)});
  }
}

uint64_t bytes_of(const topology::Box& box) {
  return static_cast<uint64_t>(topology::elements(box)) * sizeof(float);
}

constexpr auto kVerifyLater = checkpoint::Checkpoint::Verify::kLater;

// What a session keeps besides tensors and the manifest's own fields.
struct Extra {
  int64_t updates, skipped_in_a_row, evaluations_without_gain;
  double best;
};

Extra parse_extra(const std::string& text, int64_t step, const std::string& where) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.value("updates", step), json.value("skipped_in_a_row", int64_t{0}),
            json.value("evaluations_without_gain", int64_t{-1}),
            std::strtod(json.value("best", std::string("0")).c_str(), nullptr)};
  } catch (const nlohmann::json::exception& e) {
    fail_data("[session] the state in '" + where + "' cannot be read: " + e.what());
  }
}

}  // namespace

checkpoint::State Session::state() const {
  checkpoint::State s;
  s.step = step_;
  s.samples = samples_;
  s.world = {plan_->grid.data(), plan_->grid.tensor(), plan_->grid.pipeline()};
  s.seed = static_cast<uint64_t>(plan_->experiment.run.seed);
  s.random_step = step_;
  s.cursors["train"] = next_batch_;
  s.config_hash = hex64(plan_->hash());
  s.engine_version = PLAIT_VERSION;
  s.timeline = timeline_;
  s.timeline_from = timeline_from_;
  // A pretty-printed double would lose bits; the hexadecimal form keeps all.
  JsonWriter extra;
  extra.object().field("updates", updates_).field("skipped_in_a_row", skipped_in_a_row_);
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
  return together("saving", [&] {
    executor_.sync();
    std::deque<std::vector<char>> copies;  // only where device memory cannot be read in place
    std::vector<checkpoint::SaveTensor> tensors;
    for_each_block(*plan_, [&](const Block& b) {
      if (!b.ours) return;
      const void* data = executor_.address(b.held.at);
      if (!host_visible()) {
        copies.emplace_back(bytes_of(b.held.box));
        executor_.read(b.held.at, copies.back().data(), copies.back().size());
        data = copies.back().data();
      }
      tensors.push_back({b.tensor, b.parameter.shape.dtype, dims(b.parameter), data, b.optimizer,
                         b.held.box.offset, b.held.box.extent});
    });
    std::optional<checkpoint::Writer> other;
    checkpoint::Writer* writer = run_files_ ? &run_files_->checkpoints() : nullptr;
    if (team_.leads() && !path.empty()) writer = &other.emplace(files_, path, 0, log_);
    return team_.alone() ? writer->save(state(), tensors) : save_together(writer, tensors);
  });
}

std::string Session::save_together(checkpoint::Writer* writer,
                                   std::span<const checkpoint::SaveTensor> tensors) {
  // The step goes with it: parts of different steps would make a checkpoint that looks sound.
  const std::string told =
      team_.from_leader(team_.leads() ? std::to_string(step_) + " " + writer->begin(state()) : "");
  const std::string folder = told.substr(told.find(' ') + 1), step = std::to_string(step_);
  std::string fault;
  try {
    if (told.substr(0, told.find(' ')) != step)
      fail(PLAIT_ERR_STATE, "[session] it saves step " + step + ", not the same as rank 0");
    checkpoint::write_share(files_, folder, team_.rank(), team_.size(), tensors);
  } catch (const Error& e) {
    fault = e.text();
  }
  std::string faults;
  const std::vector<std::string> all = team_.from_all(fault);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) faults += strf("; rank %zu: ", r) + all[r];
  if (!faults.empty()) {
    if (team_.leads()) writer->abandon(folder);
    fail(PLAIT_ERR_IO, "[session] step " + std::to_string(step_) + " could not be saved" + faults);
  }
  return team_.from_leader(team_.leads() ? writer->commit(state(), folder, team_.size()) : "");
}

void Session::load(const std::string& path) {
  together("loading", [&] {
    // One rank verifies all of it; the others what they read.
    std::unique_ptr<checkpoint::Checkpoint> c;
    if (team_.leads()) c = checkpoint::open_checkpoint(files_, path, log_);
    if (team_.leads() && !c) fail_not_found("[session] there is no checkpoint in '" + path + "'");
    const std::string found = team_.from_leader(c ? c->path() : "");
    if (!c) c = std::make_unique<checkpoint::Checkpoint>(files_, found, kVerifyLater);
    restore(*c);
    resumed_from_.clear();
    if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
  });
}

// From here on checkpoints belong together; those of a higher step that were there before are of another story.
void Session::begin_timeline() {
  timeline_ = checkpoint::unique_id();
  timeline_from_ = step_;
}

void Session::restore(const checkpoint::Checkpoint& c) {
  const checkpoint::State& s = c.state();
  // First read everything, then change the session: a checkpoint that does not fit leaves it as it was.
  std::vector<std::pair<plan::Place, std::vector<char>>> loaded;
  for_each_block(*plan_, [&](const Block& b) {
    std::vector<char> bytes(bytes_of(b.held.box));
    c.read_block(b.tensor, b.parameter.shape.dtype, dims(b.parameter), b.held.box, bytes.data());
    loaded.emplace_back(b.held.at, std::move(bytes));
  });
  const Extra extra = parse_extra(s.extra, s.step, c.path());
  if (s.seed != static_cast<uint64_t>(plan_->experiment.run.seed))
    log_.warn(
        strf("[session] '%s' was written with run.seed = %lu, this run has %ld: order and random "
             "numbers go on with the latter",
             c.path().c_str(), static_cast<unsigned long>(s.seed),
             static_cast<long>(plan_->experiment.run.seed)));
  for (const auto& [at, bytes] : loaded) executor_.write(at, bytes.data(), bytes.size());
  executor_.sync();
  step_ = s.step;
  begin_timeline();
  last_evaluation_.reset();
  samples_ = s.samples;
  updates_ = extra.updates;
  skipped_in_a_row_ = extra.skipped_in_a_row;
  best_ = extra.best;
  evaluations_without_gain_ = extra.evaluations_without_gain;
  const auto cursor = s.cursors.find("train");
  next_batch_ = cursor == s.cursors.end() ? s.step : cursor->second;
  if (train_loader_) train_loader_->seek(next_batch_);
  log_.info("[session] continues from '" + c.path() + "', step " + std::to_string(step_));
}

void Session::resume() {
  std::unique_ptr<checkpoint::Checkpoint> c;
  if (team_.leads()) c = open_files();
  keeps_files_ = team_.from_leader(run_files_ ? "files" : "") == "files";
  const std::string path = team_.from_leader(c ? c->path() : "");
  if (path.empty()) return;
  if (!c) c = std::make_unique<checkpoint::Checkpoint>(files_, path, kVerifyLater);
  restore(*c);
  resumed_from_ = path;
  if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
}

// The run's directory, and the checkpoint to go on from, as the settings say.
std::unique_ptr<checkpoint::Checkpoint> Session::open_files() {
  Resume mode = settings_.resume;
  if (mode == Resume::kConfig) {
    const std::string& text = plan_->experiment.run.resume;
    mode = text == "must" ? Resume::kMust : text == "auto" ? Resume::kAuto : Resume::kNever;
  }
  if (mode != Resume::kNever && settings_.run_dir.empty())
    settings_.run_dir = newest_run(*plan_, files_);
  // A new run among an older one's checkpoints would lose its own to retention, and resume from the wrong ones.
  if (mode == Resume::kNever && !settings_.no_files && !settings_.run_dir.empty() &&
      !checkpoint::list_checkpoints(files_, settings_.run_dir + "/ckpt").empty())
    fail_config(
        "[session] '" + settings_.run_dir +
        "' holds checkpoints of an earlier run; go on with run.resume = \"auto\" (plait run "
        "--resume auto), or name another folder");
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
    if (entry->dtype != p.shape.dtype || entry->shape != dims(p)) {
      std::string found = entry->dtype_text + " (";
      for (size_t i = 0; i < entry->shape.size(); ++i)
        found += (i ? ", " : "") + std::to_string(entry->shape[i]);
      fail_data("[session] tensor '" + entry->name + "' of '" + model.load + "' is " + found +
                "), expected " + program::text(p.shape));
    }
    std::vector<char> piece(checkpoint::SafetensorsFile::kPiece);
    for (const plan::Held& held : plan::held_value(*plan_, p))
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        const uint64_t bytes = static_cast<uint64_t>(n) * sizeof(float);
        for (uint64_t at = 0; at < bytes; at += piece.size()) {
          const size_t size = std::min<uint64_t>(piece.size(), bytes - at);
          file.read(*entry, static_cast<uint64_t>(global) * sizeof(float) + at, piece.data(), size);
          executor_.write(
              {held.at.segment, held.at.offset + static_cast<uint64_t>(first) * sizeof(float) + at},
              piece.data(), size);
          executor_.sync();
        }
      });
  }
}

}  // namespace plait::session
