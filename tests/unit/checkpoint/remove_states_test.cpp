// checkpoint.keep_optimizer: which checkpoints lose the optimizer's states, that they are whole
// without them, and that failing calls, kills and power cuts leave each whole, too.
#include "engine/checkpoint/remove_states.hpp"

#include <plait/base.h>

#include <doctest/doctest.h>

#include <cerrno>
#include <random>

#include "engine/base/error.hpp"
#include "engine/checkpoint/commit_order.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/verify.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"

namespace {

using namespace plait::checkpoint;
using Steps = std::vector<int64_t>;

constexpr char kFolder[] = "run/ckpt";

std::string path_of(int64_t step) { return "run/ckpt/step-000000000" + std::to_string(step); }

struct Kept {
  int checkpoints = 0, states = 0;
};

// ranks > 1: every rank writes its shard, then the first commits.
void save(plait::FileSystem& files, Lines& lines, int64_t step, Kept keep, int32_t ranks = 1,
          int64_t best_step = -1) {
  const Sample sample(step);
  if (ranks > 1) {
    save_sharded(files, kFolder, keep.checkpoints, lines.log, sample, ranks, keep.states);
    return;
  }
  RunState state = sample.state();
  state.best_step = best_step;
  CheckpointWriter(files, kFolder, keep.checkpoints, lines.log, keep.states)
      .save(state, sample.tensors());
}

// A run that has saved these steps, all with states, and has no save pending.
std::unique_ptr<MemoryFiles> saved(Lines& lines, const Steps& steps, int32_t ranks = 1) {
  auto files = std::make_unique<MemoryFiles>();
  files->make_folder("run");
  files->sync_folder(".");
  for (const int64_t step : steps) save(*files, lines, step, {}, ranks);
  files->calls = 0;
  files->trace.clear();
  return files;
}

bool is_intact(MemoryFiles& files, const std::string& folder) {
  return verify_checkpoint(files, folder, {}).faults.empty();
}

// Whether a checkpoint holds states; checks that it is intact, and what it holds.
bool has_states(MemoryFiles& files, const std::string& folder) {
  CAPTURE(folder);
  CHECK(is_intact(files, folder));
  const Checkpoint c(files, folder);
  const Sample sample(c.state().step);
  if (!c.state().states_left_out) {
    CHECK(sample.equals(c));
    return true;
  }
  CHECK(c.tensors().size() == 1);
  std::vector<float> weight(sample.weight.size());
  c.read("fc.weight", PLAIT_F32, c.tensors()[0].shape, weight.data());
  CHECK(weight == sample.weight);
  return false;
}

Steps steps_of(MemoryFiles& files, bool with_states) {
  Steps all;
  for (const CheckpointName& c : list_checkpoints(files, kFolder))
    if (has_states(files, std::string(kFolder) + "/" + c.name) == with_states)
      all.push_back(c.step);
  return all;
}

// Files that the manifests do not name, besides those that every checkpoint has.
std::vector<std::string> unnamed(MemoryFiles& files) {
  std::vector<std::string> all;
  for (const CheckpointName& c : list_checkpoints(files, kFolder)) {
    const std::string folder = std::string(kFolder) + "/" + c.name;
    std::vector<std::string> known = {"MANIFEST.json", "run.toml", "model.safetensors.index.json"};
    for (const FileRecord& f : read_manifest(files, folder).files) known.push_back(f.name);
    for (const std::string& name : files.list(folder))
      if (std::find(known.begin(), known.end(), name) == known.end())
        all.push_back(folder + "/" + name);
  }
  return all;
}

}  // namespace

TEST_CASE("the newest keep the optimizer's states, older ones are whole without them") {
  for (const int32_t ranks : {1, 3}) {
    Lines lines;
    const auto files = saved(lines, {1, 2}, ranks);
    save(*files, lines, 3, {0, 2}, ranks);
    CHECK(steps_of(*files, true) == Steps{3, 2});
    CHECK(steps_of(*files, false) == Steps{1});
    save(*files, lines, 4, {3, 2}, ranks);
    CHECK(steps_of(*files, true) == Steps{4, 3});
    CHECK(steps_of(*files, false) == Steps{2});
    CHECK(unnamed(*files).empty());
    const Manifest m = read_manifest(*files, path_of(2));
    CHECK(m.files.size() == static_cast<size_t>(ranks));
    CHECK(m.commit == 2);
    CHECK(m.state.extra == Sample(2).state().extra);
    CHECK(m.state.cursors == Sample(2).state().cursors);
    CHECK(files->exists(path_of(2) + "/run.toml"));
    CHECK(lines.all.empty());
  }
}

