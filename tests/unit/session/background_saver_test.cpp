// Checkpoints that are written while steps continue.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

constexpr char kForeground[] = "checkpoint.background=false";

// The part of a checkpoint that is not committed.
bool in_a_save(const std::string& path) { return path.find("/ckpt/.tmp-") != std::string::npos; }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Opens once. Waits at most a minute, so that a failing test does not hang.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    CHECK(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return is_open_; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

std::vector<Outcome> run_all(const std::vector<std::string>& keys, int ranks,
                             const std::string& folder, FileSystem& files,
                             const SettingsOf& settings = {}) {
  return test::run_all(
      keys, ranks, folder, [&](int) -> FileSystem& { return files; }, settings);
}

Outcome run_one(const std::vector<std::string>& keys, const std::string& folder, FileSystem& files,
                const SettingsOf& settings = {}) {
  return run_all(keys, 1, folder, files, settings)[0];
}

std::vector<nlohmann::json> events_of(const std::string& run_dir, const std::string& event) {
  std::ifstream file(run_dir + "/metrics.ndjson");
  std::vector<nlohmann::json> found;
  for (std::string line; std::getline(file, line);)
    if (auto json = nlohmann::json::parse(line); json.value("event", "") == event)
      found.push_back(std::move(json));
  return found;
}

nlohmann::json status_of(const std::string& run_dir) {
  return nlohmann::json::parse(FileSystem::posix().read_all(run_dir + "/status.json", 1 << 16));
}

std::vector<std::string> unfinished(const std::string& run_dir) {
  std::vector<std::string> found;
  for (const std::string& name : FileSystem::posix().list(run_dir + "/ckpt"))
    if (name[0] == '.') found.push_back(name);
  return found;
}

struct Layout {
  int ranks;
  std::vector<std::string> keys;
};

const std::vector<Layout> kLayouts = {
    {1, {}},
    {2, {"topology.data=2"}},
    {2, {"topology.data=2", "topology.zero=1"}},
    {2, {"topology.data=2", "topology.zero=3", "topology.bucket_mib=0.001"}},
    {2, {"topology.tensor=2"}},
    {2, {"topology.pipeline=2", "batch.micro=2"}},
    {4, {"topology.pipeline=2", "topology.data=2", "topology.zero=2", "batch.micro=2"}},
};

}  // namespace

TEST_CASE("steps go on while a checkpoint is written") {
  const Folder folder;
  const std::string dir = folder / "run";
  Gate gate;
  std::atomic<bool> begun{false};
  HookedFiles files([&](const std::string&, const std::string& path) {
    if (!in_a_save(path)) return;
    begun = true;
    gate.pass();
  });
  int64_t steps = 0;
  const Outcome o = run_one({"checkpoint.every=4", "checkpoint.at_end=false"}, dir, files,
                            [&](int, session::Settings& s) {
                              s.on_step = [&](const session::StepResult& r) {
                                steps = r.step;
                                if (r.step == 7) {
                                  CHECK(steps_of(dir).empty());
                                  gate.open();
                                }
                                return false;
                              };
                            });
  CHECK(o.error == "");
  CHECK(steps == 12);
  CHECK(begun);
  // run() returns after the last checkpoint, that of its last step, is committed.
  CHECK(steps_of(dir) == std::vector<int64_t>{4, 8, 12});
  CHECK(unfinished(dir).empty());
  std::vector<int64_t> told;
  for (const auto& e : events_of(dir, "checkpoint")) told.push_back(e["step"]);
  CHECK(told == std::vector<int64_t>{4, 8, 12});
  CHECK(status_of(dir)["state"] == "done");
  CHECK(has(status_of(dir)["checkpoint"], "step-0000000012"));
}

