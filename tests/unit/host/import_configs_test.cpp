// Keys of config.json that no golden folder has: what they become in the experiment, and in the
// config.json that is exported from it; and layers that no family of the library can describe.
#include <nlohmann/json.hpp>

#include "tests/unit/host/imported.hpp"

using host::content;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kHf = "type = \"hf\"";

// A copy of the golden folder of a family, with keys of its config.json changed; null: left out.
class Imported {
 public:
  explicit Imported(const std::string& family, const json& keys = json::object()) {
    const fs::path golden = fs::path(host::families_golden().path()).parent_path();
    fs::copy(golden / "hf" / family, folder_ / "model");
    json config = json::parse(content(folder_ / "model/config.json"));
    for (const auto& [key, value] : keys.items())
      value.is_null() ? config.erase(key) : (config[key] = value, size_t{1});
    host::write(folder_ / "model/config.json", config.dump());
    error = host::failure_of([&] { host::import_folder(kHf, folder_ / "model", folder_ / "in"); });
  }
  // The experiment on the golden batch, with the weights of the import.
  std::string toml() const {
    std::string text = host::on_golden_batch(folder_ / "in");
    const std::string load = "load = \"";
    return text.replace(text.find(load), load.size(), load + (folder_ / "in/"));
  }
  // config.json as an export writes it that has the layers alone.
  json exported() const {
    const host::Run run(toml(), "", PLAIT_RESUME_NEVER, {"batch.global=2", "batch.micro=2"});
    fs::remove(folder_ / "in/config.json");
    host::export_session(run, toml(), kHf, 0, folder_ / "out");
    return json::parse(content(folder_ / "out/config.json"));
  }

  host::Failure error{};

 private:
  host::TempFolder folder_;
};

json scaled(const char* type, const json& more) {
  json all = {{"rope_type", type}, {"rope_theta", 500.0}};
  all.update(more);
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("scaled angles of a config.json: in the experiment, and exported again") {
  const json lists = {{"short_factor", {1.0, 1.25}}, {"long_factor", {1.5, 3.0}}};
  const auto longrope = [&](json more) {
    more.update(lists);
    more["partial_rotary_factor"] = 0.5;
    return scaled("longrope", more);
  };
  const json original = {{"original_max_position_embeddings", 16}};
  const auto phi3 = [&](const json& rope) {
    json keys = original;
    keys["rope_parameters"] = rope;
    return keys;
  };
  const auto llama = [](const json& rope) { return json{{"rope_parameters", rope}}; };
  const struct {
    const char* family;
    json keys;
    std::vector<const char*> has, lacks;
  } rows[] = {
      {"phi3",
       phi3(longrope(json::object())),
       {"rope_scaling = \"longrope\"", "rope_factor = 4.0", "rope_original = 16",
        "rope_share = 0.5", "rope_short = [1.0, 1.25]", "rope_long = [1.5, 3.0]"},
       {"rope_attention", "rope_low"}},
      {"phi3",
       phi3(longrope({{"factor", 2.0}, {"attention_factor", 1.5}})),
       {"rope_factor = 2.0", "rope_attention = 1.5"},
       {}},
      {"llama",
       llama(scaled("yarn", {{"factor", 4.0}})),
       {"rope_scaling = \"yarn\"", "rope_factor = 4.0", "rope_original = 64"},
       {"rope_beta_fast", "rope_beta_slow", "rope_mscale", "rope_attention"}},
      {"llama",
       llama(scaled("yarn", {{"factor", 4.0},
                             {"original_max_position_embeddings", 16},
                             {"attention_factor", 0.75},
                             {"beta_fast", 16.0},
                             {"beta_slow", 2.0},
                             {"mscale", 0.5},
                             {"mscale_all_dim", 0.25}})),
       {"rope_original = 16", "rope_attention = 0.75", "rope_beta_fast = 16.0",
        "rope_beta_slow = 2.0", "rope_mscale = 0.5", "rope_mscale_all_dim = 0.25"},
       {}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.keys.dump());
    const Imported imported(row.family, row.keys);
    CHECK_MESSAGE(imported.error.code == PLAIT_OK, imported.error.text);
    if (imported.error.code != PLAIT_OK) continue;
    const std::string toml = imported.toml();
    CAPTURE(toml);
    for (const char* part : row.has) {
      CAPTURE(part);
      CHECK(toml.find("\n" + std::string(part)) != std::string::npos);
    }
    for (const char* part : row.lacks) {
      CAPTURE(part);
      CHECK(toml.find("\n" + std::string(part)) == std::string::npos);
    }
    const json rope = imported.exported().at("rope_parameters");
    for (const auto& [key, value] : row.keys.at("rope_parameters").items()) {
      CAPTURE(key);
      CHECK(rope.value(key, json("missing")) == value);
    }
  }
}

TEST_CASE("what is wrong in keys of config.json that no golden folder has") {
  const json longrope = scaled("longrope", {{"partial_rotary_factor", 0.5},
                                            {"short_factor", {1.0, 1.25, 1.5}},
                                            {"long_factor", {1.5, 3.0}}});
  const struct {
    const char* family;
    json keys;
    const char* says;
    uint32_t code = PLAIT_ERR_DATA;
  } rows[] = {
      {"phi3",
       {{"rope_parameters", longrope}},
       "key 'rope_parameters.short_factor': it has 3 numbers, expected 2, one for each pair"},
      {"llama",
       {{"rope_parameters", scaled("yarn", {{"factor", 4.0}, {"truncate", false}})}},
       "key 'rope_parameters.truncate': found false, which this engine does not compute",
       PLAIT_ERR_UNIMPLEMENTED},
      {"llama",
       {{"rope_parameters", scaled("yarn", {{"factor", 4.0}, {"mscale", -1.0}})}},
       "key 'rope_parameters.mscale': found -1"},
      {"llama",
       {{"head_dim", nullptr}, {"num_attention_heads", 6}, {"num_key_value_heads", 2}},
       "key 'num_attention_heads': there are 6 for a width of 32, expected a divisor"},
      {"llama",
       {{"attention_dropout", 1.0}},
       "key 'attention_dropout': found 1.0, expected a number from 0 to below 1"},
      {"llama", {{"attention_dropout", -0.5}}, "expected a number from 0 to below 1"},
  };
  for (const auto& row : rows) {
    const Imported imported(row.family, row.keys);
    CHECK_MESSAGE(imported.error.text.find(row.says) != std::string::npos, imported.error.text);
    CHECK(imported.error.code == row.code);
  }
}

TEST_CASE("gemma2 without types of layers: every second block has the window, from the first on") {
  const Imported imported("gemma2", {{"layer_types", nullptr}});
  REQUIRE(imported.error.code == PLAIT_OK);
  const std::string toml = imported.toml();
  const size_t window = toml.find("\nwindow = 8");
  CHECK(window != std::string::npos);
  CHECK(toml.find("\nwindow = ", window + 1) == std::string::npos);
  const json back = imported.exported();
  CHECK(back.at("layer_types") == json{"sliding_attention", "full_attention"});
}

TEST_CASE("mistral reads no types of layers: all blocks have its window") {
  const Imported imported(
      "mistral", {{"sliding_window", 8}, {"layer_types", {"full_attention", "full_attention"}}});
  REQUIRE(imported.error.code == PLAIT_OK);
  CHECK(imported.toml().find("\nwindow = 8") != std::string::npos);
}

TEST_SUITE_END();
