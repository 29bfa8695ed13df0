#include "engine/checkpoint/survey.hpp"

#include <plait/base.h>

#include <cerrno>

#include <doctest/doctest.h>

#include "engine/base/error.hpp"
#include "engine/checkpoint/probe_weights.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/verify.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;
using Names = std::vector<std::string>;

void save(MemoryFiles& files, Lines& lines, const std::string& folder, int64_t step,
          const std::string& lineage = "a", int64_t from = 0, int64_t best = -1) {
  const Sample sample(step);
  RunState s = sample.state();
  s.lineage = lineage;
  s.lineage_from = from;
  s.best_step = best;
  s.saved_at = 1000 + step;
  CheckpointWriter(files, folder, 0, lines.log).save(s, sample.tensors());
}

Names paths(const Survey& found) {
  Names all;
  for (const Surveyed& c : found.checkpoints) all.push_back(c.path);
  return all;
}

void change_version(MemoryFiles& files, const std::string& folder) {
  const std::string path = folder + "/MANIFEST.json";
  std::string body(unseal_manifest(files.content(path), path));
  files.set_content(path, seal_manifest(body.replace(body.find("\"format_version\": 1"), 19,
                                                     "\"format_version\": 9")));
}

}  // namespace

TEST_CASE("checkpoints are found at every sort of place") {
  MemoryFiles files;
  Lines lines;
  for (const char* folder : {"runs", "runs/x", "runs/x/1", "runs/x/2", "runs/empty"})
    files.make_folder(folder);
  save(files, lines, "runs/x/1/ckpt", 5);
  save(files, lines, "runs/x/1/ckpt", 10);
  save(files, lines, "runs/x/2/ckpt", 7);
  const Names first{"runs/x/1/ckpt/step-0000000010", "runs/x/1/ckpt/step-0000000005"};
  for (const char* place : {"runs", "runs/", "runs/x"}) {
    const Survey all = survey(files, place);
    CHECK(all.kind == PlaceKind::kRuns);
    CHECK(paths(all) == Names{first[0], first[1], "runs/x/2/ckpt/step-0000000007"});
  }
  CHECK(survey(files, "runs/x/1").kind == PlaceKind::kRun);
  CHECK(paths(survey(files, "runs/x/1")) == first);
  CHECK(survey(files, "runs/x/1/ckpt/").kind == PlaceKind::kCheckpoints);
  CHECK(paths(survey(files, "runs/x/1/ckpt")) == first);
  for (const char* place : {"runs/x/1/ckpt/latest", "runs/x/1/ckpt/step-0000000010",
                            "runs/x/1/ckpt/step-0000000010/"}) {
    CHECK(survey(files, place).kind == PlaceKind::kCheckpoint);
    CHECK(paths(survey(files, place)) == Names{first[0]});
  }
  CHECK(survey(files, "runs/empty").checkpoints.empty());
  files.rename("runs/x/2/ckpt/step-0000000007", "runs/x/2/ckpt/mine");
  CHECK(paths(survey(files, "runs/x/2/ckpt/mine")) == Names{"runs/x/2/ckpt/mine"});
  CHECK(error_of([&] { survey(files, "nowhere"); }, PLAIT_ERR_NOT_FOUND)
            .find("there is no 'nowhere'") != std::string::npos);
  files.open("runs/file", plait::OpenMode::kCreate)->write("x");
  CHECK(error_of([&] { survey(files, "runs/file"); }, PLAIT_ERR_INVALID).find("is a file") !=
        std::string::npos);
}

TEST_CASE("a checkpoint is described without reading its tensors") {
  MemoryFiles files;
  Lines lines;
  save_sharded(files, "ckpt", 0, lines.log, Sample(3), 2);
  const Surveyed c = survey(files, "ckpt").checkpoints.at(0);
  CHECK(c.condition == Condition::kComplete);
  CHECK(c.state.step == 3);
  CHECK(c.state.world.data == 2);
  CHECK(c.parameters == 1);
  CHECK(c.states == 2);
  CHECK(c.tensor_bytes == 2 * 2800 + 8);
  uint64_t bytes = 0;
  for (const std::string& name : files.list("ckpt/step-0000000003"))
    bytes += files.content("ckpt/step-0000000003/" + name).size();
  CHECK(c.bytes == bytes);
  CHECK(c.files == 6);
  CHECK(c.latest);
  CHECK_FALSE(c.best);
}

