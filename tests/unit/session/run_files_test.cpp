// How a session uses the folder that was named for its run.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

Outcome start(const std::string& dir, FileSystem& files) {
  return run_all({"run.steps=1", "run.resume=auto"}, 1, dir,
                 [&](int) -> FileSystem& { return files; })[0];
}

// After `n` changes no further change is possible, as for a process that has been killed.
class EndingFiles : public HookedFiles {
 public:
  explicit EndingFiles(int n)
      : HookedFiles([this, n](const std::string&, const std::string&) {
          if (changes_++ >= n) fail_io("[test] gone", EIO);
        }) {}
  void remove(const std::string& path) override {
    before("remove", path);
    HookedFiles::remove(path);
  }

 private:
  int changes_ = 0;
};

TEST_CASE("a start that ends while it makes the folder leaves one in which the next one starts") {
  int unfinished = 0;
  for (bool made = false; !made; ++unfinished) {
    REQUIRE(unfinished < 200);
    CAPTURE(unfinished);
    const Folder folder;
    const std::string dir = folder / "run";
    EndingFiles files(unfinished);
    CHECK(start(dir, files).code == PLAIT_ERR_IO);
    made = std::filesystem::exists(dir + "/run.toml");
    const Outcome again = start(dir, FileSystem::posix());
    CHECK(again.error == "");
    CHECK(again.last.step == 1);
    CHECK(steps_of(dir) == std::vector<int64_t>{1});
    for (const std::string& name : FileSystem::posix().list(dir))
      CHECK(name.find(".tmp-") == std::string::npos);
  }
  CHECK(unfinished > 10);
}

// Files of a run besides its checkpoints.
bool is_record(const std::string& path) {
  const std::string name = name_of(path);
  return name == "metrics.ndjson" || name.starts_with("events.") ||
         path.find("status.json") != std::string::npos;
}

TEST_CASE("a disk that is full for a while costs a run nothing, and each file is told of once") {
  const Folder folder;
  const std::string dir = folder / "run";
  std::atomic<bool> full{false};
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (full && is_record(path)) fail_io("[test] " + what + " '" + path + "'", ENOSPC);
  });
  session::Settings settings;
  settings.run_dir = dir;
  settings.on_step = [&](const session::StepResult& r) {
    full = r.step >= 3 && r.step < 9;
    return false;
  };
  std::vector<std::string> lines;
  {
    const Rank rank({"checkpoint.every=4", "run.log_every=1"}, files, settings);
    CHECK(rank.session->run().step == 12);
    lines = rank.lines;
  }
  const auto told = [&](const std::string& name, const std::string& what) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(name) != std::string::npos && line.find(what) != std::string::npos;
    });
  };
  for (const std::string name : {"metrics.ndjson", "status.json"}) {
    CAPTURE(name);
    CHECK(told(name, "The run continues") == 1);
    CHECK(told(name, "is written again") == 1);
  }
  std::ifstream metrics(dir + "/metrics.ndjson");
  std::vector<int64_t> steps;
  for (std::string line; std::getline(metrics, line);)
    if (const auto json = nlohmann::json::parse(line); !json.contains("event"))
      steps.push_back(json.at("step"));
  CHECK(steps == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(nlohmann::json::parse(files.read_all(dir + "/status.json", 1 << 16)).at("state") == "done");
  CHECK(steps_of(dir).back() == 12);
}

TEST_CASE("the state of an unfinished run waits for no disk, its end does") {
  const Folder folder;
  std::vector<std::string> changes;  // of status.json
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (path.find("status.json") != std::string::npos) changes.push_back(what);
  });
  session::Settings settings;
  settings.run_dir = folder / "run";
  size_t while_training = 0;
  settings.on_step = [&](const session::StepResult&) {
    while_training = changes.size();
    return false;
  };
  const Rank rank({"checkpoint.every=4"}, files, settings);
  rank.session->run();
  using Changes = std::vector<std::string>;
  const Changes running{"open", "write", "rename"}, end{"open", "write", "sync", "rename"};
  CHECK(while_training >= running.size());
  Changes expected;
  while (expected.size() + end.size() < changes.size())
    expected.insert(expected.end(), running.begin(), running.end());
  expected.insert(expected.end(), end.begin(), end.end());
  CHECK(changes == expected);
}

