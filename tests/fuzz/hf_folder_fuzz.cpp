// A folder of Hugging Face whose model.safetensors.index.json and, behind a byte 0, config.json are
// arbitrary, beside two files of tensors: an error of its files; or an experiment that is TOML, and
// a place in the files for each parameter.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "engine/base/error.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/document.hpp"
#include "engine/format/format.hpp"
#include "tests/support/folder.hpp"

extern "C" const plait_plugin* plait_plugin_v1(uint32_t host_abi);

using namespace plait;

namespace {

constexpr std::string_view kConfig =
    R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 6})";
constexpr const char* kShards[] = {"a.safetensors", "b.safetensors"};

struct Tensor {
  const char* name;
  std::vector<int64_t> shape;
};
// Of kConfig.
const Tensor kTensors[] = {{"model.embed_tokens.weight", {8, 4}},
                           {"model.layers.0.input_layernorm.weight", {4}},
                           {"model.layers.0.post_attention_layernorm.weight", {4}},
                           {"model.layers.0.self_attn.q_proj.weight", {4, 4}},
                           {"model.layers.0.self_attn.k_proj.weight", {2, 4}},
                           {"model.layers.0.self_attn.v_proj.weight", {2, 4}},
                           {"model.layers.0.mlp.gate_proj.weight", {6, 4}},
                           {"model.layers.0.mlp.up_proj.weight", {6, 4}},
                           {"model.layers.0.self_attn.o_proj.weight", {4, 4}},
                           {"model.layers.0.mlp.down_proj.weight", {4, 6}},
                           {"model.norm.weight", {4}},
                           {"lm_head.weight", {8, 4}}};

// Every other tensor is in the second file.
void write_shards(const test::Folder& folder) {
  const std::vector<float> values(32, 1.0f);
  for (size_t shard = 0; shard < 2; ++shard) {
    std::vector<checkpoint::TensorSource> in_file;
    for (size_t i = shard; i < std::size(kTensors); i += 2)
      in_file.push_back({kTensors[i].name, PLAIT_F32, kTensors[i].shape, values.data()});
    checkpoint::write_safetensors(FileSystem::posix(), folder / kShards[shard], in_file);
  }
}

struct Bench {
  test::Folder folder;
  Log log{[](uint32_t, std::string_view) {}, PLAIT_LOG_ERROR};
  std::shared_ptr<plugin::Registry> registry =
      std::make_shared<plugin::Registry>(log, FileSystem::posix(), plugin::Extensions{});
  config::ItemConfig item;

  Bench() {
    registry->load_static(*plait_plugin_v1(PLAIT_ABI_VERSION));
    config::Problems problems;
    const auto document = config::Document::parse("type = \"hf\"", "format", problems);
    item = config::load_one_item(PLAIT_KIND_FORMAT, document, *registry, {}, problems);
    problems.raise_if_any();
    write_shards(folder);
  }
  void write(const char* name, std::string_view content) const {
    std::filesystem::remove(folder / name);  // to overwrite a file waits for the disk
    std::ofstream(folder / name, std::ios::binary) << content;
  }
};

void check(const format::Description& made, const std::string& folder) {
  const auto experiment = std::find_if(made.files.begin(), made.files.end(), [](const auto& f) {
    return f.name == format::kExperimentName;
  });
  config::Problems problems;
  config::Document::parse(experiment->content, "experiment.toml", problems);
  if (!problems.empty()) std::abort();
  const checkpoint::Weights weights(FileSystem::posix(), folder, made.map, format::kMapName);
  for (const auto& [parameter, place] : made.map.parameters)
    if (!weights.find(parameter).entry) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Bench bench;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t index_size = std::min(all.find('\0'), size);
  bench.write(checkpoint::kWeightsIndexName, all.substr(0, index_size));
  bench.write("config.json", index_size == size ? kConfig : all.substr(index_size + 1));
  try {
    check(format::Format(bench.item, bench.registry).read(bench.folder.path()),
          bench.folder.path());
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) std::abort();
  }
  return 0;
}