TEST_CASE("in the background or not: the same bytes, the same training, in every layout") {
  HookedFiles files;
  for (const Layout& layout : kLayouts) {
    std::vector<std::string> keys = layout.keys;
    CAPTURE(keys);
    const Folder folder;
    keys.emplace_back("checkpoint.every=1");  // each save finds the previous one in progress
    const auto behind = run_all(keys, layout.ranks, folder / "behind", files);
    keys.emplace_back(kForeground);
    const auto before = run_all(keys, layout.ranks, folder / "before", files);
    keys.emplace_back("checkpoint.every=0");
    const auto never = run_all(keys, layout.ranks, folder / "never", files);
    for (size_t r = 0; r < behind.size(); ++r) {
      CAPTURE(r);
      REQUIRE(behind[r].error == "");
      REQUIRE(before[r].error == "");
      CHECK(behind[r].last.loss == before[r].last.loss);
      CHECK(behind[r].weights == before[r].weights);
      CHECK(behind[r].weights == never[r].weights);
    }
    const auto written = tensors_of(folder / "behind");
    CHECK(written.size() >= 24);
    CHECK(written == tensors_of(folder / "before"));
    CHECK(steps_of(folder / "behind").size() == 12);
  }
}

TEST_CASE("a copy is as large as planned, and none is planned where none is made") {
  HookedFiles files;
  session::Settings none;
  none.no_files = true;
  const auto planned = [&](std::vector<std::string> keys) {
    return plan::checkpoint_copy_bytes(*Rank(keys, files, none).plan);
  };
  // Weights 6x16, 16, 16x4 and 4, each with two states.
  CHECK(planned({"checkpoint.every=4"}) == 3 * 180 * sizeof(float));
  CHECK(planned({"checkpoint.every=4", kForeground}) == 0);
  CHECK(planned({}) == 0);
}

TEST_CASE("there is never more than one save under way") {
  const Folder folder;
  std::atomic<int> open{0}, most{0};
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "mkdir" && in_a_save(path)) {
      most = std::max<int>(most, ++open);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (what == "rename" && has(path, "/ckpt/step-")) --open;
  });
  const Outcome o = run_one({"checkpoint.every=1"}, folder / "run", files);
  CHECK(o.error == "");
  CHECK(most == 1);
  CHECK(steps_of(folder / "run").size() == 12);
}

TEST_CASE("a save that fails is a warning with step, path and reason, and the run continues") {
  bool clean = false;
  for (int n = 0; !clean; ++n) {
    REQUIRE(n < 60);
    CAPTURE(n);
    const Folder folder;
    const std::string dir = folder / "run";
    std::atomic<int> calls{0};
    std::atomic<bool> of_step_4{false};
    HookedFiles files([&](const std::string& what, const std::string& path) {
      if (what == "mkdir" && in_a_save(path)) of_step_4 = has(path, ".tmp-4-");
      if (!of_step_4 || !has(path, "/ckpt") || has(path, "latest")) return;
      if (calls++ == n) fail_io("[test] " + what + " '" + path + "' fails", EIO);
    });
    session::Settings settings;
    settings.run_dir = dir;
    const Rank rank({"checkpoint.every=4", "checkpoint.keep=3"}, files, settings);
    CHECK(rank.session->run().step == 12);
    clean = calls <= n && n > 0;
    CHECK(status_of(dir)["state"] == "done");
    CHECK(unfinished(dir).empty());
    const auto told = [&](const char* text) {
      return std::count_if(rank.lines.begin(), rank.lines.end(),
                           [&](const std::string& line) { return has(line, text); });
    };
    const auto failures = events_of(dir, "checkpoint_failed");
    if (failures.empty()) {
      // A failure after the commit concerns the hints and old checkpoints alone.
      CHECK((clean || told("'latest'") == 1));
      CHECK(steps_of(dir) == std::vector<int64_t>{4, 8, 12});
      continue;
    }
    REQUIRE(failures.size() == 1);
    CHECK(failures[0]["step"] == 4);
    const std::string error = failures[0]["error"];
    CAPTURE(error);
    CHECK(has(error, "step 4 could not be saved to " + dir + "/ckpt/step-0000000004"));
    CHECK(has(error, "[test]"));
    CHECK(told("step 4 could not be saved") == 1);
    CHECK(told("The run continues without this checkpoint; the next save is that of step 8") == 1);
    // A commit that could not be made durable may be there all the same.
    CHECK(steps_of(dir).size() >= 2);
    CHECK(steps_of(dir).back() == 12);
  }
}

