// Resuming from an older step: the newest checkpoint, the kept ones, and that no kill loses a
// committed one.
#include <doctest/doctest.h>
#include <plait/base.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/checkpoint/commit_order.hpp"
#include "engine/checkpoint/remove_states.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sample.hpp"

namespace {

using namespace plait::checkpoint;
using Names = std::vector<std::string>;

std::string name(int64_t step) { return "step-00000000" + std::to_string(step); }

void save(MemoryFiles& files, int64_t step, int keep, const char* lineage, int64_t from,
          int64_t best_step = -1) {
  Lines lines;
  const Sample sample(step);
  RunState state = sample.state();
  state.lineage = lineage;
  state.lineage_from = from;
  state.best_step = best_step;
  CheckpointWriter(files, "ckpt", keep, lines.log).save(state, sample.tensors());
}

Names listed(MemoryFiles& files) {
  Names all;
  for (const CheckpointName& c : list_checkpoints(files, "ckpt")) all.push_back(c.name);
  return all;
}

int64_t newest(MemoryFiles& files) {
  Lines lines;
  const auto c = open_newest(files, "ckpt", lines.log);
  if (!c) return 0;
  CHECK(Sample(c->state().step).equals(*c));
  return c->state().step;
}

// Steps 10, 20, 30 of one lineage, nothing pending.
std::unique_ptr<MemoryFiles> first_lineage() {
  auto files = std::make_unique<MemoryFiles>();
  for (const int64_t step : {10, 20, 30}) save(*files, step, 3, "a", 0);
  files->sync_folder(".");
  return files;
}

void damage(MemoryFiles& files, const std::string& path) {
  std::string text = files.content(path);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  files.set_content(path, text);
}

}  // namespace

TEST_CASE("going on from an older step leaves the higher ones behind") {
  const auto files = first_lineage();
  save(*files, 15, 3, "b", 10);
  CHECK(newest(*files) == 15);
  CHECK(listed(*files) == Names{name(15), name(10), name(30)});  // the limit; 20 was removed first
  save(*files, 25, 3, "b", 10);
  CHECK(listed(*files) == Names{name(25), name(15), name(10)});
  save(*files, 30, 3, "b", 10);
  CHECK(listed(*files) == Names{name(30), name(25), name(15)});
  // A resume from the newest is another lineage and makes no checkpoint stale.
  save(*files, 40, 3, "c", 30);
  CHECK(listed(*files) == Names{name(40), name(30), name(25)});
}

TEST_CASE("the best one is kept besides the newest, as long as its lineage is the current one") {
  MemoryFiles files;
  const auto best = [&] { return files.content("ckpt/best"); };
  save(files, 10, 1, "a", 0, 10);
  save(files, 20, 1, "a", 0, 20);
  CHECK(listed(files) == Names{name(20)});
  CHECK(best() == name(20) + "\n");
  save(files, 30, 1, "a", 0, 20);
  save(files, 40, 1, "a", 0, 20);
  CHECK(listed(files) == Names{name(40), name(20)});
  // Each of these writers is a new one, as behind a resume.
  save(files, 50, 1, "b", 40, 20);
  CHECK(listed(files) == Names{name(50), name(20)});
  // Going on from before it: the step may be known, but that checkpoint is another run's.
  save(files, 18, 1, "c", 15, 20);
  CHECK(listed(files) == Names{name(18)});
  save(files, 20, 1, "c", 15, 20);
  save(files, 25, 1, "c", 15, 20);
  CHECK(listed(files) == Names{name(25), name(20)});
  Lines lines;
  CHECK(open_checkpoint(files, "ckpt/best", lines.log)->state().step == 20);
  CHECK(open_checkpoint(files, "ckpt/latest", lines.log)->state().step == 25);
  files.set_content("ckpt/best", "../x\n");
  CHECK_THROWS_WITH_AS(open_checkpoint(files, "ckpt/best", lines.log),
                       doctest::Contains("does not hold the name of a checkpoint"), plait::Error);
}

