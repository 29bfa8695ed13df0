// Saving: what is refused, what is closed, and what a save keeps that it cannot read.
#include <doctest/doctest.h>
#include <plait/base.h>
#include <plait/tensor.h>

#include <cerrno>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/checkpoint/export_weights.hpp"
#include "engine/checkpoint/rewrite.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sample.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;
using Names = std::vector<std::string>;

// The system refuses one reading of a file, the n-th.
class Refusing : public MemoryFiles {
 public:
  std::string refused;
  int nth = 0;
  std::string read_all(const std::string& path, uint64_t max_bytes) override {
    if (path == refused && --nth == 0) plait::fail_io("[files] cannot open '" + path + "'", EMFILE);
    return MemoryFiles::read_all(path, max_bytes);
  }
};

void save(MemoryFiles& files, Lines& lines, int64_t step, int keep) {
  const Sample sample(step);
  CheckpointWriter(files, "ckpt", keep, lines.log).save(sample.state(), sample.tensors());
}

}  // namespace

TEST_CASE("a checkpoint that cannot be read when old ones go may be a newer one: all stay") {
  const std::string last = "step-0000000030";
  for (int nth = 1; nth <= 2; ++nth) {  // for the number of the commit, and for what may go
    CAPTURE(nth);
    Refusing files;
    Lines lines;
    for (const int64_t step : {10, 20, 30}) save(files, lines, step, 0);
    files.refused = "ckpt/" + last + "/MANIFEST.json";
    files.nth = nth;
    save(files, lines, 40, 2);
    CHECK(files.nth <= 0);
    CHECK(files.exists("ckpt/" + last));
    CHECK(files.exists("ckpt/step-0000000010") == (nth == 2));
    CHECK(lines.mention("[checkpoint] old checkpoints in ckpt could not be removed: [checkpoint] "
                        "'ckpt/step-0000000030' could not be read (cannot open "
                        "'ckpt/step-0000000030/MANIFEST.json': Too many open files)") ==
          (nth == 2));
  }
}

TEST_CASE("ranks that give a tensor another type or shape are refused") {
  const std::vector<double> values(12);
  const auto half = [&](uint32_t dtype, std::vector<int64_t> shape, int64_t row) {
    return SaveTensor{"t", dtype, std::move(shape), values.data(), false, {row, 0}, {1, 3}};
  };
  const struct {
    SaveTensor second;
    const char* fault;
  } cases[] = {{half(PLAIT_F64, {2, 3}, 1), "is given with two types or shapes"},
               {half(PLAIT_F32, {3, 3}, 1), "is given with two types or shapes"},
               {{"t", PLAIT_F32, {2, 3}, values.data()}, "is given twice"}};
  for (const auto& one : cases) {
    MemoryFiles files;
    Lines lines;
    const RunState state = Sample(1).state();
    CheckpointWriter writer(files, "ckpt", 0, lines.log);
    const std::string folder = writer.begin(state);
    write_shard(files, folder, 0, 2, std::vector{half(PLAIT_F32, {2, 3}, 0)});
    write_shard(files, folder, 1, 2, std::vector{one.second});
    CHECK(error_of([&] { writer.write_manifest(state, folder, 2); }, PLAIT_ERR_INVALID) ==
          std::string("[checkpoint] tensor 't' ") + one.fault);
  }
}

TEST_CASE("state that is no JSON object is never saved") {
  for (const char* extra : {"[1]", "{\"a\":", "1", ""}) {
    Manifest manifest;
    manifest.state.extra = extra;
    CHECK(error_of([&] { manifest_text(manifest); }, PLAIT_ERR_INTERNAL) ==
          std::string("[checkpoint] the extra state is not a JSON object: '") + extra + "'");
  }
}

TEST_CASE("every file that is written is closed, so that no error of it is lost") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 3, 0);
  const Checkpoint from(files, "ckpt/step-0000000003");
  rewrite_checkpoint(files, from, "again", {}, {});
  export_weights(files, from, "weights", export_by_rules(from, plait::NameRules(), {}), 0,
                 {{"run.toml", "", "again/run.toml"}});
  size_t opened = 0;
  for (size_t i = 0; i < files.trace.size(); ++i) {
    if (!files.trace[i].starts_with("open ")) continue;
    const std::string path = files.trace[i].substr(sizeof "open " - 1);
    CAPTURE(path);
    ++opened;
    size_t at = i + 1;  // writes, then these two
    while (at < files.trace.size() && files.trace[at] == "write " + path) ++at;
    REQUIRE(at + 1 < files.trace.size());
    CHECK(files.trace[at] == "sync " + path);
    CHECK(files.trace[at + 1] == "close " + path);
  }
  CHECK(opened == 11);  // 5 of the save with the hint, 4 of the copy, and 2 of the export
}
