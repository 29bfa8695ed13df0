// Commits with failing calls, kills and power cuts: a committed checkpoint is never lost.
#include <plait/base.h>

#include <doctest/doctest.h>

#include <cerrno>
#include <random>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"

namespace {

using namespace plait::checkpoint;

// ranks > 1: every rank writes its shard, then the first commits.
void save(plait::FileSystem& files, Lines& lines, int64_t step, int keep, int32_t ranks = 1) {
  const Sample sample(step);
  if (ranks > 1)
    save_sharded(files, "run/ckpt", keep, lines.log, sample, ranks);
  else
    CheckpointWriter(files, "run/ckpt", keep, lines.log).save(sample.state(), sample.tensors());
}

// A run that has saved steps 1 and 2 and has no save pending.
std::unique_ptr<MemoryFiles> two_saved(Lines& lines, int keep, int32_t ranks = 1) {
  auto files = std::make_unique<MemoryFiles>();
  files->make_folder("run");
  files->sync_folder(".");
  save(*files, lines, 1, keep, ranks);
  save(*files, lines, 2, keep, ranks);
  files->calls = 0;
  files->trace.clear();
  return files;
}

// The step of the newest checkpoint, whose content is correct.
int64_t newest_step(MemoryFiles& files) {
  Lines lines;
  const auto c = open_newest(files, "run/ckpt", lines.log);
  if (!c) return 0;
  CHECK(Sample(c->state().step).equals(*c));
  return c->state().step;
}

size_t folders(MemoryFiles& files) { return list_checkpoints(files, "run/ckpt").size(); }

}  // namespace

TEST_CASE("a commit syncs in the order that makes it whole") {
  Lines lines;
  const auto files = two_saved(lines, 0);
  save(*files, lines, 3, 0);
  std::string tmp;
  std::vector<std::string> calls;
  for (std::string call : files->trace) {
    if (call.find("latest") != std::string::npos) break;
    if (tmp.empty() && call.find("mkdir ") == 0) tmp = call.substr(6);
    for (size_t at; !tmp.empty() && (at = call.find(tmp)) != std::string::npos;)
      call.replace(at, tmp.size(), "TMP");
    if (calls.empty() || calls.back() != call) calls.push_back(call);
  }
  CHECK(calls == std::vector<std::string>{"mkdir TMP",
                                          "open TMP/model.safetensors",
                                          "write TMP/model.safetensors",
                                          "sync TMP/model.safetensors",
                                          "close TMP/model.safetensors",
                                          "open TMP/optimizer.safetensors",
                                          "write TMP/optimizer.safetensors",
                                          "sync TMP/optimizer.safetensors",
                                          "close TMP/optimizer.safetensors",
                                          "open TMP/run.toml",
                                          "write TMP/run.toml",
                                          "sync TMP/run.toml",
                                          "close TMP/run.toml",
                                          "open TMP/MANIFEST.json",
                                          "write TMP/MANIFEST.json",
                                          "sync TMP/MANIFEST.json",
                                          "close TMP/MANIFEST.json",
                                          "syncdir TMP",
                                          "rename TMP -> run/ckpt/step-0000000003",
                                          "syncdir run/ckpt"});
}

TEST_CASE("whichever call fails: an error or a durable commit, and never less than before") {
  for (const int number : {EIO, ENOSPC, EDQUOT}) {
    for (const int keep : {0, 1, 2}) {
      bool clean = false;
      for (int64_t n = 0; !clean; ++n) {
        REQUIRE(n < 200);
        Lines lines;
        const auto files = two_saved(lines, keep);
        lines.all.clear();
        files->fail_at = n;
        files->error_number = number;
        bool failed = false;
        try {
          save(*files, lines, 3, keep);
        } catch (const plait::Error& e) {
          failed = true;
          CHECK(e.code() == PLAIT_ERR_IO);
          CHECK(e.text().find(
                    "step 3 could not be saved to run/ckpt/step-0000000003 (needs 5.48 KiB)") !=
                std::string::npos);
        }
        clean = files->calls <= n;
        // A failure after the commit is a warning; no warning means that nothing failed.
        if (!clean && !failed) CHECK_FALSE(lines.all.empty());
        const int64_t newest = newest_step(*files);
        CHECK(newest >= (failed ? 2 : 3));
        if (!failed) {
          for (uint64_t seed = 0; seed < 5; ++seed)
            CHECK(newest_step(*files->after_power_cut(seed)) == 3);
        }
        // The next save succeeds and cleans up.
        files->fail_at = -1;
        save(*files, lines, 4, keep);
        CHECK(newest_step(*files) == 4);
        if (keep > 0) CHECK(folders(*files) <= static_cast<size_t>(keep));
        for (const std::string& name : files->list("run/ckpt"))
          CHECK(name.find(".tmp-") == std::string::npos);
      }
    }
  }
}

TEST_CASE("killed between any two calls: the newest or the one before is there") {
  for (const int keep : {0, 1, 3})
    for (const int32_t ranks : {1, 4}) {
      bool clean = false;
      for (int64_t n = 0; !clean; ++n) {
        Lines lines;
        const auto files = two_saved(lines, keep, ranks);
        files->kill_at = n;
        clean = true;
        try {
          save(*files, lines, 3, keep, ranks);
        } catch (const Killed&) {
          clean = false;
        }
        files->kill_at = -1;
        CHECK(newest_step(*files) >= 2);
        if (clean) CHECK(newest_step(*files) == 3);
        // The next start removes the leftovers.
        save(*files, lines, 4, keep, ranks);
        CHECK(newest_step(*files) == 4);
        if (keep > 0) CHECK(folders(*files) <= static_cast<size_t>(keep));
        for (const std::string& name : files->list("run/ckpt")) CHECK(name[0] != '.');
      }
    }
}

TEST_CASE("power cut at any call: no committed checkpoint is lost, no damaged one accepted") {
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < 1600; ++seed) {
    Lines lines;
    const int keep = static_cast<int>(seed % 4);
    const auto ranks = static_cast<int32_t>(1 + seed / 4 % 4);
    const auto files = two_saved(lines, keep, ranks);
    files->kill_at = static_cast<int64_t>(random() % static_cast<uint64_t>(25 + 15 * ranks));
    int64_t durable = 2;
    try {
      for (int64_t step = 3; step <= 5; ++step) {
        save(*files, lines, step, keep, ranks);
        durable = step;
      }
    } catch (const Killed&) {
    }
    const auto after = files->after_power_cut(seed);
    const int64_t newest = newest_step(*after);
    CHECK(newest >= durable);
    // The run resumes from there.
    save(*after, lines, newest + 1, keep, ranks);
    CHECK(newest_step(*after) == newest + 1);
  }
}

TEST_CASE("power cut during the very first save: nothing, or a whole checkpoint") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Lines lines;
    MemoryFiles files;
    files.make_folder("run");
    files.sync_folder(".");
    const auto ranks = static_cast<int32_t>(1 + seed % 4);
    files.kill_at = static_cast<int64_t>(seed / 4 % static_cast<uint64_t>(15 + 10 * ranks));
    bool saved = false;
    try {
      save(files, lines, 1, 3, ranks);
      saved = true;
    } catch (const Killed&) {
    }
    const auto after = files.after_power_cut(seed);
    const int64_t newest = newest_step(*after);
    CHECK((newest == 1 || (newest == 0 && !saved)));
  }
}