TEST_CASE("an unfinished save says what it lacks; what is whole is read, whatever its name") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, "run/ckpt", 5);
  const std::string whole = "run/ckpt/step-0000000005", begun = "run/ckpt/.tmp-7-ab";
  const auto refused = [&](const std::string& folder, const std::string& missing) {
    const std::string said =
        "'" + folder + "' is a save that was not finished, or is under way: it lacks " + missing;
    for (const std::string& text :
         {error_of([&] { choose_checkpoint(files, folder); }, PLAIT_ERR_NOT_FOUND),
          error_of([&] { open_checkpoint(files, folder, lines.log); }, PLAIT_ERR_NOT_FOUND),
          error_of([&] { probe_weights(files, "model.load", folder); }, PLAIT_ERR_NOT_FOUND)})
      CHECK_MESSAGE(text.find(said) != std::string::npos, text);
    const Survey found = survey(files, folder);
    REQUIRE(paths(found) == Names{folder});
    CHECK(found.checkpoints[0].condition == Condition::kNotCommitted);
  };
  const std::string weights = files.read_all(whole + "/model.safetensors", 1 << 20);
  files.make_folder(begun);
  refused(begun, "weights, MANIFEST.json;");
  files.replace(begun + "/model-00001-of-00003.safetensors", weights);
  refused(begun, "model-00002-of-00003.safetensors, model-00003-of-00003.safetensors, MANIFEST");
  files.remove(begun + "/model-00001-of-00003.safetensors");
  // Names of others, of which one would be a file of 4,294,967,295.
  for (const char* other :
       {"model-00001-of--1.safetensors", "model-00001-of-", "model-00000-of-00003.safetensors",
        "model-00004-of-00003.safetensors", "model-1-of-3.safetensors"})
    files.replace(begun + "/" + other, weights);
  refused(begun, "MANIFEST.json;");
  for (const std::string& other : files.list(begun)) files.remove(begun + "/" + other);
  files.replace(begun + "/model.safetensors", weights.substr(0, weights.size() - 1));
  refused(begun, "MANIFEST.json, and " + begun +
                     "/model.safetensors, offset 112: the tensors end at 2800 "
                     "of the data, the file at 2799; name a ");
  files.replace(begun + "/model.safetensors", weights);
  files.replace(begun + "/optimizer.safetensors", weights);
  refused(begun, "MANIFEST.json;");
  // Runs in a folder of such a name.
  save(files, lines, "run/.tmp-runs/ckpt", 3);
  CHECK(choose_checkpoint(files, "run/.tmp-runs") == "run/.tmp-runs/ckpt/step-0000000003");
  // Weights alone, and a checkpoint.
  files.rename(begun + "/optimizer.safetensors", begun + "/optimizer.pt");
  probe_weights(files, "model.load", begun);
  files.make_folder("run/.tmp-whole");
  for (const std::string& name : files.list(whole))
    files.replace("run/.tmp-whole/" + name, files.read_all(whole + "/" + name, 1 << 20));
  CHECK(choose_checkpoint(files, "run/.tmp-whole") == "run/.tmp-whole");
  probe_weights(files, "model.load", "run/.tmp-whole");
}

TEST_CASE("marks: latest, best, stale") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, "ckpt", 5);
  save(files, lines, "ckpt", 10, "a", 0, 5);
  save(files, lines, "ckpt", 6, "b", 5, 5);  // continued from 5: what was behind it is stale
  const Survey found = survey(files, "ckpt");
  REQUIRE(paths(found) ==
          Names{"ckpt/step-0000000006", "ckpt/step-0000000005", "ckpt/step-0000000010"});
  CHECK((found.checkpoints[0].latest && !found.checkpoints[0].best && !found.checkpoints[0].stale));
  CHECK((found.checkpoints[1].best && !found.checkpoints[1].latest));
  CHECK(found.checkpoints[2].stale);
  CHECK(found.checkpoints[0].saved_at == 1006);
  CHECK(survey(files, "ckpt/step-0000000010").checkpoints.at(0).stale);
}

