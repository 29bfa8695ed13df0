// What is said of a place that is opened and is no checkpoint, and which path one has that is.
#include <doctest/doctest.h>
#include <plait/base.h>

#include <string>

#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/survey.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sample.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;

// Opens checkpoints, and saves them.
struct Places {
  MemoryFiles files;
  Lines lines;
  void save(const std::string& folder, int64_t step = 5) {
    const Sample sample(step);
    CheckpointWriter(files, folder, 0, lines.log).save(sample.state(), sample.tensors());
  }
  std::string refusal(const std::string& place) {
    return error_of([&] { open_checkpoint(files, place, lines.log); }, PLAIT_ERR_NOT_FOUND);
  }
};

}  // namespace

TEST_CASE("a folder without checkpoints names the newest run inside, two levels deep at most") {
  Places p;
  const auto none = [](const std::string& place, const std::string& runs) {
    return "[checkpoint] '" + place + "' is not a checkpoint and contains none" + runs + kNameOne;
  };
  for (const char* folder : {"empty", "deep", "deep/a", "deep/a/b", "deep/a/b/c"})
    p.files.make_folder(folder);
  p.save("deep/a/b/c/ckpt");
  for (const char* run : {"runs/demo/20250101", "runs/demo/20250301", "runs/demo/20250201"})
    p.save(std::string(run) + "/ckpt");
  p.files.make_folder("runs/zebra");
  CHECK(p.refusal("empty") == none("empty", ""));
  CHECK(p.refusal("deep") == none("deep", ""));
  CHECK(p.refusal("runs") == none("runs", "; it holds runs, such as 'runs/demo/20250301'"));
  CHECK(p.refusal("runs/demo") ==
        none("runs/demo", "; it holds runs, such as 'runs/demo/20250301'"));
  CHECK(p.refusal("nowhere") == "[checkpoint] 'nowhere' does not exist" + std::string(kNameOne));
}

TEST_CASE("unfinished saves are told of a folder of checkpoints alone") {
  Places p;
  const std::string none = "' is not a checkpoint and contains none";
  for (const char* folder : {"other", "other/.tmp-1-ab", "run", "run/ckpt", "run/ckpt/.tmp-1-ab"})
    p.files.make_folder(folder);
  CHECK(p.refusal("other") == "[checkpoint] 'other" + none + kNameOne);
  // A run is such a place itself: it has ckpt/ inside.
  CHECK(p.refusal("run") == "[checkpoint] 'run" + none +
                                "; its saves were not finished, such as 'run/ckpt/.tmp-1-ab', and "
                                "are not read" +
                                kNameOne);
}

TEST_CASE("a file best or latest names a checkpoint beside it") {
  Places p;
  p.save("ckpt");
  for (const char* text : {"", "../x\n", "step-0000000006\n", "latest\n"}) {
    p.files.replace("ckpt/best", text);
    CHECK(error_of([&] { survey(p.files, "ckpt/best"); }, PLAIT_ERR_INVALID) ==
          "[checkpoint] the file 'ckpt/best' does not name a checkpoint beside it");
  }
  p.files.replace("ckpt/best", "step-0000000005\n");
  CHECK(survey(p.files, "ckpt/best").checkpoints.at(0).path == "ckpt/step-0000000005");
}

TEST_CASE("a checkpoint has the path that was given, also of the folder it is in") {
  Places p;
  p.save(".");
  p.files.make_folder(".tmp-6-ab");
  for (const char* place : {"step-0000000005", ".tmp-6-ab"})
    CHECK(survey(p.files, place).checkpoints.at(0).path == place);
  const Checkpoint c(p.files, "step-0000000005");
  CHECK(error_of([&] { c.file("other\n"); }, PLAIT_ERR_DATA) ==
        "[checkpoint] step-0000000005: the manifest names no file 'other\\x0a'");
  CHECK(&c.file("optimizer.safetensors") != &c.file("model.safetensors"));
}
