// A folder of Hugging Face whose model.safetensors.index.json and, behind a byte 0, config.json are
// arbitrary, beside two files of tensors: an error of its files; or an experiment that is TOML, and
// a place in the files for each parameter.
#include "engine/checkpoint/safetensors.hpp"
#include "tests/fuzz/format_folder.hpp"

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
// Of kConfig; and of a mixtral of two experts.
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
                           {"lm_head.weight", {8, 4}},
                           {"model.layers.0.block_sparse_moe.gate.weight", {2, 4}},
                           {"model.layers.0.block_sparse_moe.experts.0.w1.weight", {6, 4}},
                           {"model.layers.0.block_sparse_moe.experts.0.w2.weight", {4, 6}},
                           {"model.layers.0.block_sparse_moe.experts.0.w3.weight", {6, 4}},
                           {"model.layers.0.block_sparse_moe.experts.1.w1.weight", {6, 4}},
                           {"model.layers.0.block_sparse_moe.experts.1.w2.weight", {4, 6}},
                           {"model.layers.0.block_sparse_moe.experts.1.w3.weight", {6, 4}}};

// Every other tensor is in the second file.
void write_shards(const fuzz::FormatFolder& folder) {
  const std::vector<float> values(32, 1.0f);
  for (size_t shard = 0; shard < 2; ++shard) {
    std::vector<checkpoint::TensorSource> in_file;
    for (size_t i = shard; i < std::size(kTensors); i += 2)
      in_file.push_back({kTensors[i].name, PLAIT_F32, kTensors[i].shape, values.data()});
    checkpoint::write_safetensors(FileSystem::posix(), folder / kShards[shard], in_file);
  }
}

const fuzz::FormatFolder& folder_with_shards() {
  static const fuzz::FormatFolder folder("type = \"hf\"");
  write_shards(folder);
  return folder;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::FormatFolder& folder = folder_with_shards();
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t index_size = std::min(all.find('\0'), size);
  fuzz::write(folder / checkpoint::kWeightsIndexName, all.substr(0, index_size));
  fuzz::write(folder / "config.json", index_size == size ? kConfig : all.substr(index_size + 1));
  folder.check();
  return 0;
}