TEST_CASE("the warning of a failed save says when the next one is") {
  struct Case {
    int step;  // the one whose save fails, of 12
    std::vector<std::string> keys;
    const char* says;
    bool saves_later = true;
  };
  const Case cases[] = {
      {4, {"checkpoint.every=4"}, "the next save is that of step 8"},
      {8, {"checkpoint.every=4"}, "the next save is that of step 12"},
      {7, {"checkpoint.every=7", "checkpoint.minutes=0"}, "the next save is at the end of the run"},
      {7,
       {"checkpoint.every=7", "checkpoint.minutes=90"},
       "the next save is in 90 minutes, or at the end of the run"},
      {7,
       {"checkpoint.every=7", "checkpoint.minutes=90", "checkpoint.at_end=false"},
       "the next save is in 90 minutes",
       false},
      {7,
       {"checkpoint.every=7", "checkpoint.minutes=0", "checkpoint.at_end=false"},
       "no other save follows",
       false},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.says));
    const Folder folder;
    HookedFiles files([&](const std::string& what, const std::string& path) {
      if (what == "mkdir" && has(path, strf("/ckpt/.tmp-%d-", c.step)))
        fail_io("[test] no", ENOSPC);
    });
    session::Settings settings;
    settings.run_dir = folder / "run";
    std::vector<std::string> keys = c.keys;
    keys.emplace_back(kForeground);  // so that the warning comes at once
    const Rank rank(keys, files, settings);
    if (c.saves_later)
      CHECK(rank.session->run().step == 12);
    else
      CHECK_THROWS_AS(rank.session->run(), Error);
    const std::string expected =
        std::string("The run continues without this checkpoint; ") + c.says;
    CHECK(std::any_of(rank.lines.begin(), rank.lines.end(),
                      [&](const std::string& line) { return line.ends_with("\n" + expected); }));
  }
}

TEST_CASE("no memory in a save: the run continues") {
  for (const char* background : {"true", "false"}) {
    CAPTURE(background);
    const Folder folder;
    const std::string dir = folder / "run";
    std::atomic<bool> failed{false};
    HookedFiles files([&](const std::string& what, const std::string& path) {
      if (what == "mkdir" && in_a_save(path) && !failed.exchange(true)) throw std::bad_alloc();
    });
    const Outcome o = run_one(
        {"checkpoint.every=4", std::string("checkpoint.background=") + background}, dir, files);
    CHECK(o.error == "");
    REQUIRE(events_of(dir, "checkpoint_failed").size() == 1);
    CHECK(has(events_of(dir, "checkpoint_failed")[0]["error"], "out of memory"));
    CHECK(steps_of(dir) == std::vector<int64_t>{8, 12});
  }
}

TEST_CASE("the last save of a run must not fail, whether it is periodic or that of the end") {
  for (const char* at_end : {"true", "false"}) {
    CAPTURE(at_end);
    const Folder folder;
    const std::string dir = folder / "run";
    HookedFiles files([&](const std::string& what, const std::string& path) {
      if (what == "mkdir" && has(path, "/ckpt/.tmp-12-")) fail_io("[test] no", ENOSPC);
    });
    const Outcome o =
        run_one({"checkpoint.every=4", std::string("checkpoint.at_end=") + at_end}, dir, files);
    CHECK(o.code == PLAIT_ERR_IO);
    CHECK(has(o.error, "step 12 could not be saved"));
    CHECK(status_of(dir)["state"] == "failed");
    CHECK(steps_of(dir) == std::vector<int64_t>{4, 8});
  }
}

