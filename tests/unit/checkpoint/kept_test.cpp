// The checkpoints of each format that tests/golden/checkpoints keeps.
#include <plait/base.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/verify.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::FileSystem;

const std::string kKept = PLAIT_SOURCE_FOLDER "/tests/golden/checkpoints";
const std::string kFuture = kKept + "/future/MANIFEST.json";

// The numbers of the folders v1, v2, …
std::vector<int64_t> kept_versions() {
  std::vector<int64_t> all;
  for (const std::string& name : FileSystem::posix().list(kKept))
    if (name.starts_with("v")) all.push_back(std::atoll(name.c_str() + 1));
  std::sort(all.begin(), all.end());
  return all;
}

// The manifest of an engine that is far ahead.
std::string future_manifest() {
  const std::string path = kKept + "/v1/one/MANIFEST.json";
  const std::string text = FileSystem::posix().read_all(path, kMaxManifestBytes);
  std::string body(unseal_manifest(text, path));
  const std::string version = "\"format_version\": 1";
  return seal_manifest(
      body.replace(body.find(version), version.size(), "\"format_version\": 1000"));
}

}  // namespace

TEST_CASE("each format that was written is kept, the newest too") {
  const std::vector<int64_t> versions = kept_versions();
  for (int64_t v = 1; v <= kFormatVersion; ++v)
    CHECK(std::find(versions.begin(), versions.end(), v) != versions.end());
  CHECK(versions.back() == kFormatVersion);
  for (const int64_t v : versions)
    for (const char* layout : {"one", "grid"}) {
      const std::string folder = kKept + "/v" + std::to_string(v) + "/" + layout;
      CAPTURE(folder);
      CHECK(verify_checkpoint(FileSystem::posix(), folder, {}).faults.empty());
      const Checkpoint c(FileSystem::posix(), folder);
      CHECK(c.manifest().format_version == v);
      CHECK(c.state().step == 5);
      CHECK(c.state().samples == 80);
      CHECK(c.state().seed == 42);
      CHECK(c.state().random_step == 5);
      CHECK(c.state().cursors == std::map<std::string, int64_t>{{"train", 5}});
      CHECK(c.state().world.data == (layout == std::string("grid") ? 2 : 1));
      CHECK_FALSE(c.state().lineage.empty());
      CHECK(best_value(c.state()).metric == "accuracy");
      CHECK(c.tensors().size() == 12);
      CHECK(c.state().settings.at("model.optimizer.type") == "\"adamw\"");
    }
}

TEST_CASE("a manifest of a format far ahead is intact, and refused") {
  if (std::getenv("PLAIT_UPDATE_FUTURE")) FileSystem::posix().replace(kFuture, future_manifest());
  const std::string text = FileSystem::posix().read_all(kFuture, kMaxManifestBytes);
  CHECK(text == future_manifest());
  CHECK(plait::test::error_of([&] { parse_manifest(text, "m"); }, PLAIT_ERR_UNIMPLEMENTED) ==
        "[checkpoint] m has format version 1000, this engine reads up to " +
            std::to_string(kFormatVersion) + "; use the engine that wrote it or a newer one");
}