TEST_CASE("a commit's place is read as the manifest's parser reads it") {
  const auto files = first_lineage();
  save(*files, 15, 0, "00c0ffee", 10);
  remove_states(*files, "ckpt/" + name(20));
  for (const Commit& c : read_commits(*files, "ckpt")) {
    const std::string path = "ckpt/" + c.name + "/MANIFEST.json";
    const Manifest m = parse_manifest(files->content(path), path);
    CHECK(c.readable);
    CHECK(c.number == m.commit);
    CHECK(c.lineage == m.state.lineage);
    CHECK(c.from == m.state.lineage_from);
    CHECK(c.number == (c.step == 15 ? 4 : c.step / 10));
    CHECK(c.stale == (c.step > 15));
    CHECK(c.states_left_out == m.state.states_left_out);
    CHECK(c.states_left_out == (c.step == 20));
  }
}

TEST_CASE("a step that was saved before is saved again beside the stale one") {
  const auto files = first_lineage();
  save(*files, 20, 0, "b", 10);
  CHECK(listed(*files) == Names{name(20) + ".2", name(10), name(30), name(20)});
  CHECK(newest(*files) == 20);
  save(*files, 20, 2, "b", 10);
  CHECK(listed(*files) == Names{name(20) + ".3", name(10)});
}

TEST_CASE("a damaged newest falls back within its lineage, then to the stale") {
  const auto files = first_lineage();
  save(*files, 15, 0, "b", 10);
  damage(*files, "ckpt/" + name(15) + "/model.safetensors");
  CHECK(newest(*files) == 10);
  damage(*files, "ckpt/" + name(10) + "/model.safetensors");
  CHECK(newest(*files) == 30);
}

namespace {

// The system refuses once to read one file, the n-th time.
class RefusingOnce : public MemoryFiles {
 public:
  std::string refused;
  int nth = 1;
  std::string read_all(const std::string& path, uint64_t max_bytes) override {
    if (path == refused && --nth == 0) plait::fail_io("[files] cannot open '" + path + "'", EMFILE);
    return MemoryFiles::read_all(path, max_bytes);
  }
};

}  // namespace

TEST_CASE("a manifest that the system refuses to read once ends the search: the order is unknown") {
  RefusingOnce files;
  for (const int64_t step : {10, 20, 30}) save(files, step, 0, "a", 0);
  save(files, 15, 0, "b", 10);
  CHECK(newest(files) == 15);
  for (const int64_t step : {10, 15, 20, 30}) {
    files.refused = "ckpt/" + name(step) + "/MANIFEST.json";
    files.nth = 1;
    CHECK_THROWS_WITH_AS(newest(files), doctest::Contains("MANIFEST.json': Too many open files"),
                         plait::Error);
    CHECK(newest(files) == 15);
  }
}

TEST_CASE("a save that may not read a manifest once removes neither the best nor a newer one") {
  int reads = 0;
  for (bool refused = true; refused; ++reads) {
    CAPTURE(reads);
    RefusingOnce files;
    for (const int64_t step : {10, 20, 30}) save(files, step, 0, "a", 0, 20);
    files.refused = "ckpt/" + name(20) + "/MANIFEST.json";
    files.nth = reads + 1;
    save(files, 40, 1, "a", 0, 20);
    refused = files.nth <= 0;
    files.refused.clear();
    CHECK(newest(files) == 40);
    CHECK(files.exists("ckpt/" + name(20)));
    save(files, 50, 2, "a", 0, 20);
    CHECK(listed(files) == Names{name(50), name(40), name(20)});
    CHECK(files.content("ckpt/best") == name(20) + "\n");
  }
  CHECK(reads == 4);  // for the number, the best one, and what to remove
}