TEST_CASE("a disk that stays full ends no rank") {
  const Folder folder;
  const std::string dir = folder / "run";
  std::atomic<bool> full{false};
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (full && is_record(path)) fail_io("[test] " + what + " '" + path + "'", ENOSPC);
  });
  const auto outcomes = run_all(
      {"topology.data=2", "run.log_every=1"}, 2, dir, [&](int) -> FileSystem& { return files; },
      [&](int rank, session::Settings& s) {
        if (rank == 0)
          s.on_step = [&](const session::StepResult& r) {
            full = r.step >= 3;
            return false;
          };
      });
  for (const Outcome& o : outcomes) {
    CHECK(o.error == "");
    CHECK(o.last.step == 12);
  }
  CHECK(steps_of(dir).back() == 12);
}

TEST_CASE("a folder that holds something else is refused, and stays as it is") {
  for (const char* name : {"notes.txt", "ckpt/mine", "ckpt/mine/model.safetensors",
                           "log/rank-0.log", "env.json", "overrides.txt", "lock"}) {
    CAPTURE(name);
    const Folder folder;
    const std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "mine\n";
    const Outcome o = start(folder.path(), FileSystem::posix());
    CHECK(o.code == PLAIT_ERR_STATE);
    CHECK(o.error.find("is neither empty nor a run directory") != std::string::npos);
    CHECK(o.error.find(path.lexically_relative(folder.path()).begin()->string()) !=
          std::string::npos);
    CHECK(FileSystem::posix().list(folder.path()).size() == 1);
  }
}

TEST_CASE("a lock file without the content of a run says nothing about the files beside it") {
  const Folder folder;
  std::ofstream(folder / "lock").flush();
  std::ofstream(folder / "env.json") << "mine\n";
  CHECK(start(folder.path(), FileSystem::posix()).code == PLAIT_ERR_STATE);
  std::ifstream file(folder / "env.json");
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "mine\n");
}

TEST_CASE("a folder in which nothing can be lost is taken") {
  for (const std::string name : {"ckpt/", "log/", "lock"}) {
    CAPTURE(name);
    const Folder folder;
    if (name.back() == '/')
      std::filesystem::create_directory(folder / name);
    else
      std::ofstream(folder / name).flush();
    CHECK(start(folder.path(), FileSystem::posix()).error == "");
  }
}

TEST_CASE("a run that no folder is named for resumes the newest one that has a checkpoint") {
  const Folder folder;
  HookedFiles files;
  const auto first_step = [&](int64_t steps) {
    session::Settings settings;
    int64_t first = -1;
    settings.on_step = [&](const session::StepResult& r) {
      if (first < 0) first = r.step;
      return false;
    };
    const Rank rank({"run.out=" + (folder / "runs"), "run.name=mine", "run.resume=auto",
                     "run.steps=" + std::to_string(steps)},
                    files, settings);
    CHECK(rank.session->run().step == steps);
    return first;
  };
  const auto runs = [&] { return files.list(folder / "runs/mine").size(); };
  CHECK(first_step(2) == 1);
  CHECK(runs() == 1);
  CHECK(first_step(4) == 3);
  // One that made no checkpoint, and is no older, is passed over.
  std::filesystem::create_directories(folder / "runs/mine/99991231-235959-none/ckpt");
  CHECK(first_step(5) == 5);
  CHECK(runs() == 2);
  const std::string other = folder / "runs/mine/99991231-235959-with";
  REQUIRE(start(other, files).error == "");
  CHECK(first_step(3) == 2);
}

TEST_CASE("a run without an end, and evaluations of what the program was not planned for") {
  const Folder folder;
  HookedFiles files;
  const auto files_of = [&](int) -> FileSystem& { return files; };
  const Outcome endless = run_all({"run.steps=0"}, 1, folder / "endless", files_of)[0];
  CHECK(endless.code == PLAIT_ERR_CONFIG);
  CHECK(endless.error ==
        "[run] neither steps nor epochs is set, so the run has no end; set one of them");
  const std::string data = "={type=\"synthetic\", samples=16, shape=[6], classes=4";
  session::Settings settings;
  settings.run_dir = folder / "run";
  const Rank rank({"data.eval" + data + "}", "data.moved" + data + ", normalize={x={mean=[0.5]}}}"},
                  files, settings);
  const auto refusal = [&](const std::string& name) {
    try {
      rank.session->evaluate(name);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_CONFIG);
      return e.text();
    }
    return std::string("evaluated");
  };
  CHECK(refusal("eval") == "evaluated");
  CHECK(refusal("moved") ==
        "[session] [data.moved] is normalised differently from [data.eval], which the evaluation "
        "was planned for; give both the same `normalize`");
}

}  // namespace