TEST_CASE("all keep them unless a number is given, and what is gone stays gone") {
  Lines lines;
  const auto files = saved(lines, {1, 2, 3});
  save(*files, lines, 4, {4, 0});
  CHECK(steps_of(*files, true) == Steps{4, 3, 2, 1});
  save(*files, lines, 5, {4, 1});
  CHECK(steps_of(*files, false) == Steps{4, 3, 2});
  save(*files, lines, 6, {4, 0});
  CHECK(steps_of(*files, true) == Steps{6, 5});
  CHECK(steps_of(*files, false) == Steps{4, 3});
}

TEST_CASE("the best one loses them unless it is among the newest") {
  Lines lines;
  const auto files = saved(lines, {1});
  save(*files, lines, 2, {2, 2}, 1, 1);
  CHECK(steps_of(*files, true) == Steps{2, 1});
  save(*files, lines, 3, {2, 2}, 1, 1);
  CHECK(steps_of(*files, true) == Steps{3, 2});
  CHECK(steps_of(*files, false) == Steps{1});
  plait::Log quiet{[](uint32_t, std::string_view) {}};
  CHECK(open_checkpoint(*files, std::string(kFolder) + "/best", quiet)->state().step == 1);
}

TEST_CASE("behind a resume from an older step, the stale ones lose them first") {
  Lines lines;
  const auto files = saved(lines, {1, 2, 3});
  RunState state = Sample(2).state();
  state.lineage = "b";
  state.lineage_from = 1;
  CheckpointWriter(*files, kFolder, 0, lines.log, 2).save(state, Sample(2).tensors());
  CHECK(has_states(*files, path_of(2) + ".2"));
  CHECK(has_states(*files, path_of(1)));
  CHECK_FALSE(has_states(*files, path_of(2)));
  CHECK_FALSE(has_states(*files, path_of(3)));
}

TEST_CASE("a checkpoint of an optimizer without states is left as it is") {
  Lines lines;
  const auto files = saved(lines, {});
  for (int64_t step = 1; step <= 3; ++step) {
    const Sample sample(step);
    const auto tensors = sample.tensors();
    CheckpointWriter(*files, kFolder, 0, lines.log, 1).save(sample.state(), {&tensors[0], 1});
  }
  for (int64_t step = 1; step <= 3; ++step)
    CHECK_FALSE(read_manifest(*files, path_of(step)).state.states_left_out);
}

TEST_CASE("one that is damaged, or of a newer format, keeps no other from losing them") {
  Lines lines;
  const auto files = saved(lines, {1, 2, 3, 4});
  const std::string manifest = path_of(3) + "/MANIFEST.json";
  std::string body(unseal_manifest(files->content(manifest), manifest));
  body.replace(body.find("\"format_version\": 1"), 19, "\"format_version\": 9");
  files->set_content(manifest, seal_manifest(body));
  files->set_content(path_of(2) + "/MANIFEST.json", "{}");
  save(*files, lines, 5, {0, 1});
  CHECK_FALSE(has_states(*files, path_of(1)));
  CHECK_FALSE(has_states(*files, path_of(4)));
  CHECK(files->exists(path_of(2) + "/optimizer.safetensors"));
  CHECK(files->exists(path_of(3) + "/optimizer.safetensors"));
  REQUIRE(lines.all.size() == 1);
  CHECK(lines.mention("the optimizer's states of " + path_of(3) + " could not be removed"));
}

