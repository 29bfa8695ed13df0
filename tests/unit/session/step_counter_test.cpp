// The count of updates on the device is exact where f32 has no odd numbers any more.
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "engine/checkpoint/manifest.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

session::Settings without_files() {
  session::Settings s;
  s.no_files = true;
  return s;
}

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Says in a checkpoint that it was saved after so many updates.
void set_updates(const std::string& checkpoint, int64_t updates) {
  const std::string path = checkpoint + "/" + checkpoint::kManifestName;
  checkpoint::Manifest manifest = checkpoint::parse_manifest(content(path), path);
  std::string& extra = manifest.state.extra;
  const std::string before = extra;
  const size_t key = extra.find("\"updates\":");
  REQUIRE(key != std::string::npos);
  const size_t from = extra.find_first_of("0123456789", key);
  extra.replace(from, extra.find_first_not_of("0123456789", from) - from, std::to_string(updates));
  REQUIRE(extra != before);
  std::ofstream(path) << checkpoint::manifest_text(manifest);
}

double counted(const Rank& one) {
  double updates = 0;
  std::memcpy(&updates, one.session->address(one.plan->step.at(0)), sizeof updates);
  return updates;
}

}  // namespace

TEST_CASE("the device counts updates beyond 2^24 and 2^52, from a checkpoint on") {
  HookedFiles files;
  for (const int64_t updates : {(int64_t{1} << 24) - 2, (int64_t{1} << 52) - 2}) {
    const Folder folder;
    std::string path;
    {
      Rank one({"run.device=reference"}, files, without_files());
      for (int i = 0; i < 3; ++i) one.session->step();
      CHECK(counted(one) == 3);
      path = one.session->save(folder / "saved");
    }
    set_updates(path, updates);
    std::vector<double> losses[2];
    for (const bool async : {false, true}) {
      Rank one({async ? "run.device=async" : "run.device=reference"}, files, without_files());
      one.session->load(path);
      for (int i = 1; i <= 5; ++i) {
        losses[async].push_back(one.session->step().loss);
        if (!async) CHECK(counted(one) == static_cast<double>(updates + i));
      }
      // AdamW divides by 1 - beta^step.
      for (const plan::Parameter& p : one.plan->parameters) {
        std::vector<float> values(static_cast<size_t>(program::elements(p.shape)));
        one.session->read(p.name, values.data(), values.size() * sizeof(float));
        for (const float v : values) CHECK(std::isfinite(v));
      }
      const std::string again = one.session->save(folder / (async ? "async" : "reference"));
      CHECK(content(again + "/MANIFEST.json").find(std::to_string(updates + 5)) !=
            std::string::npos);
    }
    CHECK(losses[0] == losses[1]);
  }
}
