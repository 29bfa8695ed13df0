#include "engine/session/rank_log.hpp"

#include <utility>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"

namespace plait::session {

RankLog::RankLog(const plan::Plan& plan, Log& log)
    : log_(log),
      level_(log_level_of(plan.experiment.run.log_level)),
      rank_(plan.rank),
      kept_(plan.log_lines) {
  listener_ = log_.listen(
      level_, [this](uint32_t level, std::string_view text) { this->line(level, text); });
}

void RankLog::line(uint32_t level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (file_)
    file_->line(level, text);
  else
    kept_.push_back({unix_seconds(), level, std::string(text)});
}

void RankLog::open(FileSystem& files, const std::string& run_dir) {
  auto file = std::make_unique<observe::LogFile>(files, observe::rank_log_path(run_dir, rank_));
  const std::lock_guard lock(mutex_);
  for (const LogLine& l : std::exchange(kept_, {})) file->line(l.level, l.text, l.unix_seconds);
  file_ = std::move(file);
}

void RankLog::open_if_there(FileSystem& files, const std::string& run_dir) {
  try {
    if (!files.is_folder(run_dir + "/log")) return close();
    open(files, run_dir);
  } catch (const Error& e) {
    close();
    return log_.warn("[session] rank " + std::to_string(rank_) +
                     " writes no log: " + e.full_text());
  }
  if (level_ <= PLAIT_LOG_INFO)
    file_->line(PLAIT_LOG_INFO, "[session] rank " + std::to_string(rank_));
}

void RankLog::close() noexcept {
  if (const int listener = std::exchange(listener_, -1); listener >= 0) log_.unlisten(listener);
  const std::lock_guard lock(mutex_);
  kept_.clear();
  file_.reset();
}

void RankLog::error(const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  if (file_) file_->line(PLAIT_LOG_ERROR, text);
}

}  // namespace plait::session
