// Saving, loading and resuming: global tensors by name, whatever layout wrote them.
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/program/rule.hpp"
#include "engine/session/session.hpp"

namespace plait::session {
namespace {

std::vector<int64_t> dims(const plan::Parameter& p) { return program::dims_of(p.shape); }

// Every tensor of a checkpoint: parameters, then the optimizer's states of each parameter.
template <class Visit>
void for_each_tensor(const plan::Plan& plan, Visit&& visit) {
  for (const plan::Parameter& p : plan.parameters) visit(p.name, p, p.value, false);
  for (const plan::Parameter& p : plan.parameters) {
    if (p.group < 0) continue;
    for (const plan::State& s : plan.groups[static_cast<size_t>(p.group)].states)
      visit(p.name + "." + s.name, p, plan::Place{s.segment, p.value.offset}, true);
  }
}

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

std::string Session::save(const std::string& path) {
  if (path.empty() && !run_files_)
    fail(
        PLAIT_ERR_STATE,
        "[session] this session has no run directory; give save() a folder, or open it with files");
  executor_.sync();
  std::vector<std::vector<char>> copies;  // only where device memory cannot be read in place
  std::vector<checkpoint::SaveTensor> tensors;
  for_each_tensor(*plan_, [&](const std::string& name, const plan::Parameter& p, plan::Place at,
                              bool optimizer) {
    const void* data = executor_.address(at);
    if (!host_visible()) {
      copies.emplace_back(program::bytes(p.shape));
      executor_.read(at, copies.back().data(), copies.back().size());
      data = copies.back().data();
    }
    tensors.push_back({name, p.shape.dtype, dims(p), data, optimizer});
  });
  checkpoint::State s;
  s.step = step_;
  s.samples = samples_;
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
  if (path.empty()) return run_files_->checkpoints().save(s, tensors);
  checkpoint::Writer writer(files_, path, 0, log_);
  return writer.save(s, tensors);
}

void Session::load(const std::string& path) {
  const auto c = checkpoint::open_checkpoint(files_, path, log_);
  if (!c) fail_not_found("[session] there is no checkpoint in '" + path + "'");
  restore(*c);
  resumed_from_.clear();
  if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
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
  for_each_tensor(*plan_,
                  [&](const std::string& name, const plan::Parameter& p, plan::Place at, bool) {
                    std::vector<char> bytes(program::bytes(p.shape));
                    c.read(name, p.shape.dtype, dims(p), bytes.data());
                    loaded.emplace_back(at, std::move(bytes));
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
  if (!c) return;
  restore(*c);
  resumed_from_ = c->path();
  if (run_files_) run_files_->metrics().resume(step_, unix_seconds());
}

void Session::load_weights(const config::ModelConfig& model) {
  const checkpoint::SafetensorsFile file(files_, model.load);
  std::vector<char> bytes;
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
    plan::Place at = p.value;
    file.each_piece(*entry, [&](const std::byte* piece, size_t n) {
      executor_.write(at, piece, n);
      executor_.sync();
      at.offset += n;
    });
  }
}

}  // namespace plait::session