TEST_CASE("what is damaged, newer or not committed is listed with its reason") {
  MemoryFiles files;
  Lines lines;
  for (const int64_t step : {1, 2, 3, 4, 5}) save(files, lines, "ckpt", step);
  files.set_content("ckpt/step-0000000001/MANIFEST.json", "{");
  files.remove("ckpt/step-0000000002/optimizer.safetensors");
  files.set_content("ckpt/step-0000000003/model.safetensors", "x");
  change_version(files, "ckpt/step-0000000004");
  files.make_folder("ckpt/.tmp-6-ab");
  files.make_folder("ckpt/.tmp-7-ab");  // only the rename was missing
  files.replace("ckpt/.tmp-7-ab/MANIFEST.json",
                files.read_all("ckpt/step-0000000005/MANIFEST.json", 1 << 20));
  const Survey found = survey(files, "ckpt");
  REQUIRE(found.checkpoints.size() == 7);
  const auto& c = found.checkpoints;
  CHECK(c[0].condition == Condition::kComplete);
  CHECK(c[1].condition == Condition::kNewerFormat);
  CHECK(c[1].fault.find("format version 9") != std::string::npos);
  CHECK(c[1].state.step == 4);
  CHECK(c[2].condition == Condition::kDamaged);
  CHECK(c[2].fault == "model.safetensors has 1 bytes, expected 2912");
  CHECK(c[3].fault == "optimizer.safetensors is missing");
  CHECK(c[3].read);
  CHECK(c[4].fault.find("the manifest is truncated") != std::string::npos);
  CHECK_FALSE(c[4].read);
  CHECK(c[5].condition == Condition::kNotCommitted);
  CHECK(c[5].fault == "weights, MANIFEST.json");
  CHECK(c[6].condition == Condition::kNotCommitted);
  CHECK(c[6].fault == "its final name");
  CHECK(choose_checkpoint(files, "ckpt") == "ckpt/step-0000000005");
  files.remove_all("ckpt/step-0000000005");
  CHECK(choose_checkpoint(files, "ckpt") == "ckpt/step-0000000004");  // never an older one instead
  files.remove_all("ckpt/step-0000000004");
  const std::string text = error_of([&] { choose_checkpoint(files, "ckpt"); }, PLAIT_ERR_DATA);
  CHECK(text.find("step-0000000003: model.safetensors has 1 bytes") != std::string::npos);
  CHECK(text.find("step-0000000001") != std::string::npos);
}

namespace {

// Refuses to open the manifests of some checkpoints, and to list the files of one.
class Refusing : public MemoryFiles {
 public:
  std::string refused, unlisted;
  std::vector<std::string> list(const std::string& folder) override {
    if (folder == unlisted) plait::fail_io("[files] list " + folder, EACCES);
    return MemoryFiles::list(folder);
  }
  std::unique_ptr<plait::InputFile> open_input(const std::string& path,
                                               uint64_t max_bytes) override {
    check(path);
    return MemoryFiles::open_input(path, max_bytes);
  }
  std::string read_all(const std::string& path, uint64_t max_bytes) override {
    check(path);
    return MemoryFiles::read_all(path, max_bytes);
  }

 private:
  void check(const std::string& path) const {
    if (path.find(refused) != path.npos && path.find("MANIFEST") != path.npos)
      plait::fail_io("[files] open " + path, EACCES);
  }
};

}  // namespace

TEST_CASE("of the newest checkpoint all must be readable, of the others the manifest") {
  Refusing files;
  files.refused = "none";
  Lines lines;
  save(files, lines, "ckpt", 1);
  save(files, lines, "ckpt", 2);
  files.unlisted = "ckpt/step-0000000001";
  CHECK(choose_checkpoint(files, "ckpt") == "ckpt/step-0000000002");
  files.unlisted = "ckpt/step-0000000002";
  CHECK(error_of([&] { choose_checkpoint(files, "ckpt"); }, PLAIT_ERR_IO)
            .find("'ckpt/step-0000000002' could not be read") != std::string::npos);
}

TEST_CASE("a checkpoint that may not be read is not called damaged") {
  Refusing files;
  Lines lines;
  save(files, lines, "ckpt", 1);
  save(files, lines, "ckpt", 2);
  for (const char* refused : {"step-", "step-0000000001", "step-0000000002"}) {
    files.refused = refused;
    for (const std::string& text :
         {error_of([&] { open_newest(files, "ckpt", lines.log); }, PLAIT_ERR_IO),
          error_of([&] { choose_checkpoint(files, "ckpt"); }, PLAIT_ERR_IO)}) {
      CHECK(text.find("[checkpoint] 'ckpt/step-000000000") == 0);
      CHECK(text.find("could not be read (open ckpt/step-") != std::string::npos);
      CHECK(text.find("Permission denied): it may be whole, so no other one is used instead; give "
                      "permission to read it") != std::string::npos);
      CHECK(text.find("backup") == std::string::npos);
    }
  }
  CHECK(lines.all.empty());
  files.refused = "step-0000000001";
  const Verification done = verify_checkpoint(files, "ckpt/step-0000000001", {});
  CHECK(done.unreadable);
  CHECK(done.faults.size() == 1);
}
