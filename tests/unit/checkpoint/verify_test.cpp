#include "engine/checkpoint/verify.hpp"

#include <plait/base.h>

#include <doctest/doctest.h>

#include "engine/base/error.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;

constexpr const char* kFolder = "ckpt/step-0000000003";

struct Saved {
  MemoryFiles files;
  Lines lines;
  explicit Saved(int32_t ranks = 3) { save_sharded(files, "ckpt", 0, lines.log, Sample(3), ranks); }
  std::string path(const std::string& name) const { return std::string(kFolder) + "/" + name; }
  Verification verify() { return verify_checkpoint(files, kFolder, {}); }
  // Whether exactly one fault contains all parts.
  bool finds(const std::string& one, const std::string& other = "") {
    int found = 0;
    for (const std::string& fault : verify().faults)
      found += fault.find(one) != std::string::npos && fault.find(other) != std::string::npos;
    return found == 1;
  }
  void flip(const std::string& name, size_t from_end) {
    std::string text = files.content(path(name));
    text[text.size() - from_end] ^= 1;
    files.set_content(path(name), text);
  }
  // Changes the text of the manifest, with a matching checksum.
  void edit(const std::string& from, const std::string& to) {
    const std::string manifest = path(kManifestName);
    std::string body(unseal_manifest(files.content(manifest), manifest));
    REQUIRE(body.find(from) != std::string::npos);
    body.replace(body.find(from), from.size(), to);
    files.set_content(manifest, seal_manifest(body));
  }
};

}  // namespace

TEST_CASE("an intact checkpoint has no faults, and every byte is counted") {
  Saved saved;
  uint64_t bytes = 0;
  const Verification done =
      verify_checkpoint(saved.files, kFolder, [&](uint64_t n) { bytes += n; });
  CHECK(done.faults.empty());
  CHECK(done.files == 6);
  CHECK(done.tensors == 3);
  uint64_t on_disk = 0;
  for (const std::string& name : saved.files.list(kFolder))
    if (name.ends_with(".safetensors")) on_disk += saved.files.content(saved.path(name)).size();
  CHECK(done.bytes == on_disk);
  CHECK(bytes == on_disk);
}

TEST_CASE("all faults are listed, not only the first") {
  Saved saved;
  saved.flip("model-00001-of-00003.safetensors", 1);
  saved.flip("model-00002-of-00003.safetensors", 5);
  saved.files.remove(saved.path("optimizer-00001-of-00003.safetensors"));
  const std::string third = saved.path("optimizer-00003-of-00003.safetensors");
  saved.files.set_content(third, saved.files.content(third) + "x");
  const std::string head = saved.path("optimizer-00002-of-00003.safetensors");
  std::string text = saved.files.content(head);
  saved.files.set_content(head, text.replace(text.find("dtype"), 5, "dtypo"));
  const Verification done = saved.verify();
  CHECK(done.faults.size() == 5);  // one of each file
  CHECK(saved.finds("model-00001-of-00003.safetensors: tensor 'fc.weight' does not match"));
  CHECK(saved.finds("model-00002-of-00003.safetensors: tensor 'fc.weight' does not match"));
  CHECK(!saved.finds("model-00001-of-00003.safetensors does not match its checksum"));
  CHECK(saved.finds("optimizer-00001-of-00003.safetensors is missing"));
  CHECK(saved.finds("optimizer-00003-of-00003.safetensors has", "it is damaged"));
  CHECK(saved.finds("optimizer-00002-of-00003.safetensors does not match its checksum"));
  for (const std::string& fault : done.faults)
    CHECK(fault.find("use another checkpoint") == std::string::npos);
}