TEST_CASE("states go in the order that leaves a checkpoint whole") {
  Lines lines;
  const auto files = saved(lines, {1}, 2);
  remove_states(*files, path_of(1));
  std::vector<std::string> calls;
  for (std::string call : files->trace) {
    if (const size_t at = call.find(".tmp-"); at != call.npos)
      call.replace(at, call.find_first_of(' ', at) - at, ".tmp");
    if (calls.empty() || calls.back() != call) calls.push_back(call);
  }
  const std::string manifest = path_of(1) + "/MANIFEST.json";
  CHECK(calls == std::vector<std::string>{
                     "open " + manifest + ".tmp", "write " + manifest + ".tmp",
                     "sync " + manifest + ".tmp", "close " + manifest + ".tmp",
                     "rename " + manifest + ".tmp -> " + manifest, "syncdir " + path_of(1),
                     "remove " + path_of(1) + "/optimizer-00001-of-00002.safetensors",
                     "remove " + path_of(1) + "/optimizer-00002-of-00002.safetensors"});
}

TEST_CASE(
    "whichever call fails: a warning, whole checkpoints, and the next save removes the rest") {
  for (const int32_t ranks : {1, 3}) {
    bool clean = false;
    for (int64_t n = 0; !clean; ++n) {
      REQUIRE(n < 300);
      Lines lines;
      const auto files = saved(lines, {1, 2}, ranks);
      files->fail_at = n;
      bool failed = false;
      try {
        save(*files, lines, 3, {3, 1}, ranks);
      } catch (const plait::Error&) {
        failed = true;
      }
      clean = files->calls <= n;
      files->fail_at = -1;
      if (!clean && !failed) CHECK_FALSE(lines.all.empty());
      CHECK(steps_of(*files, true).front() >= (failed ? 2 : 3));
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const auto after = files->after_power_cut(seed);
        CHECK(steps_of(*after, true).size() + steps_of(*after, false).size() >= 2);
      }
      save(*files, lines, 4, {3, 1}, ranks);
      CHECK(steps_of(*files, true) == Steps{4});
      CHECK(steps_of(*files, false).size() == 2);
      CHECK(unnamed(*files).empty());
    }
  }
}

TEST_CASE("killed, or without power, at any call: each is whole, and the next save goes on") {
  for (const int32_t ranks : {1, 3}) {
    bool clean = false;
    for (int64_t n = 0; !clean; ++n) {
      REQUIRE(n < 300);
      Lines lines;
      const auto files = saved(lines, {1, 2}, ranks);
      files->kill_at = n;
      clean = true;
      try {
        save(*files, lines, 3, {0, 1}, ranks);
      } catch (const Killed&) {
        clean = false;
      }
      files->kill_at = -1;
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const auto after = files->after_power_cut(seed);
        const auto whole = [&](MemoryFiles& of) {
          const Steps with = steps_of(of, true);
          CHECK(with.size() + steps_of(of, false).size() >= 2);
          CHECK(with.front() >= 2);
        };
        whole(*after);
        save(*after, lines, 4, {0, 1}, ranks);
        CHECK(steps_of(*after, true) == Steps{4});
        CHECK(unnamed(*after).empty());
      }
      save(*files, lines, 4, {0, 1}, ranks);
      CHECK(steps_of(*files, true) == Steps{4});
      CHECK(unnamed(*files).empty());
    }
  }
}

TEST_CASE("what an interrupted call left goes with the next save, also if all are to keep states") {
  Lines lines;
  const auto files = saved(lines, {1, 2});
  const std::string states = path_of(1) + "/optimizer.safetensors";
  const std::string content = files->content(states);
  save(*files, lines, 3, {0, 2});
  files->replace(states, content);
  files->replace(path_of(1) + "/MANIFEST.json.tmp-77", "{");
  CHECK(unnamed(*files).size() == 2);
  CHECK(is_intact(*files, path_of(1)));
  save(*files, lines, 4, {9, 0});
  CHECK(unnamed(*files).empty());
  CHECK(steps_of(*files, true) == Steps{4, 3, 2});
}

