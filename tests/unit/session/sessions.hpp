// Sessions over a file system that a test can block and make fail.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/session/session.hpp"
#include "tests/support/folder.hpp"

namespace plait::test {

// The machine's files. Before each call that changes something, the hook runs on the calling
// thread.
class HookedFiles : public FileSystem {
 public:
  using Hook = std::function<void(const std::string& what, const std::string& path)>;
  explicit HookedFiles(Hook hook = {}) : hook_(std::move(hook)) {}

  std::unique_ptr<OutputFile> open(const std::string& path, OpenMode mode) override;
  std::unique_ptr<MappedFile> map(const std::string& path, uint64_t max_bytes) override {
    return real_.map(path, max_bytes);
  }
  std::unique_ptr<InputFile> open_input(const std::string& path, uint64_t max_bytes) override {
    return real_.open_input(path, max_bytes);
  }
  std::string read_all(const std::string& path, uint64_t max_bytes) override {
    return real_.read_all(path, max_bytes);
  }
  FileInfo info(const std::string& path) override { return real_.info(path); }
  bool is_link(const std::string& path) override { return real_.is_link(path); }
  std::vector<std::string> list(const std::string& folder) override { return real_.list(folder); }
  void make_folder(const std::string& path) override {
    before("mkdir", path);
    real_.make_folder(path);
  }
  void remove(const std::string& path) override { real_.remove(path); }
  void rename(const std::string& from, const std::string& to) override {
    before("rename", to);
    real_.rename(from, to);
  }
  void sync_folder(const std::string& path) override {
    before("syncdir", path);
    real_.sync_folder(path);
  }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return real_.lock(path); }
  uint64_t free_bytes(const std::string& folder) override { return real_.free_bytes(folder); }
  std::string real_path(const std::string& path) override { return real_.real_path(path); }

  void before(const char* what, const std::string& path) const {
    if (hook_) hook_(what, path);
  }

 private:
  FileSystem& real_ = FileSystem::posix();
  const Hook hook_;
};

// keys: overrides of the experiment, such as "checkpoint.every=2".
std::unique_ptr<const plan::Plan> make_plan(const std::vector<std::string>& keys, FileSystem& files,
                                            int rank, int ranks, Log& log);

// One rank: its plan and its session.
struct Rank {
  Rank(const std::vector<std::string>& keys, FileSystem& files, session::Settings settings);

  std::vector<std::string> lines;  // of the log
  Log log{[this](uint32_t, std::string_view text) { lines.emplace_back(text); }};
  std::shared_ptr<const plan::Plan> plan;
  std::unique_ptr<session::Session> session;
};

// Part of the test program; while it is set, every rank loads it with the other plugins.
inline const plait_plugin* extra_plugin = nullptr;

// The outcome of one rank's run().
struct Outcome {
  session::StepResult last;
  uint32_t code = PLAIT_OK;
  std::string error;
  std::map<std::string, std::vector<float>> weights;  // if it ended well
};

// run() of one rank alone, or of several as threads. settings: of a rank; by default its run
// directory is `folder`. files(rank).
using SettingsOf = std::function<void(int rank, session::Settings&)>;
std::vector<Outcome> run_all(const std::vector<std::string>& keys, int ranks,
                             const std::string& folder,
                             const std::function<FileSystem&(int rank)>& files,
                             const SettingsOf& settings = {});

// Files of all checkpoints of a run: "step-0000000004/model.safetensors" and its content. Without
// manifests, which contain the time.
std::map<std::string, std::string> tensors_of(const std::string& run_dir);
// Steps of the checkpoints of a run, ascending; each is opened and verified.
std::vector<int64_t> steps_of(const std::string& run_dir);

}  // namespace plait::test
