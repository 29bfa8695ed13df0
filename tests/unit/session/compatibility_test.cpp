// What a session tells of a checkpoint that was saved with other settings.
#include "engine/session/compatibility.hpp"

#include "engine/base/text.hpp"
#include "engine/session/result_config.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

struct Told {
  Told() : plan(make_plan({}, FileSystem::posix(), 0, 1, log)) { lines.clear(); }
  std::vector<std::string> of(const checkpoint::RunState& saved) {
    lines.clear();
    session::warn_of_differences(*plan, saved, "here/ckpt", log);
    return lines;
  }
  std::vector<std::string> lines;
  Log log{[this](uint32_t, std::string_view text) { lines.emplace_back(text); }};
  std::unique_ptr<const plan::Plan> plan;
};

const std::string kBegin = "[session] resuming with settings that differ from 'here/ckpt': ";

}  // namespace

TEST_CASE("settings that differ from the ones in a checkpoint are told, the first twelve") {
  Told told;
  checkpoint::RunState saved;
  saved.settings = session::result_config(*told.plan);
  saved.seed = 77;  // is among the settings
  CHECK(told.of(saved).empty());

  const std::string seed = saved.settings.at("run.seed");
  saved.settings["run.seed"] = "77";
  CHECK(told.of(saved) == std::vector<std::string>{kBegin + "run.seed was 77, is " + seed});
  saved.settings.erase("run.seed");
  CHECK(told.of(saved) == std::vector<std::string>{kBegin + "run.seed was not set, is " + seed});
  saved.settings["run.seed"] = seed;

  std::string lines;
  for (int n = 0; n < 12; ++n) {
    const std::string key = strf("a.key%02d", n);
    saved.settings[key] = "1";
    lines += (n > 0 ? "; " : "") + key + " was 1, is not set any more";
  }
  CHECK(told.of(saved) == std::vector<std::string>{kBegin + lines});
  saved.settings["a.key12"] = "1";
  CHECK(told.of(saved) == std::vector<std::string>{kBegin + lines + "; and 1 more"});
  saved.settings["a.key13"] = "1";
  CHECK(told.of(saved) == std::vector<std::string>{kBegin + lines + "; and 2 more"});
}

TEST_CASE("of a checkpoint without settings the seed is compared") {
  Told told;
  checkpoint::RunState saved;
  saved.seed = static_cast<uint64_t>(told.plan->experiment.run.seed);
  CHECK(told.of(saved).empty());
  saved.seed += 5;
  CHECK(told.of(saved) ==
        std::vector<std::string>{kBegin + strf("run.seed was %lu, is %lu",
                                               static_cast<unsigned long>(saved.seed),
                                               static_cast<unsigned long>(saved.seed - 5))});
}

TEST_CASE("types that parameters are converted from are told once each, with their number") {
  std::vector<std::pair<uint32_t, std::string>> told;
  Log log([&](uint32_t level, std::string_view text) { told.emplace_back(level, text); });
  session::Conversions all;
  all.log(log, "model.safetensors");
  all.add(PLAIT_F32, PLAIT_F32);
  all.log(log, "model.safetensors");
  CHECK(told.empty());
  all.add(PLAIT_F32, PLAIT_BF16);
  all.add(PLAIT_F32, PLAIT_BF16);
  all.add(PLAIT_BF16, PLAIT_F32);
  all.log(log, "model.safetensors");
  REQUIRE(told.size() == 2);
  for (const auto& [level, text] : told) {
    CAPTURE(text);
    const bool rounds = text.find("2 parameters") != std::string::npos;
    CHECK(level == (rounds ? PLAIT_LOG_WARN : PLAIT_LOG_INFO));
    CHECK((rounds || text.find("1 parameter") != std::string::npos));
    CHECK(text.find("model.safetensors") != std::string::npos);
  }
}
