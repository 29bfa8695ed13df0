#include "engine/checkpoint/rewrite.hpp"

#include <plait/base.h>

#include <doctest/doctest.h>

#include <map>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/checkpoint/weights.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"
#include "tests/unit/checkpoint/streamed.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;
using Names = std::vector<std::string>;

constexpr const char* kFrom = "ckpt/step-0000000003";

}  // namespace

TEST_CASE("a stream ends with an error where a slice is damaged") {
  MemoryFiles files;
  Lines lines;
  save_sharded(files, "ckpt", 0, lines.log, Sample(3), 2);
  const std::string path = std::string(kFrom) + "/model-00002-of-00002.safetensors";
  std::string text = files.content(path);
  text.back() ^= 1;
  files.set_content(path, text);
  const Checkpoint c(files, kFrom, Checkpoint::Verify::kLater);
  CHECK(error_of([&] { streamed(c, "fc.weight"); }, PLAIT_ERR_DATA)
            .find("model-00002-of-00002.safetensors: tensor 'fc.weight' does not match its "
                  "checksum") != std::string::npos);
  CHECK(error_of([&] { rewrite_checkpoint(files, c, "out", {}, {}); }, PLAIT_ERR_DATA)
            .find("'ckpt/step-0000000003' could not be rewritten to 'out'") != std::string::npos);
  CHECK(files.list(".") == Names{"ckpt"});
}

TEST_CASE("rewritten, a checkpoint of several ranks has the files of one") {
  MemoryFiles files;
  Lines lines;
  const Sample sample(3);
  save_sharded(files, "ckpt", 0, lines.log, sample, 3);
  CheckpointWriter(files, "one", 0, lines.log).save(sample.state(), sample.tensors());
  Rewritten done;
  rewrite_checkpoint(files, Checkpoint(files, kFrom), "away/from/here", {}, {},
                     [&](const Rewritten& told) {
                       CHECK_FALSE(files.exists("away/from/here"));
                       done = told;
                     });
  CHECK(done.tensors == 3);
  CHECK(done.bytes == 2 * 2800 + 8);
  CHECK(done.files == Names{"away/from/here/model.safetensors",
                            "away/from/here/optimizer.safetensors", "away/from/here/run.toml",
                            "away/from/here/MANIFEST.json"});
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "run.toml"})
    CHECK(files.content(std::string("away/from/here/") + name) ==
          files.content(std::string("one/step-0000000003/") + name));
  const Checkpoint made(files, "away/from/here");
  CHECK(sample.equals(made));
  CHECK(verify_checkpoint(files, "away/from/here", {}).faults.empty());
  // Whatever a run continues with is the same.
  Manifest was = Checkpoint(files, kFrom).manifest(), is = made.manifest();
  was.files = is.files = {};
  was.tensors = is.tensors = {};
  CHECK(manifest_text(was) == manifest_text(is));
}

TEST_CASE("rewritten, a checkpoint without weights has the file of weights, too") {
  MemoryFiles files;
  Lines lines;
  const Sample sample(3);
  std::vector<SaveTensor> states = sample.tensors();
  states.erase(states.begin());
  CheckpointWriter(files, "ckpt", 0, lines.log).save(sample.state(), states);
  rewrite_checkpoint(files, Checkpoint(files, kFrom), "out", {}, {});
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    CAPTURE(name);
    CHECK(files.content(std::string("out/") + name) ==
          files.content(std::string(kFrom) + "/" + name));
  }
  CHECK(verify_checkpoint(files, "out", {}).faults.empty());
}

