// Experiments of the tiny transformers in tests/golden/families.safetensors, one of each family.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace host {

struct Family {
  const char* name;
  std::string embedding, blocks, norm, head;
};

inline const std::string kTied = R"(, tie = {weight = "model.embed.weight"})";
inline const std::string kRms =
    R"(norm = "rms_norm", eps = 1e-4, ffn = 48, rope = "half", rope_theta = 500.0)";
inline const std::string kLlama = "heads = 4, kv_heads = 2, mlp = \"swiglu\", " + kRms;
inline const std::string kGemma =
    R"(heads = 4, kv_heads = 2, head_dim = 16, ffn = 48, mlp = "geglu_tanh", norm = "rms_norm", )"
    R"(eps = 1e-4, unit_offset = true, norm_at = "both", rope = "half", )"
    R"(attn_scale = 0.2041241452319315)";  // 1/sqrt(24)
inline const std::string kGemmaScale = ", scale = 5.656854249492381";

inline std::vector<Family> families() {
  const auto blocks = [](const std::string& options) {
    return R"({type = "decoder_block", name = "h", repeat = 2, )" + options + "},";
  };
  const auto pair = [](const std::string& first, const std::string& second) {
    return R"({type = "decoder_block", name = "h0", )" + first + "}," +
           R"({type = "decoder_block", name = "h1", )" + second + "},";
  };
  const std::string rms = R"({type = "rms_norm", name = "norm", eps = 1e-4},)";
  const std::string gemma_norm =
      R"({type = "rms_norm", name = "norm", eps = 1e-4, unit_offset = true},)";
  return {
      {"gpt2", "",
       R"({type = "positions", name = "positions", length = 64},)" +
           blocks("heads = 4, bias = true, eps = 1e-4"),
       R"({type = "layer_norm", name = "norm", eps = 1e-4},)", kTied},
      {"llama", "",
       blocks(kLlama + R"(, rope_scaling = "llama3", rope_factor = 8.0, rope_original = 16)"), rms,
       ""},
      {"mistral", "", blocks(kLlama + ", head_dim = 16, window = 8"), rms, ""},
      {"qwen2", "", blocks(kLlama + ", qkv_bias = true"), rms, kTied},
      {"qwen3", "", blocks(kLlama + R"(, head_dim = 16, qk_norm = "head")"), rms, ""},
      {"gemma2", kGemmaScale,
       pair(kGemma + ", rope_theta = 500.0, softcap = 2.0, window = 8",
            kGemma + ", rope_theta = 500.0, softcap = 2.0"),
       gemma_norm, kTied + "}, {type = \"softcap\", cap = 5.0"},
      {"gemma3", kGemmaScale,
       pair(kGemma + R"(, rope_theta = 500.0, qk_norm = "head", window = 8)",
            kGemma + R"(, rope_theta = 5000.0, qk_norm = "head")"),
       gemma_norm, kTied},
      {"phi3", "", blocks(kLlama + ", rope_share = 0.5"), rms, ""},
      {"olmo2", "", blocks(kLlama + R"(, norm_at = "post", qk_norm = "all")"), rms, ""},
  };
}

// Models whose angles are others in samples of more than `original` tokens: 24 and 23, which
// samples of 24 tokens do not exceed, and do.
inline std::vector<Family> families_by_length() {
  std::vector<Family> all;
  for (const char* name : {"phi3_short", "phi3_long"}) {
    const std::string original = name == std::string("phi3_short") ? "24" : "23";
    all.push_back({name, "",
                   R"({type = "decoder_block", name = "h", repeat = 2, )" + kLlama +
                       R"(, rope_scaling = "longrope", rope_factor = 4.0, rope_original = )" +
                       original + R"(, rope_short = [1.0, 1.25, 1.5, 1.75], )" +
                       R"(rope_long = [1.5, 3.0, 5.0, 8.0]},)",
                   R"({type = "rms_norm", name = "norm", eps = 1e-4},)", ""});
  }
  return all;
}
// Models of experts. In a lower precision a token may get other experts than in the library.
inline std::vector<Family> families_of_experts() {
  const auto family = [](const char* name, const std::string& options) {
    return Family{name, "",
                  R"({type = "decoder_block", name = "h", repeat = 2, mlp = "swiglu", heads = 4, )"
                  R"(experts = 4, norm = "rms_norm", eps = 1e-4, rope = "half", )"
                  R"(rope_theta = 500.0, )" +
                      options + "},",
                  R"({type = "rms_norm", name = "norm", eps = 1e-4},)", ""};
  };
  return {family("mixtral", "kv_heads = 2, ffn = 48"),
          family("qwen3_moe", R"(kv_heads = 2, head_dim = 16, qk_norm = "head", ffn = 24)"),
          family("olmoe", R"(qk_norm = "all", ffn = 48, norm_top_k = false)")};
}
inline std::vector<Family> all_families() {
  std::vector<Family> all = families();
  for (const std::vector<Family>& more : {families_by_length(), families_of_experts()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Samples of 24 of 96 ids, in batches of 2.
inline std::string experiment(const Family& f, const std::string& file, const std::string& device,
                              const char* compute) {
  return "[run]\ndevice = \"" + device + "\"\n[precision]\ncompute = \"" + compute +
         "\"\n[batch]\nglobal = 2\n[optimizer]\ntype = \"sgd\"\nlearning_rate = 1.0\n" +
         "[loss]\ntype = \"cross_entropy\"\n[data.train]\ntype = \"safetensors\"\npath = \"" +
         file + "\"\ninput = [\"ids\"]\ntarget = [\"labels\"]\n[model]\nload = \"" + file +
         "\"\nload_names = [\"model.*=" + f.name + "/*\"]\n" +
         "load_unexpected = [\"*\"]\n" +  // other families

         "layers = [{type = \"embedding\", name = \"embed\", vocabulary = 96, width = 32" +
         f.embedding + "}," + f.blocks + f.norm +
         R"({type = "linear", name = "head", out = 96, bias = false)" + f.head + "}]\n";
}

}  // namespace host
