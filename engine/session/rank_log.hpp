// log/rank-N.log of a run: what the log is told of this rank, from run.log_level on.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/observe/run_dir.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// It has all that the engine does meanwhile, as for another session of the same engine. The file
// begins with the lines of the plan. Lines come before the run has a folder, too, as of the
// rendezvous: they are kept until it has one. Owner thread only, but for lines.
class RankLog {
 public:
  RankLog(const plan::Plan& plan, Log& log);
  ~RankLog() { close(); }
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

  // The file of this rank in that run directory. Errors: PLAIT_ERR_IO.
  void open(FileSystem& files, const std::string& run_dir);
  // For a run whose folder another rank has made. If this rank's machine does not have it there is
  // no file; if the file cannot be opened, a warning says so.
  void open_if_there(FileSystem& files, const std::string& run_dir);
  void close() noexcept;  // no further lines; without a file, what was kept is dropped
  // A line of the file alone: the host is told otherwise.
  void error(const std::string& text) noexcept;

 private:
  void line(uint32_t level, std::string_view text);

  Log& log_;
  const uint32_t level_;
  const int32_t rank_;
  std::mutex mutex_;  // guards the next two
  std::vector<LogLine> kept_;
  std::unique_ptr<observe::LogFile> file_;
  int listener_ = -1;
};

}  // namespace plait::session