TEST_CASE("a save that fails shows after the next step, not only at the next save") {
  const Folder folder;
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "mkdir" && has(path, "/ckpt/.tmp-1000-")) fail_io("[test] no", ENOSPC);
  });
  bool shown = false;
  const Outcome o = run_one({"checkpoint.every=1000", "run.steps=2000"}, folder / "run", files,
                            [&](int, session::Settings& s) {
                              s.on_step = [&](const session::StepResult& r) {
                                if (r.step > 1000 && r.step < 2000 && !shown) {
                                  std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                  shown = !events_of(folder / "run", "checkpoint_failed").empty();
                                }
                                return false;
                              };
                            });
  CHECK(o.error == "");
  CHECK(shown);
  CHECK(steps_of(folder / "run") == std::vector<int64_t>{2000});
}

TEST_CASE("what fails on one rank fails the save on all ranks, names the rank, and they go on") {
  struct Fault {
    int rank;
    const char *what, *where, *told;
  };
  HookedFiles files;
  const Rank one({}, files, {});
  // Whichever rank writes what, and whichever has failed.
  const std::string needs = "step 8 could not be saved (needs " +
                            human_bytes(plan::checkpoint_bytes(*one.plan)) + "); rank ";
  for (const Fault& fault : {Fault{1, "sync", "/ckpt/.tmp-8-", "rank 1: "},
                             Fault{0, "mkdir", "/ckpt/.tmp-8-", "/ckpt/.tmp-8-"},
                             Fault{0, "rename", "/ckpt/step-0000000008", "step-0000000008"}})
    for (const Layout& layout : kLayouts) {
      if (layout.ranks == 1) continue;
      CAPTURE(layout.keys);
      CAPTURE(fault.what);
      const Folder folder;
      const std::string dir = folder / "run";
      HookedFiles healthy, sick([&](const std::string&what, const std::string&path) {
        if (what == fault.what && has(path, fault.where)) fail_io("[test] '" + path + "'", EIO);
      });
      std::vector<std::string> keys = layout.keys;
      keys.emplace_back("checkpoint.every=4");
      const auto outcomes = test::run_all(keys, layout.ranks, dir, [&](int rank) -> FileSystem& {
        return rank == fault.rank ? sick : healthy;
      });
      for (const Outcome& o : outcomes) CHECK(o.error == "");
      const auto failures = events_of(dir, "checkpoint_failed");
      REQUIRE(failures.size() == 1);
      CHECK(failures[0]["step"] == 8);
      const std::string error = failures[0]["error"];
      CAPTURE(error);
      CHECK(has(error, fault.told));
      CHECK(has(error, needs));
      CHECK(unfinished(dir).empty());
      CHECK(steps_of(dir) == std::vector<int64_t>{4, 12});
    }
}

TEST_CASE("a run that another process has taken over saves nothing more") {
  const Folder folder;
  const std::string dir = folder / "run";
  HookedFiles files;
  const Outcome o =
      run_one({"checkpoint.every=4", kForeground}, dir, files, [&](int, session::Settings& s) {
        s.on_step = [&](const session::StepResult& r) {
          if (r.step == 6) std::ofstream(dir + "/lock") << "host other, process 7\n";
          return false;
        };
      });
  CHECK(o.code == PLAIT_ERR_STATE);
  CHECK(has(o.error, "has been taken over by host other, process 7"));
  CHECK(steps_of(dir) == std::vector<int64_t>{4});
}