TEST_CASE("what the manifest says of tensors is checked") {
  {
    Saved saved;
    saved.edit("\"offset\": [\n            33,", "\"offset\": [\n            34,");
    CHECK(saved.finds("tensor 'fc.weight' is given in slices that must be"));
  }
  {
    Saved saved(1);
    saved.edit("\"key\": \"fc.weight\"", "\"key\": \"fc.height\"");
    CHECK(saved.finds("model.safetensors: tensor 'fc.weight' is missing"));
    CHECK(saved.finds("model.safetensors: tensor 'fc.weight' is not in the manifest"));
  }
  {
    Saved saved(1);
    saved.edit("\"file\": \"optimizer.safetensors\"", "\"file\": \"other.safetensors\"");
    CHECK(saved.finds("the manifest names no file 'other.safetensors'", "fc.weight.momentum"));
  }
  {
    Saved saved(1);
    saved.edit("\"dtype\": \"I64\"", "\"dtype\": \"F64\"");
    CHECK(saved.finds("tensor 'step' is I64 (), expected F64 ()"));
  }
}

TEST_CASE("a manifest that cannot be read is the one fault") {
  Saved saved;
  const std::string manifest = saved.path(kManifestName), text = saved.files.content(manifest);
  saved.files.set_content(manifest, text.substr(0, 100));
  CHECK(saved.verify().faults.size() == 1);
  CHECK(saved.finds("does not end in its checksum"));
  saved.files.set_content(manifest, text);
  saved.edit("\"format_version\": 1", "\"format_version\": 2");
  CHECK(error_of([&] { saved.verify(); }, PLAIT_ERR_UNIMPLEMENTED).find("format version 2") !=
        std::string::npos);
  saved.files.remove(manifest);
  CHECK(error_of([&] { saved.verify(); }, PLAIT_ERR_NOT_FOUND).find("no MANIFEST.json") !=
        std::string::npos);
}

TEST_CASE("an index that tells other programs something else is a fault") {
  MemoryFiles files;
  Lines lines;
  const Sample sample(3);
  CheckpointWriter writer(files, "ckpt", 0, lines.log);
  const std::string hidden = writer.begin(sample.state());
  const std::vector<SaveTensor> all = sample.tensors();
  write_shard(files, hidden, 0, 2, std::span(all).first(1));
  write_shard(files, hidden, 1, 2, std::span(all).subspan(1));
  writer.write_manifest(sample.state(), hidden, 2);
  const std::string path = writer.publish(sample.state(), hidden);
  CHECK(verify_checkpoint(files, path, {}).faults.empty());
  const std::string index = path + "/model.safetensors.index.json";
  std::string text = files.content(index);
  files.set_content(index, text.replace(text.find("00001"), 5, "00002"));
  REQUIRE(verify_checkpoint(files, path, {}).faults.size() == 1);
  CHECK(verify_checkpoint(files, path, {}).faults[0].find("does not match the manifest") !=
        std::string::npos);
}

TEST_CASE("a check tells of what it has read every 8 MiB, and at the end of a file") {
  MemoryFiles files;
  Lines lines;
  const std::vector<uint8_t> bytes(17 << 20);
  const std::string path =
      CheckpointWriter(files, "ckpt", 0, lines.log)
          .save(Sample(3).state(),
                std::vector<SaveTensor>{{"t", PLAIT_U8, {17 << 20}, bytes.data()}});
  std::vector<uint64_t> told;
  verify_checkpoint(files, path, [&](uint64_t n) { told.push_back(n); });
  const uint64_t head = files.content(path + "/model.safetensors").size() - bytes.size();
  CHECK(told == std::vector<uint64_t>{head + (8 << 20), 8 << 20, 1 << 20});
}

TEST_CASE("a check can be stopped") {
  Saved saved;
  CHECK(error_of(
            [&] {
              verify_checkpoint(saved.files, kFolder, [](uint64_t) {
                plait::fail(PLAIT_ERR_CANCELLED, "[checkpoint] stopped on request");
              });
            },
            PLAIT_ERR_CANCELLED)
            .find("stopped") != std::string::npos);
}