TEST_CASE("rewritten into several files, all of them hold something") {
  MemoryFiles files;
  Lines lines;
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<SaveTensor> tensors;
  for (int i = 0; i < 9; ++i)
    tensors.push_back({"w" + std::to_string(i), PLAIT_F32, {i == 4 ? 64 : 8}, values.data()});
  const std::string path =
      CheckpointWriter(files, "ckpt", 0, lines.log).save(Sample(3).state(), tensors);
  const Checkpoint from(files, path);
  for (const uint32_t shards : {1u, 2u, 3u, 8u, 9u, 100u}) {
    const std::string out = "by" + std::to_string(shards);
    rewrite_checkpoint(files, from, out, {.shards = shards}, {});
    const Checkpoint made(files, out);
    CHECK(made.manifest().files.size() == std::min(shards, 9u));
    CHECK(made.tensors().size() == 9);
    CHECK(verify_checkpoint(files, out, {}).faults.empty());
    CHECK(files.is_file(out + "/" + kWeightsIndexName) == (shards > 1));
    for (const FileRecord& f : made.manifest().files) CHECK(f.size > 100);
    if (shards > 1) CHECK(Weights(files, out).names().size() == 9);
  }
  // How many tensors are in each file.
  const auto counts = [&](const std::string& out, const RewriteSettings& settings) {
    rewrite_checkpoint(files, from, out, settings, {});
    std::map<std::string, int> of;
    const Checkpoint made(files, out);
    for (const TensorRecord& t : made.tensors()) ++of[t.slices[0].file];
    std::vector<int> all;
    for (const auto& [file, n] : of) all.push_back(n);
    return all;
  };
  CHECK(counts("small", {.max_shard_bytes = 64}) == std::vector<int>{2, 2, 1, 2, 2});
  CHECK(counts("two", {.shards = 2}) == std::vector<int>{5, 4});  // of 384 and 128 bytes
  CHECK(counts("three", {.shards = 3}) == std::vector<int>{5, 1, 3});
  CHECK(error_of(
            [&] {
              rewrite_checkpoint(files, from, "x", {2, 64}, {});
            },
            PLAIT_ERR_INVALID)
            .find("both given") != std::string::npos);
  CHECK(error_of([&] { rewrite_checkpoint(files, from, "small", {}, {}); }, PLAIT_ERR_INVALID)
            .find("'small' exists") != std::string::npos);
}

TEST_CASE("rewritten without the optimizer, parameters are left") {
  MemoryFiles files;
  Lines lines;
  save_sharded(files, "ckpt", 0, lines.log, Sample(3), 2);
  uint64_t told = 0;
  rewrite_checkpoint(files, Checkpoint(files, kFrom), "out", {.optimizer = false},
                     [&](uint64_t n) { told += n; });
  CHECK(files.list("out") == Names{"MANIFEST.json", "model.safetensors", "run.toml"});
  CHECK(Checkpoint(files, "out").tensors().size() == 1);
  CHECK(told == 2800);
  // It says so, and so does what is made of it.
  CHECK(Checkpoint(files, "out").state().states_left_out);
  rewrite_checkpoint(files, Checkpoint(files, "out"), "again", {}, {});
  CHECK(Checkpoint(files, "again").state().states_left_out);
  rewrite_checkpoint(files, Checkpoint(files, kFrom), "whole", {}, {});
  CHECK_FALSE(Checkpoint(files, "whole").state().states_left_out);
}

TEST_CASE(
    "rewriting that fails or is killed at any call leaves nothing that looks like a checkpoint") {
  for (const bool killed : {false, true})
    for (int64_t n = 0;; ++n) {
      MemoryFiles files;
      Lines lines;
      save_sharded(files, "ckpt", 0, lines.log, Sample(3), 2);
      const Checkpoint from(files, kFrom);
      files.calls = 0;
      (killed ? files.kill_at : files.fail_at) = n;
      bool done = true;
      try {
        rewrite_checkpoint(files, from, "a/out", {}, {});
      } catch (const plait::Error& e) {
        CHECK(e.code() == PLAIT_ERR_IO);
        done = false;
      } catch (const Killed&) {
        done = false;
      }
      const bool clean = files.calls <= n;
      files.kill_at = files.fail_at = -1;
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const auto after = files.after_power_cut(seed);
        // Where the last sync failed, the name may come back, but without a manifest.
        const bool there = after->exists("a/out/MANIFEST.json");
        if (there) CHECK(Sample(3).equals(Checkpoint(*after, "a/out")));
        if (done) CHECK(there);
      }
      if (!killed && !done) CHECK_FALSE(files.exists("a/out"));
      if (clean) break;
    }
}
