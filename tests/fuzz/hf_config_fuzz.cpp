// A config.json of Hugging Face: an error; or an experiment that is TOML, a place for each
// parameter, and a config.json from which the same experiment is made again.
#include <cstdio>
#include <cstdlib>

#include "engine/config/document.hpp"
#include "plugins/formats/hf/places.hpp"
#include "plugins/formats/hf/read_config.hpp"
#include "plugins/formats/hf/write_config.hpp"
#include "plugins/formats/hf/write_toml.hpp"

using namespace plait;

namespace {

constexpr int64_t kMostBlocks = 50, kMostExperts = 200;  // for time

// Without the scale that config.json holds as the inverse of its square, the factor that it holds
// for all blocks together, and the lengths, which have a default there.
std::string experiment_of(const hf::Model& model) {
  std::string text = hf::experiment_toml(model, "/models/\"x\"\n[run]\n");
  for (const char* key : {"attn_scale = ", "\nbalance = ", "\nlength = ", "\ncontext_length = "})
    for (size_t at; (at = text.find(key)) != std::string::npos;)
      text.erase(at, text.find('\n', at + 1) - at);
  return text;
}

void check_places(const hf::Model& model) {
  plait_format_output out{};
  out.struct_size = sizeof out;
  out.place = [](void*, const plait_tensor_place* place) -> uint32_t {
    if (place->row < 0 || place->n_rows < 0) std::abort();
    return 0;
  };
  out.slices = [](void*, const plait_tensor_slices* slices) -> uint32_t {
    if (slices->n_tensors == 0) std::abort();
    return 0;
  };
  hf::write_places(model, "model.", FormatOutput(&out));
}

hf::Model read(const std::string& text) {
  const support::SourceFile file{"format.hf", "folder", "config.json"};
  const nlohmann::json json =
      support::parse_json(file, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return hf::read_config(support::JsonPlace(file, json, ""));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hf::Model model;
  try {
    model = read({reinterpret_cast<const char*>(data), size});
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) std::abort();
    return 0;
  }
  if (model.blocks.size() > kMostBlocks || model.experts > kMostExperts) return 0;
  const std::string toml = experiment_of(model);
  config::Problems problems;
  config::Document::parse(toml, "experiment.toml", problems);
  if (!problems.empty()) std::abort();
  check_places(model);
  const auto config = hf::config_json(model, nlohmann::ordered_json::object(), "bf16");
  const std::string again = experiment_of(read(config.dump()));
  if (again != toml) {
    std::fprintf(stderr, "%s\n---\n%s\n", toml.c_str(), again.c_str());
    std::abort();
  }
  return 0;
}