TEST_CASE("the first commit of a lineage is the newest, though the last manifest was refused") {
  RefusingOnce files;
  for (const int64_t step : {10, 20, 30}) save(files, step, 0, "a", 0);
  files.refused = "ckpt/" + name(30) + "/MANIFEST.json";
  save(files, 15, 0, "b", 10);
  CHECK(files.nth <= 0);
  CHECK(newest(files) == 15);
}

TEST_CASE("a commit that another process has overtaken changes nothing of the others") {
  MemoryFiles files;
  for (const int64_t step : {10, 20}) save(files, step, 0, "a", 0);
  Lines lines;
  const Sample sample(30);
  RunState state = sample.state();
  state.lineage = "a";
  CheckpointWriter writer(files, "ckpt", 1, lines.log, 1);
  int asked = 0;
  writer.fence([&] {
    if (++asked > 1) plait::fail_io("[run] the folder belongs to another process", 0);
  });
  writer.save(state, sample.tensors());
  CHECK(listed(files) == Names{name(30), name(20), name(10)});
  CHECK(files.content("ckpt/latest") == name(20) + "\n");
  CHECK(lines.mention("older checkpoints in ckpt stay as they are: [run] the folder belongs"));
}

TEST_CASE("a number of a commit after which there is none is no number") {
  const auto files = first_lineage();
  const std::string path = "ckpt/" + name(30) + "/MANIFEST.json";
  std::string body(unseal_manifest(files->content(path), path));
  const std::string key = "\"commit\": ";
  const size_t at = body.find(key) + key.size();
  body.replace(at, body.find_first_not_of("0123456789", at) - at, "9223372036854775807");
  files->set_content(path, seal_manifest(body));
  CHECK(newest(*files) == 20);
  save(*files, 40, 3, "a", 0);
  const auto saved = read_manifest(*files, "ckpt/" + name(40));
  CHECK(saved.commit == 3);
  CHECK(newest(*files) == 40);
}

TEST_CASE("a checkpoint without a readable manifest displaces none that has one") {
  const auto files = first_lineage();
  damage(*files, "ckpt/" + name(30) + "/MANIFEST.json");
  CHECK(newest(*files) == 20);
  save(*files, 25, 3, "b", 20);
  CHECK(listed(*files) == Names{name(25), name(20), name(10)});
}

TEST_CASE(
    "checkpoints of an engine that knew no lineages are ordered by step, and older than any "
    "other") {
  MemoryFiles files;
  for (const int64_t step : {10, 20, 30}) {
    save(files, step, 0, "", 0);
    const std::string path = "ckpt/" + name(step) + "/MANIFEST.json";
    Manifest m = parse_manifest(files.content(path), path);
    m.commit = 0;
    files.set_content(path, manifest_text(m));
    CHECK(files.content(path).find("lineage") == std::string::npos);
  }
  CHECK(listed(files) == Names{name(30), name(20), name(10)});
  save(files, 15, 0, "b", 10);
  CHECK(listed(files) == Names{name(15), name(10), name(30), name(20)});
}

TEST_CASE(
    "killed, or without power, at any call: the lineage before or the new one, and where it "
    "began") {
  bool clean = false;
  for (int64_t n = 0; !clean; ++n) {
    const auto files = first_lineage();
    files->calls = 0;
    files->kill_at = n;
    clean = true;
    try {
      save(*files, 15, 3, "b", 10);
    } catch (const Killed&) {
      clean = false;
    }
    files->kill_at = -1;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto after = files->after_power_cut(seed);
      const int64_t found = newest(*after);
      CHECK((found == 15 || (found == 30 && !clean)));
      Lines lines;
      CHECK(Sample(10).equals(*open_checkpoint(*after, "ckpt/" + name(10), lines.log)));
      // A later resume from 10 makes the newest lineage.
      save(*after, 12, 3, "c", 10);
      CHECK(newest(*after) == 12);
      CHECK(listed(*after).size() <= 3);
    }
  }
}
