// Whole plans of small experiments: what is told while they are made, their figures, and their
// programs. The first line of plans/NAME.toml is "# rank R: PROGRAM, PROGRAM"; plans/NAME.txt is
// what is expected. PLAIT_UPDATE_PLANS=1 unit_plan writes these anew: read what has changed, line
// by line.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/base/log.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/plan/plan_text.hpp"
#include "tests/unit/program/text_fixture.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
namespace fs = std::filesystem;

const fs::path kFolder = fs::path(PLAIT_SOURCE_FOLDER) / "tests/unit/plan/plans";

std::string content(const fs::path& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

const std::shared_ptr<plugin::Registry>& plugins() {
  static const auto kPlugins = test::load_plugins(
      {"device-reference", "layer-dense", "layer-activation", "layer-dropout", "layer-embedding",
       "layer-norm", "layer-shape", "layer-transformer", "layer-loss", "layer-metric",
       "data-synthetic", "optimizer-adamw", "optimizer-lamb", "optimizer-sgd", "peft-adalora",
       "peft-bitfit", "peft-lora"});
  return kPlugins;
}

std::string found_for(const std::string& toml) {
  const std::string head = toml.substr(0, toml.find('\n'));
  const size_t colon = head.find(": ");
  REQUIRE(head.rfind("# rank ", 0) == 0);
  REQUIRE(colon != std::string::npos);
  std::vector<std::string> programs;
  for (const std::string& name : split(head.substr(colon + 2), ','))
    programs.emplace_back(trim(name));
  std::string text;
  Log log{[&](uint32_t level, std::string_view line) {
    if (level >= PLAIT_LOG_INFO) text += "told: " + std::string(line) + "\n";
  }};
  const auto plan =
      test::plan_of(toml, {}, test::context_of(plugins(), std::stoi(head.substr(7)), &log));
  return text + test::figures_text(*plan) + test::programs_text(*plan, programs);
}

TEST_CASE("whole plans are what is expected") {
  std::vector<fs::path> files, texts;
  for (const auto& file : fs::directory_iterator(kFolder))
    (file.path().extension() == ".toml" ? files : texts).push_back(file.path());
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  for (const fs::path& text : texts) {
    CAPTURE(text.filename().string());
    CHECK(text.extension() == ".txt");
    CHECK(fs::exists(fs::path(text).replace_extension(".toml")));
  }
  for (const fs::path& file : files) {
    CAPTURE(file.filename().string());
    const std::string found = found_for(content(file));
    fs::path text = file;
    text.replace_extension(".txt");
    if (std::getenv("PLAIT_UPDATE_PLANS")) {
      std::ofstream(text) << found;
      FAIL_CHECK("written: " << text.filename().string());
    }
    const std::string diff = program::line_diff(content(text), found);
    CHECK_MESSAGE(diff.empty(), "if that is meant: PLAIT_UPDATE_PLANS=1 unit_plan\n", diff);
  }
}

}  // namespace