namespace {

// A run takes the states right after a reader has read the manifest.
class TakenMeanwhile : public MemoryFiles {
 public:
  int reads_left = -1;  // of manifests, until then
  bool stale = false;   // or right before the next read of a state, of a file that is open
  std::string read_all(const std::string& path, uint64_t max_bytes) override {
    const std::string text = MemoryFiles::read_all(path, max_bytes);
    if (path.ends_with("/MANIFEST.json") && --reads_left == 0)
      remove_states(*this, plait::folder_of(path));
    return text;
  }
  std::unique_ptr<plait::InputFile> open_input(const std::string& path,
                                               uint64_t max_bytes) override;
};

// As where another machine has removed the file: it is open, and cannot be read.
class StaleInput : public plait::InputFile {
 public:
  StaleInput(TakenMeanwhile& files, std::string path, std::unique_ptr<plait::InputFile> input)
      : files_(files), path_(std::move(path)), input_(std::move(input)) {}
  uint64_t size() const override { return input_->size(); }
  void read_at(uint64_t offset, void* out, size_t size) const override {
    if (offset > 8 && std::exchange(files_.stale, false)) {  // behind the length of the header
      remove_states(files_, plait::folder_of(path_));
      gone_ = true;
    }
    if (gone_) plait::fail_io("[files] cannot read '" + path_ + "'", ESTALE);
    input_->read_at(offset, out, size);
  }

 private:
  TakenMeanwhile& files_;
  const std::string path_;
  const std::unique_ptr<plait::InputFile> input_;
  mutable bool gone_ = false;
};

std::unique_ptr<plait::InputFile> TakenMeanwhile::open_input(const std::string& path,
                                                             uint64_t max_bytes) {
  auto input = MemoryFiles::open_input(path, max_bytes);
  if (!path.ends_with("/optimizer.safetensors")) return input;
  return std::make_unique<StaleInput>(*this, path, std::move(input));
}

}  // namespace

TEST_CASE("a reader that comes while states are taken sees a whole checkpoint") {
  const std::string folder = "ckpt/step-0000000003";
  const auto fresh = [] {
    Lines lines;
    auto files = std::make_unique<TakenMeanwhile>();
    CheckpointWriter(*files, "ckpt", 0, lines.log).save(Sample(3).state(), Sample(3).tensors());
    return files;
  };
  SUBCASE("to read tensors") {
    const auto files = fresh();
    files->reads_left = 1;
    CHECK(Checkpoint(*files, folder).state().states_left_out);
  }
  SUBCASE("to read tensors of files that it has opened") {
    const auto files = fresh();
    files->stale = true;
    CHECK(Checkpoint(*files, folder).state().states_left_out);
    CHECK_FALSE(files->stale);
  }
  SUBCASE("to verify it") {
    const auto files = fresh();
    files->reads_left = 1;
    const Verification done = verify_checkpoint(*files, folder, {});
    CHECK(done.faults.empty());
    CHECK(done.states_left_out);
    CHECK(done.tensors == 1);
  }
  SUBCASE("to list it") {
    const auto files = fresh();
    CHECK(survey(*files, folder).checkpoints.at(0).states == 2);
    files->reads_left = 2;  // the first is for the order of commits
    const Surveyed found = survey(*files, folder).checkpoints.at(0);
    CHECK(found.condition == Condition::kComplete);
    CHECK(found.states == 0);
    CHECK(found.state.states_left_out);
  }
}

TEST_CASE("a file that is missing is damage, with states and without") {
  Lines lines;
  const auto files = saved(lines, {1, 2});
  files->remove(path_of(2) + "/optimizer.safetensors");
  CHECK_FALSE(is_intact(*files, path_of(2)));
  CHECK_THROWS_AS(Checkpoint(*files, path_of(2)), plait::Error);
  remove_states(*files, path_of(1));
  files->remove(path_of(1) + "/model.safetensors");
  CHECK_FALSE(is_intact(*files, path_of(1)));
  CHECK_THROWS_AS(Checkpoint(*files, path_of(1)), plait::Error);
}

TEST_CASE("the newest one that has states is found for a message") {
  Lines lines;
  const auto files = saved(lines, {1, 2, 3});
  CHECK(newest_with_states(*files, path_of(1)) == path_of(3));
  remove_states(*files, path_of(3));
  remove_states(*files, path_of(1));
  CHECK(newest_with_states(*files, path_of(1)) == path_of(2));
  std::string text = files->content(path_of(2) + "/optimizer.safetensors");
  text.back() = static_cast<char>(text.back() ^ 1);  // as long as the manifest says
  files->set_content(path_of(2) + "/optimizer.safetensors", text);
  CHECK(newest_with_states(*files, path_of(1)).empty());
  CHECK(newest_with_states(*files, "run/elsewhere").empty());
}
