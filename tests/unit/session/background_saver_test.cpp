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

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
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

TEST_CASE("a save that fails: reported once, by step, path and reason, and the one before stays") {
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
    int64_t failed_at = 0;
    settings.on_step = [&](const session::StepResult& r) {
      failed_at = r.step;
      return false;
    };
    const Rank rank({"checkpoint.every=4"}, files, settings);
    std::string error;
    try {
      rank.session->run();
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_IO);
      error = e.full_text();
    }
    clean = calls <= n && n > 0;
    if (error.empty()) {
      // A failure after the commit is a warning.
      const auto told = [](const std::string& line) { return has(line, "'latest'"); };
      CHECK((clean || std::any_of(rank.lines.begin(), rank.lines.end(), told)));
      continue;
    }
    CAPTURE(error);
    CHECK(has(error, "step 4 could not be saved to " + dir + "/ckpt/step-0000000004"));
    CHECK(has(error, "[test]"));
    CHECK(failed_at < 12);
    CHECK(status_of(dir)["state"] == "failed");
    CHECK(unfinished(dir).empty());
    // The failure happens once: the same session continues and saves.
    CHECK(rank.session->run().step == 12);
    CHECK(steps_of(dir).back() == 12);
  }
}

TEST_CASE("no memory in a save in the background: an error of the run, which may go on after it") {
  const Folder folder;
  const std::string dir = folder / "run";
  std::atomic<bool> failed{false};
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "mkdir" && in_a_save(path) && !failed.exchange(true)) throw std::bad_alloc();
  });
  session::Settings settings;
  settings.run_dir = dir;
  const Rank rank({"checkpoint.every=4"}, files, settings);
  plait_error* e = guard_c([&] { rank.session->run(); });
  REQUIRE(e);
  CHECK(e->code == PLAIT_ERR_MEMORY);
  CHECK(has(e->text, "out of memory"));
  free_c_error(e);
  CHECK(status_of(dir)["state"] == "failed");
  CHECK(rank.session->run().step == 12);
  CHECK(steps_of(dir).back() == 12);
}

TEST_CASE("a save that fails shows after the next step, not only at the next save") {
  const Folder folder;
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "mkdir" && in_a_save(path)) fail_io("[test] no", ENOSPC);
  });
  int64_t last = 0;
  const Outcome o = run_one({"checkpoint.every=1000", "run.steps=2000"}, folder / "run", files,
                            [&](int, session::Settings& s) {
                              s.on_step = [&](const session::StepResult& r) {
                                last = r.step;
                                if (r.step > 1000)
                                  std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                return false;
                              };
                            });
  CHECK(o.code == PLAIT_ERR_IO);
  CHECK(has(o.error, "step 1000 could not be saved"));
  CHECK(last < 2000);
  CHECK(steps_of(folder / "run").empty());
}

TEST_CASE("a shard that fails on one rank fails the save on all ranks, and the error names it") {
  for (const Layout& layout : kLayouts) {
    if (layout.ranks == 1) continue;
    CAPTURE(layout.keys);
    const Folder folder;
    const std::string dir = folder / "run";
    HookedFiles healthy, sick([&](const std::string&what, const std::string&path) {
      if (what == "sync" && has(path, "/ckpt/.tmp-8-")) fail_io("[test] '" + path + "'", EIO);
    });
    std::vector<std::string> keys = layout.keys;
    keys.emplace_back("checkpoint.every=4");
    // A rank sees it zero or more steps later, and the other ranks with it, at the latest when they
    // end.
    const auto outcomes = test::run_all(keys, layout.ranks, dir, [&](int rank) -> FileSystem& {
      return rank == 1 ? sick : healthy;
    });
    bool any_io = false;
    for (const Outcome& o : outcomes) {
      CAPTURE(o.error);
      any_io |= o.code == PLAIT_ERR_IO;
      CHECK((o.code == PLAIT_ERR_IO || o.code == PLAIT_ERR_PEER));
      CHECK(has(o.error, "step 8 could not be saved; rank 1: "));
      CHECK(has(o.error, "/ckpt/.tmp-8-"));
    }
    CHECK(any_io);
    CHECK(steps_of(dir) == std::vector<int64_t>{4});
  }
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
    const Outcome o = run_one({"checkpoint.every=4"}, dir, files, [&](int, session::Settings& s) {
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
