// Folders that Hugging Face's library wrote (tests/golden/golden_hf.py): imported, computed,
// exported.
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/unit/host/imported.hpp"

using host::content;
using host::Engine;
using host::Run;
using host::write;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kFamilies[] = {"gpt2",   "llama", "mistral", "qwen2",   "qwen3",     "gemma2",
                                     "gemma3", "phi3",  "olmo2",   "mixtral", "qwen3_moe", "olmoe"};
constexpr const char* kHf = "type = \"hf\"";

const plait::test::GoldenFile& golden() { return host::families_golden(); }
std::string folder_of(const std::string& family) {
  return (fs::path(golden().path()).parent_path() / "hf" / family).string();
}

json import_model(const std::string& folder, const std::string& out, const char* format = kHf) {
  return json::parse(host::import_folder(format, folder, out));
}

// The imported experiment on the golden batch, in f64.
std::string experiment_of(const std::string& imported) {
  std::string toml = host::on_golden_batch(imported);
  const std::string relative = "load = \"";
  return toml.replace(toml.find(relative), relative.size(), relative + imported + "/");
}

std::unique_ptr<Run> run_of(const std::string& imported, std::vector<const char*> overrides = {}) {
  overrides.insert(overrides.end(), {"batch.global=2", "batch.micro=2"});
  return std::make_unique<Run>(experiment_of(imported), "", PLAIT_RESUME_NEVER, overrides);
}

// The greatest difference to the library's logits.
double error_of_logits(const Run& run, const std::string& family) {
  return host::error_of_logits(run, golden().values(family + ".logits"));
}

void export_model(const Run& run, const std::string& imported, const std::string& out,
                  uint32_t dtype = PLAIT_BF16) {
  host::export_session(run, experiment_of(imported), kHf, dtype, out);
}

