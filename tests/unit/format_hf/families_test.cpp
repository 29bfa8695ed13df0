// What families of Hugging Face have words for, and what a family cannot describe.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "plugins/formats/hf/model.hpp"
#include "plugins/formats/hf/read_config.hpp"
#include "plugins/formats/hf/write_config.hpp"

using namespace plait;
using namespace plait::hf;

namespace {

nlohmann::json golden(const std::string& family) {
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/golden/hf/" + family + "/config.json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

Model read(const nlohmann::json& config) {
  return read_config(support::JsonPlace({"format.hf", "folder", "config.json"}, config, ""));
}

}  // namespace

TEST_CASE("the word of the file is kept where it means the same activation") {
  for (const auto& [family, gated] : {std::pair{"gpt2", false}, {"llama", true}}) {
    nlohmann::json config = golden(family);
    const char* key = read(config).family->keys.activation;
    for (const std::string word :
         {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu"}) {
      if (gated && word == "relu") continue;
      CAPTURE(word);
      config[key] = word;
      const Model model = read(config);
      CHECK(model.mlp == mlp_of(word, gated));
      CHECK(config_json(model, config, "f32")[key] == word);
    }
  }
}

TEST_CASE("an activation that the file has another word for") {
  const struct {
    std::string mlp, usual, word;
  } cases[] = {{"silu", "gelu", "silu"},
               {"swiglu", "gelu", "silu"},
               {"gelu_tanh", "relu", "gelu_new"},
               {"geglu_tanh", "silu", "gelu_new"},
               {"relu", "quick_gelu", "relu"},
               {"geglu", "", "gelu"},
               {"tanh", "silu", ""},
               {"gelu_tanh", "gelu", "gelu_new"}};
  for (const auto& c : cases) {
    CAPTURE(c.mlp);
    CHECK(activation_of(c.mlp, c.usual) == c.word);
  }
  CHECK(mlp_of("relu", true) == "");
  CHECK(mlp_of("quick_gelu", false) == "");
  CHECK(activation_names(true) == "silu, swish, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast");
  CHECK(activation_names(false) == activation_names(true) + ", relu");
}

TEST_CASE("a family describes its own models, and says what it lacks for another") {
  const struct {
    std::string family;
    std::function<void(Model&)> change;
    std::string fault;
  } cases[] = {
      {"llama", [](Model& m) { m.layer_norm = true; },
       "norm is \"layer_norm\", and it has \"rms_norm\""},
      {"gpt2", [](Model& m) { m.layer_norm = false; },
       "norm is \"rms_norm\", and it has \"layer_norm\""},
      {"llama", [](Model& m) { m.learned_positions = true; },
       "learned positions, and it has rotary ones"},
      {"gpt2", [](Model& m) { m.learned_positions = false; },
       "rotary positions, and it has learned ones"},
      {"llama", [](Model& m) { m.qk_norm = "head"; }, "qk_norm is \"head\", and it has \"none\""},
      {"gemma2", [](Model& m) { m.unit_offset = false; }, "unit_offset of norms"},
      {"llama", [](Model& m) { m.mlp = "silu"; }, "mlp is \"silu\""},
      {"gpt2", [](Model& m) { m.mlp = "geglu_tanh"; }, "mlp is \"geglu_tanh\""},
      {"gpt2", [](Model& m) { m.mlp = "tanh"; }, "mlp is \"tanh\""},
      {"gpt2", [](Model& m) { m.mlp = "relu"; }, ""},
      {"mistral", [](Model& m) { m.qkv_bias = true; },
       "qkv_bias is true, and it has no such biases"},
      {"qwen2", [](Model& m) { m.qkv_bias = false; },
       "qkv_bias is false, and it always has these biases"},
      {"qwen2", [](Model& m) { m.out_bias = true; }, "out_bias is true, and it has no such biases"},
      {"llama", [](Model& m) { m.qkv_bias = !m.out_bias; },
       "qkv_bias without out_bias, and it has one key for both"},
      {"llama", [](Model& m) { m.qkv_bias = m.out_bias = !m.out_bias; }, ""},
      {"llama", [](Model& m) { m.mlp_bias = !m.mlp_bias; }, ""},
      {"llama", [](Model& m) { m.blocks[1].window = 8; }, "a window"},
      {"gemma2", [](Model& m) { m.blocks[1].window = m.blocks[0].window + 1; },
       "windows of two sizes"},
      {"gemma2", [](Model& m) { m.blocks[1].window = m.blocks[0].window; }, ""},
      {"mistral", [](Model& m) { m.blocks[1].window = 0; }, "a window in some blocks only"},
      {"qwen3_moe",
       [](Model& m) {
         for (Block& b : m.blocks) b.window = 0;
         m.blocks[1].window = 8;
       },
       "a window in some blocks only"},
      {"llama", [](Model& m) { m.blocks[0].experts = true; }, "experts"},
      {"mixtral", [](Model& m) { m.blocks[0].experts = false; }, "blocks without experts"},
      {"mixtral", [](Model& m) { m.blocks[0].experts = m.blocks[1].experts = false; },
       "no experts"},
      {"qwen3_moe", [](Model& m) { m.blocks[0].experts = !m.blocks[0].experts; }, ""},
      {"mixtral", [](Model& m) { m.norm_top_k = false; }, "norm_top_k is false, and it has true"},
      {"olmoe", [](Model& m) { m.norm_top_k = !m.norm_top_k; }, ""},
      {"llama", [](Model& m) { m.clip_qkv = 1; }, "clip_qkv"},
      {"olmoe", [](Model& m) { m.clip_qkv = 1; }, ""},
      {"llama", [](Model& m) { m.blocks[1].rope.theta += 1; },
       "rotary positions that differ between its blocks"},
      {"gemma3",
       [](Model& m) {
         for (Block& b : m.blocks) b.rope.theta = b.window > 0 ? 2 : 3;
       },
       ""},
      {"gemma3",
       [](Model& m) {
         for (Block& b : m.blocks)
           if (b.window > 0) b.rope.scaling = "linear";
       },
       "rope_scaling in blocks with a window"},
      {"llama",
       [](Model& m) {
         for (Block& b : m.blocks) b.rope.share = 0.5;
       },
       "rope_share"},
      {"phi3",
       [](Model& m) {
         for (Block& b : m.blocks) b.rope.scaling = "linear";
       },
       "rope_scaling is \"linear\", and it has \"longrope\" only"},
      {"llama", [](Model& m) { m.embedding_scale = 2; }, "scale of the embedding"},
      {"llama", [](Model& m) { m.width = 1; }, ""},  // its root is 1, too
      {"gemma2", [](Model& m) { m.embedding_scale = 1; }, "scale of the embedding"},
      {"gemma2", [](Model& m) { m.embedding_scale *= 1 + 1e-8; }, ""},
      {"llama", [](Model& m) { m.attn_scale = 0.5; }, "attn_scale"},
      {"llama", [](Model& m) { m.attn_scale = 1 / std::sqrt(static_cast<double>(m.head_dim)); },
       ""},
      {"gemma2", [](Model& m) { m.attn_scale = 0.5; }, ""},
      {"gemma3", [](Model& m) { m.softcap = 1; }, "softcap"},
      {"llama", [](Model& m) { m.final_softcap = 1; }, "a softcap of the logits"},
      {"gemma3", [](Model& m) { m.final_softcap = 1; }, ""},
      {"llama", [](Model& m) { m.dropout = 0.1; }, "dropout"},
      {"llama", [](Model& m) { m.embedding_dropout = 0.1; }, "dropout behind the embedding"},
      {"phi3", [](Model& m) { m.dropout = m.embedding_dropout = 0.1; }, ""},
      {"gpt2", [](Model& m) { m.kv_heads = m.heads / 2; }, "kv_heads or head_dim"},
      {"gpt2", [](Model& m) { m.head_dim += 1; }, "kv_heads or head_dim"},
      {"llama", [](Model& m) { m.head_dim += 1; }, ""},
  };
  for (const auto& c : cases) {
    Model model = read(golden(c.family));
    CAPTURE(c.family);
    CHECK(mismatch(model, *model.family) == "");
    c.change(model);
    CHECK(mismatch(model, *model.family) == c.fault);
  }
}
