#include "engine/session/run_files.hpp"

#include <fstream>
#include <iterator>
#include <utility>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process.hpp"
#include "engine/base/text.hpp"
#include "engine/session/result_config.hpp"
#include "engine/session/revision.hpp"
#include "engine/session/settings.hpp"

namespace plait::session {
namespace {

// Milliseconds for which lines of metrics.ndjson are collected: a write for each step would cost a
// small model 1 % of it.
constexpr int kBatchMs = 50;

// Arguments of the process that contains the engine; empty if the system does not provide them.
std::vector<std::string> process_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> arguments;
  for (size_t at = 0; at < all.size();) {
    arguments.emplace_back(all.c_str() + at);
    at += arguments.back().size() + 1;
  }
  return arguments;
}

observe::RunEnvironment environment(const plan::Plan& plan, const Settings& settings) {
  observe::RunEnvironment e;
  e.engine_version = PLAIT_VERSION;
  e.abi = PLAIT_ABI_VERSION;
  e.device = plan.device;
  e.source_revision = source_revision();
  e.arguments = process_arguments();
  e.command = settings.command;
  for (const auto& entry : plan.registry->report().entries)
    if (entry.outcome == plugin::Outcome::kLoaded)
      e.plugins.push_back({entry.name, entry.version, entry.path});
  return e;
}

// A checkpoint has a run.toml, too.
bool is_run(const std::string& folder, FileSystem& files) {
  return !folder.empty() && files.info(folder + "/run.toml").kind != FileKind::kNone &&
         !files.exists(join_path(folder, checkpoint::kManifestName));
}

// Locks a folder named by the user before anything in it changes.
std::unique_ptr<observe::RunLock> lock_of(const Settings& settings, FileSystem& files) {
  if (settings.run_dir.empty()) return nullptr;
  if (!is_run(settings.run_dir, files)) observe::RunDir::prepare(files, settings.run_dir);
  return std::make_unique<observe::RunLock>(files, settings.run_dir);
}

observe::RunDir open_dir(const plan::Plan& plan, const Settings& settings, FileSystem& files) {
  const auto& run = plan.experiment.run;
  if (settings.run_dir.empty())
    return observe::RunDir::create(files, run.out, run.name, settings.resolved_toml,
                                   settings.overrides, environment(plan, settings));
  if (is_run(settings.run_dir, files))
    return observe::RunDir::reopen(files, settings.run_dir, settings.resolved_toml,
                                   settings.overrides, environment(plan, settings));
  return observe::RunDir::create_at(files, settings.run_dir, settings.resolved_toml,
                                    settings.overrides, environment(plan, settings));
}

// Null unless it is wanted. An empty project is the first part of the run's name.
std::unique_ptr<observe::WandbWriter> wandb_of(const plan::Plan& plan, const observe::RunDir& dir,
                                               FileSystem& files) {
  const config::WandbConfig& wandb = plan.experiment.wandb;
  if (!wandb.write) return nullptr;
  const std::string& name = plan.experiment.run.name;
  const std::string id = observe::wandb_id(files, dir.path());
  const observe::WandbRun run = {id.empty() ? observe::new_wandb_id() : id,
                                 wandb.project.empty() ? split(name, '/').front() : wandb.project,
                                 wandb.entity,
                                 wandb.group,
                                 host_name(),
                                 starts_with(dir.id(), "./") ? dir.id().substr(2) : dir.id(),
                                 result_config(plan),
                                 !id.empty()};
  return std::make_unique<observe::WandbWriter>(files, dir.path(), run, unix_seconds());
}

}  // namespace

RunFiles::RunFiles(const plan::Plan& plan, const Settings& settings, FileSystem& files, Log& log)
    : lock_(lock_of(settings, files)),
      dir_(open_dir(plan, settings, files)),
      metrics_(files, dir_.metrics_path(), dir_.id(), log, kBatchMs),
      events_(files, dir_.path(), unix_seconds(), log),
      wandb_(wandb_of(plan, dir_, files)),
      files_(files),
      checkpoints_(files, dir_.checkpoint_folder(),
                   static_cast<int>(plan.experiment.checkpoint.keep), log,
                   static_cast<int>(plan.experiment.checkpoint.keep_optimizer)),
      log_(log) {
  if (!lock_) lock_ = std::make_unique<observe::RunLock>(files, dir_.path());
  checkpoints_.fence([this] { lock_->check(); });
  events_.fenced("experiment", 0, unix_seconds(), "toml", settings.resolved_toml);
  events_.hparams(result_config(plan), unix_seconds());
}

observe::NdjsonWriter& RunFiles::statistics(int64_t from_step) {
  if (statistics_) return *statistics_;
  const std::string path = join_path(dir_.path(), "statistics.ndjson");
  const bool continues = files_.exists(path);
  statistics_ = std::make_unique<observe::NdjsonWriter>(files_, path, dir_.id(), log_);
  if (continues) statistics_->resume(from_step, unix_seconds());
  return *statistics_;
}

void RunFiles::status(const observe::RunStatus& s) {
  try {
    dir_.write_status(s);
    if (std::exchange(status_failed_, false))
      log_.warn("[run] status.json of " + dir_.path() + " is written again");
  } catch (const Error& e) {
    if (!std::exchange(status_failed_, true))
      log_.warn("[run] status.json of " + dir_.path() + " is out of date: " + e.text() +
                "\nThe run continues");
  }
  if (s.state == observe::kRunning) return;
  const bool done = s.state == observe::kDone;
  metrics_.flush();
  events_.end_of_run(done, unix_seconds());
  events_.flush();
  write_wandb([&](observe::WandbWriter& to) { to.end_of_run(done ? 0 : 1, unix_seconds()); });
}

void RunFiles::flush() {
  metrics_.flush();
  events_.flush();
  write_wandb([](observe::WandbWriter& to) { to.flush(); });
}

void RunFiles::end_wandb(const Error& e) {
  log_.warn("[wandb] " + e.full_text() +
            "\nThe run continues without files for Weights & Biases; " + wandb_->path() +
            " has what was written before");
  wandb_.reset();
}

bool RunFiles::event_due(double now) {
  constexpr int64_t kAlways = 1000;
  constexpr double kSeconds = 0.05;
  if (n_events_ >= kAlways && now - last_event_ < kSeconds) return false;
  ++n_events_;
  last_event_ = now;
  return true;
}

std::string newest_run(const plan::Plan& plan, FileSystem& files) {
  const std::string folder = plan.experiment.run.out + "/" + plan.experiment.run.name;
  if (files.info(folder).kind != FileKind::kDirectory) return "";
  const auto names = files.list(folder);
  // Names begin with a time stamp, so the last one is the newest.
  for (size_t i = names.size(); i-- > 0;) {
    std::string run = folder + "/" + names[i];
    if (!checkpoint::list_checkpoints(files, run + "/ckpt").empty()) return run;
  }
  return "";
}

}  // namespace plait::session