std::string refusal(const std::string& folder) {
  const host::TempFolder scratch;
  std::string text = host::failure_of([&] { import_model(folder, scratch / "out"); }).text;
  CHECK(!fs::exists(scratch / "out"));
  return text;
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("a folder of every family has the library's logits, and is exported as it was") {
  for (const std::string family : kFamilies) {
    CAPTURE(family);
    const host::TempFolder scratch;
    const std::string from = folder_of(family), in = scratch / "in", out = scratch / "out";
    CHECK(import_model(from, in).at("parameters").get<int>() ==
          static_cast<int>(golden().names(family + "/").size()));
    const auto run = run_of(in);
    CHECK(error_of_logits(*run, family) < 2e-5);
    CHECK(run->step().loss == doctest::Approx(golden().values(family + ".loss")[0]).epsilon(1e-6));

    export_model(*run_of(in), in, out);
    const json theirs = json::parse(content(fs::path(from) / "config.json")),
               ours = json::parse(content(fs::path(out) / "config.json"));
    for (const auto& item : theirs.items()) {
      const std::string& key = item.key();
      CAPTURE(key);
      CHECK(ours.value(key, json("missing")) == item.value());
    }
    if (family != "qwen3" && family != "mixtral")  // which are in shards
      CHECK(content(fs::path(from) / "model.safetensors") ==
            content(fs::path(out) / "model.safetensors"));
    import_model(out, scratch / "again");
    CHECK(error_of_logits(*run_of(scratch / "again"), family) < 2e-5);
  }
}

TEST_CASE("a config.json is written from nothing but the layers, and read again") {
  for (const std::string family : kFamilies) {
    CAPTURE(family);
    const host::TempFolder scratch;
    import_model(folder_of(family), scratch / "in");
    // Without the files of the import there is nothing to keep; the family is found by the layers.
    const auto run = run_of(scratch / "in");
    fs::remove(scratch / "in/config.json");
    export_model(*run, scratch / "in", scratch / "out");
    import_model(scratch / "out", scratch / "again");
    CHECK(error_of_logits(*run_of(scratch / "again"), family) < 2e-5);
  }
}

// The source has bf16 alone, the checkpoint f32 norms. config.json has the type of most weights.
TEST_CASE("tensors are exported in the types of the source; where it has gone, of the checkpoint") {
  const host::TempFolder scratch;
  fs::copy(folder_of("llama"), scratch / "source");
  import_model(scratch / "source", scratch / "in");
  const auto run = run_of(scratch / "in", {"precision.compute=bf16", "precision.master=false"});
  const auto check_types = [&](const char* out, const char* norm) {
    export_model(*run, scratch / "in", scratch / out, 0);
    const fs::path folder = scratch / out;
    const json config = json::parse(content(folder / "config.json"));
    CHECK(config.value("dtype", config.value("torch_dtype", "")) == "bfloat16");
    const std::string file = content(folder / "model.safetensors");
    uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    const json tensors = json::parse(file.substr(sizeof size, size));
    CHECK(tensors["model.norm.weight"]["dtype"] == norm);
    CHECK(tensors["model.layers.0.self_attn.q_proj.weight"]["dtype"] == "BF16");
  };
  check_types("own", "BF16");
  fs::remove_all(scratch / "source");
  check_types("gone", "F32");
}

TEST_CASE("both devices read tensors that are joined and transposed") {
  for (const std::string family : {"gpt2", "phi3", "qwen3", "mixtral"}) {
    CAPTURE(family);
    const host::TempFolder scratch;
    import_model(folder_of(family), scratch / "in");
    const double loss = run_of(scratch / "in", {"run.device=reference"})->step().loss;
    CHECK(run_of(scratch / "in", {"run.device=cpu"})->step().loss ==
          doctest::Approx(loss).epsilon(1e-12));
  }
}

TEST_CASE("keys of version 4 mean what the objects of version 5 do") {
  for (const std::string family : {"llama", "gemma3", "phi3"}) {
    CAPTURE(family);
    const host::TempFolder scratch;
    fs::copy(folder_of(family), scratch / "old");
    json config = json::parse(content(scratch / "old/config.json"));
    const json rope = config.at("rope_parameters");
    config.erase("rope_parameters");
    if (family == "gemma3") {
      config["rope_theta"] = rope.at("full_attention").at("rope_theta");
      config["rope_local_base_freq"] = rope.at("sliding_attention").at("rope_theta");
      config["rope_scaling"] = nullptr;
      config.erase("layer_types");
      config["sliding_window_pattern"] = 2;
    } else {
      config["rope_theta"] = rope.at("rope_theta");
      config["rope_scaling"] = nullptr;
      if (family == "llama") {
        config["rope_scaling"] = rope;
        config["rope_scaling"].erase("rope_theta");
      } else {
        config["partial_rotary_factor"] = 0.5;
      }
    }
    write(scratch / "old/config.json", config.dump());
    import_model(scratch / "old", scratch / "in");
    CHECK(error_of_logits(*run_of(scratch / "in"), family) < 2e-5);
  }
}

// Cases from the library: tests/golden/golden_hf_defaults.py.
TEST_CASE("a key that a config.json leaves out has the library's value") {
  const std::string file = (fs::path(golden().path()).parent_path() / "hf_defaults.json").string();
  const json cases = json::parse(content(file));
  CHECK(cases.size() > 100);
  const host::TempFolder scratch;
  const std::string model = scratch / "model", in = scratch / "in";
  // The imported experiment; the error, where the weights of the folder do not fit.
  const auto outcome = [&](const json& config) {
    write(model + "/config.json", config.dump());
    fs::remove_all(in);
    const std::string text = host::failure_of([&] { import_model(model, in); }).text;
    return fs::exists(in) ? content(in + "/experiment.toml") : text;
  };
  for (const json& one : cases) {
    const std::string key = one.at("key");
    CAPTURE(one.dump());
    fs::remove_all(model);
    fs::copy(folder_of(one.at("family")), model);
    json config = json::parse(content(model + "/config.json"));
    for (const auto& [name, value] : one.at("set").items())
      value.is_null() ? config.erase(name) : (config[name] = value, size_t{1});
    config.erase(key);
    const std::string without = outcome(config);
    config[key] = one.at("value");
    CHECK(outcome(config) == without);
    config[key] = one.at("other");
    CHECK(outcome(config) != without);
  }
}

TEST_CASE("dropouts that a config.json leaves out are the library's") {
  for (const std::string family : {"gpt2", "phi3"}) {
    CAPTURE(family);
    const host::TempFolder scratch;
    fs::copy(folder_of(family), scratch / "model");
    json config = json::parse(content(scratch / "model/config.json"));
    for (const char* key : {"attn_pdrop", "resid_pdrop", "embd_pdrop", "attention_dropout"})
      config.erase(key);
    write(scratch / "model/config.json", config.dump());
    import_model(scratch / "model", scratch / "in");
    const std::string toml = content(scratch / "in/experiment.toml");
    CAPTURE(toml);
    for (const char* part : {"attention_dropout = 0.1", "\ndropout = 0.1", "\np = 0.1"})
      CHECK((toml.find(part) != std::string::npos) == (family == "gpt2"));
  }
}

TEST_CASE("experts, and the keys that say which blocks have them") {
  const host::TempFolder scratch;
  const auto imported = [&](const char* family, const json& keys = json::object()) {
    const std::string model = scratch / "model", in = scratch / "in";
    fs::remove_all(model);
    fs::remove_all(in);
    fs::copy(folder_of(family), model);
    json config = json::parse(content(model + "/config.json"));
    config.update(keys);
    write(model + "/config.json", config.dump());
    import_model(model, in);
    return content(in + "/experiment.toml");
  };
  const auto has = [](const std::string& toml, const char* part) {
    CAPTURE(toml);
    CAPTURE(part);
    CHECK(toml.find(part) != std::string::npos);
  };
  has(imported("mixtral"), "\nexperts = 4 ");
  has(imported("mixtral"), "\ntop_k = 2 ");
  has(imported("mixtral", {{"num_experts_per_tok", 3}}), "\ntop_k = 3 ");
  CHECK(imported("mixtral").find("balance") == std::string::npos);
  const json balanced = {{"output_router_logits", true}, {"router_aux_loss_coef", 0.3}};
  has(imported("mixtral", balanced), "  # router_aux_loss_coef / 2\n");
  export_model(*run_of(scratch / "in"), scratch / "in", scratch / "balanced");
  CHECK(json::parse(content(scratch / "balanced/config.json")).at("router_aux_loss_coef") == 0.3);
  has(imported("olmoe", {{"clip_qkv", 2.5}}), "\nclip_qkv = 2.5 ");
  has(imported("olmoe", {{"num_experts", nullptr}, {"num_local_experts", 4}}), "\nexperts = 4 ");
  has(imported("qwen3_moe", {{"norm_topk_prob", false}}), "\nnorm_top_k = false ");
  has(imported("qwen3_moe", {{"use_sliding_window", true}, {"sliding_window", 8}}),
      "\nwindow = 8 ");

  // Blocks with one MLP: made from the first two experts' tensors, (24,32) and (32,24) in place of
  // (48,32) and (32,48).
  const json dense = {{"mlp_only_layers", json::array({1})}, {"intermediate_size", 24}};
  const std::string model = scratch / "model";
  imported("qwen3_moe");
  std::string file = content(model + "/model.safetensors");
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  json header = json::parse(file.substr(sizeof size, size));
  json kept = json::object();
  for (const auto& [name, entry] : header.items()) {
    const std::string of = "model.layers.1.mlp.";
    if (!name.starts_with(of)) kept[name] = entry;
    // The other tensors of the block keep their bytes, under names that are ignored.
    else
      kept[name.starts_with(of + "experts.0.") ? of + name.substr(of.size() + 10)
                                               : name + ".rotary_emb.inv_freq"] = entry;
  }
  const std::string text = kept.dump();
  const uint64_t now = text.size();
  json config = json::parse(content(model + "/config.json"));
  config.update(dense);
  write(model + "/config.json", config.dump());
  write(model + "/model.safetensors", std::string(reinterpret_cast<const char*>(&now), sizeof now) +
                                          text + file.substr(sizeof size + size));
  import_model(model, scratch / "dense");
  const std::string toml = content(scratch / "dense/experiment.toml");
  has(toml, "name = \"h0\"\nheads = 4");
  has(toml, "\nexperts = 4 ");
  has(toml, "name = \"h1\"\nheads = 4");
  has(toml, "  # intermediate_size\n");
  const auto run = run_of(scratch / "dense");
  const double loss = run->step().loss;
  CHECK(std::isfinite(loss));
  export_model(*run_of(scratch / "dense"), scratch / "dense", scratch / "back");
  const json back = json::parse(content(scratch / "back/config.json"));
  CHECK(back.at("mlp_only_layers") == json::array({1}));
  CHECK(back.at("intermediate_size") == 24);
  import_model(scratch / "back", scratch / "again");
  CHECK(run_of(scratch / "again")->step().loss == loss);
}

TEST_CASE("what is wrong in a folder is said with file, key and what was expected") {
  struct Case {
    const char *family, *key;
    json value;
    const char* says;
  };
  const Case cases[] = {
      {"llama", "model_type", "bert", "'bert' is not known; known are gpt2, llama"},
      {"llama", "model_type", nullptr, "key 'model_type': found nothing, expected a text"},
      {"llama", "hidden_size", "32", "key 'hidden_size': found \"32\", expected a whole number"},
      {"llama", "num_attention_heads", 5, "expected a divisor"},
      {"llama", "num_key_value_heads", 3, "key 'num_key_value_heads': there are 3 for 4 heads"},
      {"llama", "hidden_act", "mish", "key 'hidden_act': 'mish' is not known"},
      {"llama", "rope_parameters", json{{"rope_type", "dynamic"}, {"rope_theta", 500.0}},
       "key 'rope_parameters.rope_type': 'dynamic' is not known; known are default, linear"},
      {"llama", "rope_parameters", json{{"rope_type", "llama3"}, {"factor", 8.0}},
       "original_max_position_embeddings': found null, expected a whole number"},
      {"llama", "partial_rotary_factor", 0.5, "the family llama does not have"},
      {"llama", "quantization_config", json::object(), "the weights are quantized"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true, "does not compute"},
      {"gemma2", "layer_types", json{"full_attention"}, "it has 1 entries for 2 blocks"},
      {"gemma2", "query_pre_attn_scalar", 0, "expected a number above 0"},
      {"llama", "num_hidden_layers", 1, "has the tensor 'model.layers.1."},
      {"llama", "num_hidden_layers", 3, "has no tensor 'model.layers.2."},
      {"llama", "tie_word_embeddings", true, "but their values differ; set tie_word_embeddings"},
      {"qwen2", "tie_word_embeddings", false, "has no tensor 'lm_head.weight'"},
      {"phi3", "intermediate_size", 47,
       "config.json gives the tensor 'model.layers.0.mlp.gate_up_proj.weight' the shape (94, 32), "
       "and model.safetensors has it with (96, 32); take a config.json that belongs to these"},
      {"phi3", "num_key_value_heads", 4,
       "'model.layers.0.self_attn.qkv_proj.weight' the shape (96,"},
      {"llama", "vocab_size", 95, "'model.embed_tokens.weight' the shape (95, 32)"},
      {"llama", "head_dim", 16, "'model.layers.0.self_attn.q_proj.weight' the shape (64, 32)"},
      {"llama", "num_key_value_heads", 4,
       "'model.layers.0.self_attn.k_proj.weight' the shape (32,"},
      {"gpt2", "n_positions", 63, "'transformer.wpe.weight' the shape (63, 32)"},
      {"gpt2", "n_inner", 100, "'transformer.h.0.mlp.c_fc.weight' the shape (32, 100)"},
      {"mixtral", "num_local_experts", 3,
       "'model.layers.0.block_sparse_moe.gate.weight' the shape (3, 32)"},
      {"mixtral", "num_local_experts", 1 << 17, "expected at most 131072 in all"},
      {"mixtral", "num_experts_per_tok", 5, "a token has 5 of 4 experts, expected at most as many"},
      {"mixtral", "num_experts", 3, "found 4, and num_experts is 3, expected the same"},
      {"mixtral", "router_jitter_noise", 0.1, "does not compute"},
      {"olmoe", "intermediate_size", 40,
       "'model.layers.0.mlp.experts.0.gate_proj.weight' the shape (40, 32)"},
      {"qwen3_moe", "mlp_only_layers", json::array({1}),
       "has no tensor 'model.layers.1.mlp.down_proj.weight'"},
      {"qwen3_moe", "decoder_sparse_step", 0, "key 'decoder_sparse_step': found 0"},
      {"olmoe", "clip_qkv", -1, "expected a number above 0"},
      {"qwen3", "intermediate_size", 40,
       "and model-00001-of-00002.safetensors has it with (48, 32)"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.key);
    const host::TempFolder scratch;
    fs::copy(folder_of(one.family), scratch / "model");
    json config = json::parse(content(scratch / "model/config.json"));
    config[one.key] = one.value;
    write(scratch / "model/config.json", config.dump());
    const std::string found = refusal(scratch / "model");
    CAPTURE(found);
    CHECK(found.find(one.says) != std::string::npos);
  }
  const host::TempFolder scratch;
  CHECK(refusal(scratch / "none").find("is not a folder here") != std::string::npos);
  fs::copy(folder_of("mixtral"), scratch / "expert");
  json index = json::parse(content(scratch / "expert/model.safetensors.index.json"));
  index.at("weight_map").erase("model.layers.1.block_sparse_moe.experts.2.w3.weight");
  write(scratch / "expert/model.safetensors.index.json", index.dump());
  const std::string no_expert = refusal(scratch / "expert");
  CAPTURE(no_expert);
  CHECK(no_expert.find("/expert' has no tensor 'model.layers.1.block_sparse_moe.experts.2.w3."
                       "weight' (did you mean ") != std::string::npos);
  CHECK(no_expert.find("where 'weights.map.json' puts slice 2 of 4 of 'h1.mlp.up.weight'") !=
        std::string::npos);
  fs::create_directory(scratch / "empty");
  CHECK(refusal(scratch / "empty").find("neither model.safetensors nor") != std::string::npos);
  fs::copy(folder_of("llama"), scratch / "broken");
  write(scratch / "broken/config.json", "{\"model_type\": ");
  CHECK(refusal(scratch / "broken").find("not valid JSON") != std::string::npos);
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  write(scratch / "broken/config.json",
        "{\"model_type\": \"llama\", \"hidden_size\": " + deep + "}");
  CHECK(refusal(scratch / "broken")
            .find("config.json', offset 138: lists and objects are nested more than 100 deep") !=
        std::string::npos);
  fs::resize_file(scratch / "broken/config.json", (256u << 20) + 1);
  CHECK(refusal(scratch / "broken").find("config.json': it has 268435457 bytes") !=
        std::string::npos);
  fs::remove(scratch / "broken/config.json");
  CHECK(refusal(scratch / "broken").find("config.json': cannot open it") != std::string::npos);
}

TEST_CASE("a tokenizer of which no plugin is loaded is a warning") {
  const Engine all;
  plait_text* t = nullptr;
  host::check(plait_engine_describe(all.get(), &t));
  std::string plugin;
  const json described = json::parse(host::take(t));
  for (const json& one : described.at("registry").at("plugins"))
    if (one.at("name") == "format-hf") plugin = one.at("path");
  REQUIRE(!plugin.empty());
  std::string lines;
  plait_engine_options o{};
  o.struct_size = sizeof o;
  o.log = [](void* user, uint32_t, const char* text, uint64_t size) {
    static_cast<std::string*>(user)->append(text, size).append("\n");
  };
  o.log_user = &lines;
  o.log_level = PLAIT_LOG_WARN;
  o.no_default_plugins = o.keep_plugins_loaded = 1;
  const char* paths[] = {plugin.c_str()};
  o.plugin_paths = paths;
  o.n_plugin_paths = 1;
  plait_engine* e = nullptr;
  host::check(plait_engine_open(&o, &e));
  const std::unique_ptr<plait_engine, decltype(&plait_engine_close)> engine(e, plait_engine_close);
  const host::TempFolder scratch;
  fs::copy(folder_of("llama"), scratch / "model");
  write(scratch / "model/tokenizer.json", "{}");
  const std::string from = scratch / "model", out = scratch / "out";
  host::check(plait_model_import(e, kHf, PLAIT_NTS, from.c_str(), out.c_str(), &t));
  host::take(t);
  CAPTURE(lines);
  CHECK(lines.find("[import] the tokenizer of '" + from + "' is not known (") != lines.npos);
  CHECK(lines.find("unknown tokenizer 'hf'") != lines.npos);
}

TEST_SUITE_END();