TEST_CASE("a rank that leaves while a save is under way: nothing half is committed") {
  const Folder folder;
  const std::string dir = folder / "run";
  HookedFiles healthy;
  // Rank 1's part of step 8 is never written, because its run has ended with an error of its own.
  Gate gate;
  HookedFiles slow([&](const std::string& what, const std::string& path) {
    if (what != "open" || !has(path, "/ckpt/.tmp-8-")) return;
    gate.pass();
    fail_io("[test] the disk has gone", EIO);
  });
  const auto outcomes = test::run_all(
      {"topology.data=2", "checkpoint.every=4"}, 2, dir,
      [&](int rank) -> FileSystem& { return rank == 1 ? slow : healthy; },
      [&](int rank, session::Settings& s) {
        if (rank == 1)
          s.on_step = [&](const session::StepResult& r) {
            if (r.step < 9) return false;
            gate.open();
            fail(PLAIT_ERR_DATA, "[test] rank 1 has had enough");
          };
      });
  CHECK(outcomes[1].code == PLAIT_ERR_DATA);
  CAPTURE(outcomes[0].error);
  CHECK(outcomes[0].code != PLAIT_OK);
  CHECK(has(outcomes[0].error, "rank 1"));
  CHECK(steps_of(dir) == std::vector<int64_t>{4});
}

TEST_CASE("a stop while a save is under way: both are there, and it says where") {
  const Folder folder;
  const std::string dir = folder / "run";
  HookedFiles files([](const std::string& what, const std::string& path) {
    if (what == "open" && in_a_save(path))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  for (const int64_t at : {4, 5}) {
    CAPTURE(at);
    std::filesystem::remove_all(dir);
    const Outcome o =
        run_one({"checkpoint.every=4", kForeground}, dir, files, [&](int, session::Settings& s) {
          s.on_step = [=](const session::StepResult& r) { return r.step == at; };
        });
    CHECK(o.code == PLAIT_ERR_CANCELLED);
    CHECK(has(o.error, "saved as " + dir + "/ckpt/step-000000000" + std::to_string(at)));
    CHECK(steps_of(dir) == (at == 4 ? std::vector<int64_t>{4} : std::vector<int64_t>{4, 5}));
    CHECK(status_of(dir)["state"] == "interrupted");
  }
}

TEST_CASE("a save that the host asks for waits for the one under way") {
  const Folder folder;
  const std::string dir = folder / "run", asked = folder / "asked";
  std::atomic<int> open{0}, most{0};
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "mkdir" && has(path, "/.tmp-")) {
      most = std::max<int>(most, ++open);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (what == "rename" && has(path, "/step-")) --open;
  });
  session::Settings settings;
  settings.run_dir = dir;
  session::Session* session = nullptr;
  settings.on_step = [&](const session::StepResult& r) {
    if (r.step == 5) session->save(asked);
    if (r.step == 5) CHECK(steps_of(dir) == std::vector<int64_t>{4});
    return false;
  };
  const Rank rank({"checkpoint.every=4"}, files, settings);
  session = rank.session.get();
  session->run();
  CHECK(most == 1);
  CHECK(steps_of(dir) == std::vector<int64_t>{4, 8, 12});
  CHECK(events_of(dir, "checkpoint").size() == 3);
  CHECK(std::filesystem::exists(asked + "/step-0000000005"));
}

TEST_CASE("a session that is closed after its run has failed finishes the save in progress") {
  const Folder folder;
  const std::string dir = folder / "run";
  HookedFiles files([](const std::string& what, const std::string& path) {
    if (what == "open" && in_a_save(path))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  session::Settings settings;
  settings.run_dir = dir;
  settings.on_step = [](const session::StepResult& r) -> bool {
    return r.step == 5 ? throw std::runtime_error("no error of the engine") : false;
  };
  {
    const Rank rank({"checkpoint.every=4"}, files, settings);
    CHECK_THROWS_AS(rank.session->run(), std::runtime_error);
  }
  CHECK(steps_of(dir) == std::vector<int64_t>{4});
  // A resume from there ends where an undisturbed run ends.
  const auto whole = run_one({"checkpoint.every=4"}, folder / "whole", files);
  const auto rest = run_one({"checkpoint.every=4"}, dir, files,
                            [](int, session::Settings& s) { s.resume = session::Resume::kMust; });
  CHECK(rest.error == "");
  CHECK(rest.weights == whole.weights);
  CHECK(tensors_of(dir) == tensors_of(folder / "whole"));
}
