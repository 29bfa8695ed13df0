// On the machine's own file system: a save and load of real files.
#include <plait/base.h>
#include <stdlib.h>

#include <doctest/doctest.h>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/checkpoint/sample.hpp"

namespace {

struct Folder {
  std::string path;
  Folder() {
    const char* base = getenv("TMPDIR");
    path = std::string(base && *base ? base : "/tmp") + "/plait-test-XXXXXX";
    if (!mkdtemp(path.data())) path.clear();
  }
  ~Folder() { plait::FileSystem::posix().remove_all(path); }
};

}  // namespace

TEST_CASE("save and load on real files") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  Lines lines;
  const std::string ckpt = plait::join_path(folder.path, "a/ckpt");
  for (int64_t step = 1; step <= 4; ++step) {
    const Sample sample(step, 70000);
    plait::checkpoint::CheckpointWriter(files, ckpt, 2, lines.log)
        .save(sample.state(), sample.tensors());
  }
  CHECK(plait::checkpoint::list_checkpoints(files, ckpt).size() == 2);
  CHECK(Sample(4, 70000).equals(
      *plait::checkpoint::open_checkpoint(files, plait::join_path(folder.path, "a"), lines.log)));
  for (const std::string& line : lines.all) CHECK(line == "");
}
