// Adapters that the library PEFT wrote (tests/golden/golden_peft_files.py): imported, computed,
// exported.
#include <plait/adapters.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "tests/unit/host/imported.hpp"

using host::content;
using host::import_folder;
using host::Run;
using host::write;
using nlohmann::json;
using plait::test::GoldenFile;
namespace fs = std::filesystem;

namespace {

const GoldenFile& golden() {
  static const GoldenFile file("peft_files.safetensors");
  return file;
}
fs::path folder() { return fs::path(golden().path()).parent_path(); }

std::string peft_over(const std::string& base) {
  return "type = \"peft\"\nbase = \"" + base + "\"";
}

// The base of an adapter, imported.
struct Base {
  explicit Base(const std::string& adapter) : path(scratch / "base") {
    import_folder("type = \"hf\"", folder() / "hf" / adapter.substr(0, adapter.find('_')), path);
  }
  host::TempFolder scratch;
  const std::string path;
};

std::string absolute_load(std::string toml, const std::string& beside) {
  const std::string relative = "load = \"weights";
  for (size_t at = 0; (at = toml.find(relative, at)) != std::string::npos; at += relative.size())
    toml.replace(at, relative.size(), "load = \"" + beside + "/weights");
  return toml;
}

// The base's experiment on the golden batch in f64, with the entries of an imported adapter and
// what it trains of the base itself.
std::string experiment_of(const std::string& base, const std::string& adapter) {
  const std::string own = content(fs::path(adapter) / "experiment.toml");
  std::string toml = host::on_golden_batch(base);
  if (const size_t train = own.find("\ntrain = "); train != std::string::npos) {
    const size_t model = toml.find("[model]\n");
    REQUIRE(model != std::string::npos);
    toml.insert(model + 8, own.substr(train + 1, own.find('\n', train + 1) - train));
  }
  return absolute_load(toml, base) +
         absolute_load(own.substr(own.find("[[model.adapters]]")), adapter);
}

std::unique_ptr<Run> run_of(const std::string& toml) {
  return std::make_unique<Run>(toml, "", PLAIT_RESUME_NEVER,
                               std::vector<const char*>{"batch.global=2", "batch.micro=2"});
}

double error_of_logits(const Run& run, const std::string& adapter) {
  // The library gives none of the tokens in whose places a prefix stands.
  return host::error_of_logits(run, golden().values(adapter + ".logits"),
                               adapter.ends_with("_prefix") ? 4 : 0);
}

void export_to(const Run& run, const std::string& toml, const std::string& format,
               const std::string& out) {
  host::export_session(run, toml, format, PLAIT_F32, out);
}

json config_of(const fs::path& adapter) {
  return json::parse(content(adapter / "adapter_config.json"));
}
std::string weights_of(const fs::path& adapter) {
  return content(adapter / "adapter_model.safetensors");
}

// Takes out tensors of a file, or gives them other names and shapes.
void edit_header(const fs::path& adapter, const std::function<void(json&)>& edit) {
  const std::string file = weights_of(adapter);
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  json header = json::parse(file.substr(sizeof size, size));
  edit(header);
  std::map<size_t, std::string> in_order;  // by where they begin
  for (const auto& [name, tensor] : header.items())
    if (tensor.contains("data_offsets")) in_order[tensor.at("data_offsets")[0]] = name;
  std::string data;
  for (const auto& [begin, name] : in_order) {
    json& at = header.at(name).at("data_offsets");
    const size_t n = at[1].get<size_t>() - begin, now = data.size();
    data += file.substr(sizeof size + size + begin, n);
    at = {now, now + n};
  }
  const std::string text = header.dump();
  const uint64_t now = text.size();
  write(adapter / "adapter_model.safetensors",
        std::string(reinterpret_cast<const char*>(&now), sizeof now) + text + data);
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("adapters of the library have its logits, and are exported as they were") {
  // Those whose modules hold one parameter each, and no copy of a weight of the base.
  const std::vector<std::string> same = {
      "gpt2_tables", "qwen3_lora", "llama_dora",  "gpt2_prompt",   "gpt2_prefix",
      "llama_ia3",   "gpt2_ia3",   "llama_saved", "llama_adalora", "mixtral_lora"};
  for (const std::string adapter :
       {"gpt2_lora",    "gpt2_tables", "llama_lora",       "qwen3_lora",    "phi3_lora",
        "gpt2_dora",    "llama_dora",  "gpt2_prompt",      "gpt2_prefix",   "llama_ia3",
        "gpt2_ia3",     "gpt2_vera",   "llama_vera",       "gpt2_biases",   "gpt2_allbiases",
        "llama_saved",  "gpt2_saved",  "gpt2_savedbiases", "llama_adalora", "llama_pruned",
        "gpt2_adalora", "mixtral_lora"}) {
    CAPTURE(adapter);
    const Base base(adapter);
    const std::string in = base.scratch / "in", out = base.scratch / "out",
                      again = base.scratch / "again";
    const fs::path from = folder() / "peft" / adapter;
    import_folder(peft_over(base.path), from, in);
    const std::string toml = experiment_of(base.path, in);
    CAPTURE(toml);
    const auto run = run_of(toml);
    CHECK(error_of_logits(*run, adapter) < 2e-5);

    export_to(*run, toml, peft_over(base.path), out);
    const json theirs = config_of(from), ours = config_of(out);
    CAPTURE(ours);
    CHECK(ours.at("peft_type") == theirs.at("peft_type"));
    for (const char* key : {"use_rslora", "use_dora", "lora_dropout", "vera_dropout",
                            "fan_in_fan_out", "num_virtual_tokens", "token_dim", "num_layers",
                            "num_attention_heads", "encoder_hidden_size", "bias", "deltaT", "tinit",
                            "tfinal", "beta1", "beta2", "orth_reg_weight"})
      if (theirs.contains(key) && ours.contains(key)) CHECK(ours.at(key) == theirs.at(key));
    if (std::find(same.begin(), same.end(), adapter) != same.end()) {
      CHECK(weights_of(from) == weights_of(out));
      for (const char* key : {"r", "lora_alpha", "init_r", "target_r"})
        if (theirs.contains(key) && ours.contains(key)) CHECK(ours.at(key) == theirs.at(key));
    }
    // What cannot be written as one small product is written as one of the sum of the ranks.
    import_folder(peft_over(base.path), out, again);
    CHECK(error_of_logits(*run_of(experiment_of(base.path, again)), adapter) < 2e-5);
  }
}

TEST_CASE("PiSSA is exported as LoRA of twice the rank") {
  for (const std::string name : {"gpt2", "llama"}) {
    CAPTURE(name);
    const Base base(name + "_");
    const std::string own = base.scratch / "own", out = base.scratch / "out",
                      again = base.scratch / "again";
    fs::create_directories(own);
    write(own + "/experiment.toml",
          "[[model.adapters]]\ntype = \"pissa\"\nmatch = [\"model.h*.attn.q.weight\", "
          "\"model.h*.attn.v.weight\", \"model.h*.mlp.down.weight\"]\nrank = 3\nalpha = 5.0\n"
          "rank_pattern = [\"*.down.*=2\"]\n");
    const std::string toml = experiment_of(base.path, own);
    const auto run = run_of(toml);
    const auto before = host::logits_of(*run, 96);
    const std::string a = "model.h1.mlp.down.weight.pissa.a";
    std::vector<double> values(2 * (name == "gpt2" ? 128 : 48));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.3 * std::sin(static_cast<double>(i));
    host::check(plait_session_write(run->session(), a.c_str(), values.data(),
                                    values.size() * sizeof(double)));
    const auto trained = host::logits_of(*run, 96);
    CHECK(trained != before);
    export_to(*run, toml, peft_over(base.path), out);
    const json config = config_of(out);
    CHECK(config.at("peft_type") == "LORA");
    CHECK(config.at("init_lora_weights") == true);
    import_folder(peft_over(base.path), out, again);
    CHECK(host::error_of_logits(*run_of(experiment_of(base.path, again)), trained) < 2e-5);
  }
}

// The experiment without weights of adapters, and their names.
std::vector<std::string> take_out_loads(std::string& toml) {
  std::vector<std::string> names;
  for (size_t at = toml.find("[[model.adapters]]"); at != std::string::npos;
       at = toml.find("[[model.adapters]]", at + 1)) {
    const size_t name = toml.find("name = \"", at) + 8, load = toml.find("load = ", at);
    names.push_back(toml.substr(name, toml.find('"', name) - name));
    toml.erase(load, toml.find('\n', load) - load);
  }
  return names;
}

TEST_CASE("adapters of the library are loaded into a running session") {
  for (const std::string adapter : {"gpt2_lora", "qwen3_lora", "gpt2_ia3"}) {
    CAPTURE(adapter);
    const Base base(adapter);
    const std::string in = base.scratch / "in", format = peft_over(base.path);
    const std::string from = (folder() / "peft" / adapter).string();
    import_folder(format, from, in);
    std::string toml = experiment_of(base.path, in);
    const std::vector<std::string> names = take_out_loads(toml);
    REQUIRE(!names.empty());
    const auto run = run_of(toml);
    CHECK(error_of_logits(*run, adapter) > 1e-3);
    plait_adapter_source source{};
    source.struct_size = sizeof source;
    source.path = from.c_str();
    source.format = format.c_str();
    for (const std::string& name : names)
      host::check(plait_session_load_adapter(run->session(), nullptr, name.c_str(), &source));
    CHECK(error_of_logits(*run, adapter) < 2e-5);
    source.format = "type = \"peft\"\nbase = \"/nonexistent\"";
    const auto refused = host::failure_of([&] {
      host::check(plait_session_load_adapter(run->session(), nullptr, names[0].c_str(), &source));
    });
    CHECK(refused.text.find("'/nonexistent' does not exist") != std::string::npos);
    CHECK(error_of_logits(*run, adapter) < 2e-5);
  }
}

TEST_CASE("what was trained of the base beside an adapter is loaded where it is trained") {
  const Base base("gpt2_biases");
  const std::string in = base.scratch / "in", format = peft_over(base.path);
  const std::string from = (folder() / "peft/gpt2_biases").string();
  import_folder(format, from, in);
  std::string toml = experiment_of(base.path, in);
  const size_t train = toml.find("train = ");
  REQUIRE(train != std::string::npos);
  std::string frozen = toml;
  frozen.erase(train, frozen.find('\n', train) - train);
  const std::string text = host::failure_of([&] { run_of(frozen); }).text;
  CAPTURE(text);
  CHECK(text.find("which was trained beside the adapter and is frozen here; name it in") !=
        std::string::npos);
  // An adapter of a running session is exchanged alone.
  take_out_loads(toml);
  const auto run = run_of(toml);
  plait_adapter_source source{};
  source.struct_size = sizeof source;
  source.path = from.c_str();
  source.format = format.c_str();
  const auto refused = host::failure_of(
      [&] { host::check(plait_session_load_adapter(run->session(), nullptr, "lora", &source)); });
  CAPTURE(refused.text);
  CHECK(refused.code == PLAIT_ERR_UNIMPLEMENTED);
  CHECK(refused.text.find("of the model itself, which was trained beside adapter 'lora'") !=
        std::string::npos);
}

TEST_CASE("what is exported names its modules as shortly as they can be") {
  const Base base("gpt2_lora");
  const std::string in = base.scratch / "in", out = base.scratch / "out";
  import_folder(peft_over(base.path), folder() / "peft/gpt2_lora", in);
  const std::string toml = experiment_of(base.path, in), own = content(in + "/experiment.toml");
  CAPTURE(own);
  CHECK(own.find("[[model.adapters]]") == own.rfind("[[model.adapters]]"));
  CHECK(own.find("rank_pattern = [\"model.h*.mlp.down.weight=2\"]") != std::string::npos);
  CHECK(own.find("alpha_pattern = [\"model.h*.mlp.down.weight=3") != std::string::npos);
  export_to(*run_of(toml), toml, peft_over(base.path), out);
  const json config = config_of(out);
  CHECK(config.at("target_modules") == json{"c_attn", "c_proj"});
  CHECK(config.at("r") == 2);  // of three ranks that are as frequent, the smallest
  CHECK(config.at("rank_pattern").at("transformer.h.0.attn.c_attn") == 12);
  CHECK(config.at("alpha_pattern").at("transformer.h.0.attn.c_attn") == 36);
  CHECK(config.at("rank_pattern").at("transformer.h.1.attn.c_proj") == 4);
  CHECK(!config.at("rank_pattern").contains("transformer.h.1.mlp.c_proj"));
}

TEST_CASE("what a file of the library cannot hold is said") {
  const Base base("gpt2_lora");
  const auto refused = [&](const std::string& adapters, const std::string& options,
                           const char* says) {
    const std::string own = base.scratch / "own";
    fs::create_directories(own);
    write(own + "/experiment.toml", adapters);
    const std::string toml = experiment_of(base.path, own), out = base.scratch / "out";
    const auto run = run_of(toml);
    const std::string text = host::failure_of([&] { export_to(*run, toml, options, out); }).text;
    CAPTURE(text);
    CHECK(text.find(says) != std::string::npos);
    CHECK(!fs::exists(out));
    fs::remove_all(out + ".checkpoint");
  };
  const std::string peft = peft_over(base.path);
  const std::string
      lora = "[[model.adapters]]\ntype = \"lora\"\nmatch = [\"model.h*.attn.q.weight\"]\n",
      q = "[[model.adapters]]\ntype = \"ia3\"\nmatch = [\"model.h*.attn.q.weight\"]\n";
  refused("[[model.adapters]]\ntype = \"bitfit\"\nmatch = [\"model.h*.attn.q.weight\"]\n", peft,
          "adapter 'bitfit' is bitfit, which is not written as a file of the library; lora, dora, "
          "pissa, adalora, ia3, vera, soft_prompt and prefix are; biases of the model that `train` "
          "names are written beside these");
  refused(lora + q, peft, "choose one with --option adapter=NAME");
  refused(lora, peft + "\nadapter = \"poet\"", "has no adapter 'poet'; there are: lora");
  refused(q, peft, "changes 'h0.attn.q.weight' and not 'h0.attn.k.weight', which are one module");
  refused(lora + lora.substr(0, lora.find("match")) + "name = \"k\"\nalpha = 3\n" +
              "match = [\"model.h*.attn.k.weight\"]\n",
          peft, "are one module of the library, transformer.h.0.attn.c_attn, and their changes");
  refused(lora, "type = \"hf\"", "plait export peft");
  const auto training = [](const char* patterns, const std::string& adapters) {
    return "train = [" + std::string(patterns) + "]\n\n" + adapters;
  };
  const auto beside = [&](const char* patterns, const std::string& adapters, const char* says) {
    refused("\n" + training(patterns, adapters), peft, says);
  };
  beside("\"model.embed.weight\"", lora,
         "trains 'embed.weight' (train), which is the head as well, and the library would make two "
         "tables of it");
  beside("\"model.h0.attn.v.weight\"", lora,
         "the module transformer.h.0.attn.c_attn is trained itself (train) and has an adapter as "
         "well, and the library has one of both; let `match` of the adapter, or `train`, leave it");
  beside(
      "\"model.h0.attn.q.bias\"",
      "[[model.adapters]]\ntype = \"ia3\"\nmatch = [\"model.h*.attn.*.weight\"]\nexclude = "
      "[\"*.out.*\"]\n",
      "the model trains biases beside ia3 (train = [\"model.h0.attn.q.bias\"]), and the library's "
      "IA3 has none; let `train` name the weights of these modules as well");
  beside("\"model.h0.attn.q.bias\"",
         "[[model.adapters]]\ntype = \"soft_prompt\"\nmatch = [\"model.embed.weight\"]\n"
         "n_tokens = 3\n",
         "the model trains parameters of its own beside soft_prompt");
  refused(
      "[[model.adapters]]\ntype = \"soft_prompt\"\nmatch = [\"model.embed\"]\nn_tokens = 3\n", peft,
      "the library has one soft prompt, of the table of token ids, and here adapter 'soft_prompt' "
      "changes 'embed'; let `match` name the table's weight, model.embed.weight");
  refused(
      "[[model.adapters]]\ntype = \"prefix\"\nmatch = [\"model.h*.attn.k.weight\"]\n"
      "n_tokens = 3\n",
      peft, "adapter 'prefix' does not change 'h0.attn.v.weight'; let `match` name");
}

TEST_CASE("adapters of experts are in no file") {
  const Base base("mixtral_lora");
  const std::string own = base.scratch / "own", out = base.scratch / "out";
  fs::create_directories(own);
  write(own + "/experiment.toml",
        "[[model.adapters]]\ntype = \"lora\"\nmatch = [\"model.h*.attn.q.weight\", "
        "\"model.h*.mlp.up.weight\"]\n");
  const std::string toml = experiment_of(base.path, own);
  const auto run = run_of(toml);
  CHECK(host::failure_of([&] { export_to(*run, toml, peft_over(base.path), out); })
            .text.find("adapter 'lora' changes 'h0.mlp.up.weight', the weights of experts, which "
                       "is not written as a file of the library; merge it (plait merge") !=
        std::string::npos);
  CHECK(!fs::exists(out));

  const std::string q = "base_model.model.model.layers.1.self_attn.q_proj.lora_";
  for (const char* module : {"block_sparse_moe.experts.3.w1", "mlp.experts"}) {
    const fs::path adapter = base.scratch / "adapter";
    fs::remove_all(adapter);
    fs::copy(folder() / "peft/mixtral_lora", adapter);
    edit_header(adapter, [&](json& header) {
      for (const char* end : {"A.weight", "B.weight"}) {
        header[std::string("base_model.model.model.layers.1.") + module + ".lora_" + end] =
            header.at(q + end);
        header.erase(q + end);
      }
    });
    const std::string text =
        host::failure_of([&] { import_folder(peft_over(base.path), adapter, out); }).text;
    CAPTURE(text);
    CHECK(text.find("it changes experts, 'model.layers.1." + std::string(module) +
                    "', and adapters of experts are not read; merge it in the library") !=
          std::string::npos);
  }
}

TEST_CASE("a file of each type that does not fit is said with its name and what to do") {
  using Edit = std::function<void(json & config, json & header)>;
  const std::string of = "base_model.model.";
  const auto renamed = [](json& header, const std::string& from, const std::string& to) {
    header[to] = header.at(from);
    header.erase(from);
  };
  const auto shaped = [](const std::string& tensor, const json& shape) -> Edit {
    return [=](json&, json& header) { header.at(tensor)["shape"] = shape; };
  };
  const auto without = [](const std::string& tensor) -> Edit {
    return [=](json&, json& header) { header.erase(tensor); };
  };
  const auto unknown = [&](const std::string& tensor, const std::string& to) -> Edit {
    return [=](json&, json& header) { renamed(header, tensor, to); };
  };
  const auto set = [](const char* key, const json& value) -> Edit {
    return [=](json& config, json&) { config[key] = value; };
  };
  const std::string c_attn = of + "transformer.h.1.attn.c_attn",
                    down = of + "model.layers.0.mlp.down_proj",
                    k = of + "model.layers.1.self_attn.k_proj",
                    q = of + "model.layers.1.self_attn.q_proj";
  const struct {
    const char* adapter;
    Edit edit;
    std::string says;
  } cases[] = {
      {"gpt2_dora", without(c_attn + ".lora_magnitude_vector"),
       "has no tensor '" + c_attn + ".lora_magnitude_vector' beside the other one of its module"},
      {"gpt2_dora", shaped(c_attn + ".lora_magnitude_vector", {32, 3}),
       "has the shape (32, 3), expected (96) for the base"},
      {"gpt2_dora", set("use_dora", false), "or magnitudes without use_dora in adapter_config"},
      {"gpt2_tables", without(of + "transformer.wte.lora_embedding_B"),
       "has no tensor 'base_model.model.transformer.wte.lora_embedding_B' beside"},
      {"llama_ia3", shaped(down + ".ia3_l", {1, 48, 1}), "down_proj.ia3_l' has the shape"},
      {"llama_ia3", unknown(k + ".ia3_l", k + ".ia3_m"),
       "k_proj.ia3_m' is no part of IA3, expected names as base_model.model.MODULE.ia3_l"},
      {"llama_ia3", unknown(k + ".ia3_l", of + "model.layers.9.self_attn.k_proj.ia3_l"),
       "changes the module 'model.layers.9.self_attn.k_proj', which the base"},
      {"llama_vera", without("base_model.vera_A"),
       "has no tensor 'base_model.vera_A', which the library then draws again, not the same on "
       "every machine; save it with save_projection = True"},
      {"llama_vera", without(q + ".vera_lambda_d"), "has no tensor '" + q + ".vera_lambda_d'"},
      {"llama_vera", shaped(q + ".vera_lambda_d", {1, 3}),
       "q_proj.vera_lambda_d' has the shape (1, 3), expected (3) for the base"},
      {"llama_vera", set("r", 4),
       "expected the rank of adapter_config.json, 4, as rows of the first and columns"},
      {"llama_vera", set("vera_dropout", -1), "key 'vera_dropout': found -1, expected at least 0"},
      {"llama_vera", unknown(q + ".vera_lambda_d", q + ".lora_A.weight"),
       "q_proj.lora_A.weight' is no part of VeRA, expected names as"},
      {"llama_adalora", without(q + ".lora_E"),
       "has no tensor '" + q + ".lora_E' beside the other one of its module"},
      {"llama_adalora", shaped(q + ".lora_E", {1, 4}),
       "q_proj.lora_E' has the shape (1, 4), expected (4, 1) for the base"},
      {"llama_adalora", unknown(q + ".lora_E", q + ".lora_F"),
       "q_proj.lora_F' is no part of AdaLoRA, expected names as base_model.model.MODULE.lora_A"},
      {"llama_adalora", set("init_r", 5),
       "key 'init_r': the rank of 'model.layers.0.mlp.down_proj' is 5, and "
       "adapter_model.safetensors has it with 4; take both files from one save_pretrained()"},
      {"llama_adalora", set("deltaT", -1), "key 'deltaT': found -1"},
      {"llama_pruned", set("init_r", 5), "it has 4 values, expected init_r, 5"},
      {"llama_pruned", set("rank_pattern", nullptr), "key 'init_r': the rank of 'model.layers.0"},
      {"llama_pruned", set("rank_pattern", {1, 2}), "key 'rank_pattern': found "},
      {"gpt2_biases", set("bias", "vera_only"),
       "key 'bias': found 'vera_only', expected none, all or lora_only"},
      {"gpt2_biases", set("bias", "none"), "c_attn.base_layer.bias' is no part of LoRA"},
      {"gpt2_biases", shaped(c_attn + ".base_layer.bias", {32, 3}),
       "c_attn.base_layer.bias' has the shape (32, 3), expected (96) for the base"},
      {"gpt2_biases", unknown(c_attn + ".base_layer.bias", of + "transformer.h.7.ln_1.bias"),
       "is of a module that was trained as a whole, or of a bias, which the base"},
      {"gpt2_biases", unknown(c_attn + ".base_layer.bias", of + "transformer.h.0.attn.c_attn.bias"),
       "it has 'transformer.h.0.attn.c_attn.bias' twice, under two names"},
      {"llama_saved", set("modules_to_save", {"lm_head", "norm", "score"}),
       "key 'modules_to_save': 'score' has no tensor in adapter_model.safetensors"},
      {"llama_saved", without(of + "lm_head.weight"), "'lm_head' has no tensor in"},
      {"llama_saved", set("modules_to_save", {"norm"}), "lm_head.weight' is no part of LoRA"},
      {"gpt2_saved", unknown(of + "transformer.ln_f.weight", of + "lm_head.weight"),
       "lm_head.weight' is no part of LoRA"},
      {"gpt2_prompt", shaped("prompt_embeddings", {2, 64}),
       "the tensor 'prompt_embeddings' is (2, 64), expected (4, 32), num_virtual_tokens and the "
       "width of the base; give the folder of its own base with --option base=FOLDER"},
      {"gpt2_prompt", unknown("prompt_embeddings", "embeddings"),
       "it has 1 tensors, among them 'embeddings', expected one, 'prompt_embeddings'"},
      {"gpt2_prompt", set("modules_to_save", {"lm_head"}),
       "key 'modules_to_save': modules of the base were trained as well, which is read beside "
       "adapters of single modules alone, expected none; train them beside LoRA"},
      {"gpt2_prompt", set("num_virtual_tokens", 0), "key 'num_virtual_tokens': found 0"},
      {"gpt2_prompt", set("task_type", "SEQ_CLS"), "found 'SEQ_CLS', expected CAUSAL_LM"},
      {"gpt2_prefix", shaped("prompt_embeddings", {8, 64}),
       "the tensor 'prompt_embeddings' is (8, 64), expected (4, 128), num_virtual_tokens and "
       "twice the layers of the base times the width of its keys"},
      {"gpt2_prefix", set("num_transformer_submodules", 2), "expected 1: a decoder alone"},
  };
  const auto refusal = [](const Base& base, const fs::path& from) {
    const std::string out = base.scratch / "out";
    fs::remove_all(out);
    const auto failure = host::failure_of([&] { import_folder(peft_over(base.path), from, out); });
    CHECK(!fs::exists(out));
    return failure.text;
  };
  for (const auto& one : cases) {
    CAPTURE(one.adapter);
    CAPTURE(one.says);
    const Base base(one.adapter);
    const fs::path adapter = base.scratch / "adapter";
    fs::copy(folder() / "peft" / one.adapter, adapter);
    json config = config_of(adapter);
    edit_header(adapter, [&](json& header) { one.edit(config, header); });
    write(adapter / "adapter_config.json", config.dump());
    const std::string found = refusal(base, adapter);
    CAPTURE(found);
    CHECK(found.find(one.says) != std::string::npos);
  }
  {  // The head of gpt2 is its embedding, which would learn as well.
    const Base base("gpt2_saved");
    const fs::path adapter = base.scratch / "adapter";
    fs::copy(folder() / "peft/gpt2_saved", adapter);
    json config = config_of(adapter);
    config["modules_to_save"] = {"0.attn.c_attn", "lm_head"};
    edit_header(adapter, [&](json& header) {
      renamed(header, of + "transformer.ln_f.weight", of + "lm_head.weight");
    });
    write(adapter / "adapter_config.json", config.dump());
    const std::string found = refusal(base, adapter);
    CAPTURE(found);
    CHECK(found.find("key 'modules_to_save': 'lm_head' was trained, and of the base") !=
          std::string::npos);
    CHECK(found.find("the embedding is the head as well") != std::string::npos);
  }
  // Another base; a prefix of keys that are turned behind it.
  for (const auto& [adapter, family, says] : std::vector<std::array<const char*, 3>>{
           {"gpt2_dora", "llama_", "(llama) does not have; give the folder of its own base"},
           {"llama_ia3", "gpt2_", "(gpt2) does not have; give the folder of its own base"},
           {"llama_vera", "gpt2_", "(gpt2) does not have; give the folder of its own base"},
           {"gpt2_prompt", "gemma2_", "the family gemma2 multiplies embeddings"},
           {"gpt2_prefix", "llama_", "the family llama turns or norms keys"}}) {
    CAPTURE(adapter);
    const std::string found = refusal(Base(family), folder() / "peft" / adapter);
    CAPTURE(found);
    CHECK(found.find(says) != std::string::npos);
  }
}

TEST_CASE("what is wrong in a folder of an adapter is said with file, key and what was expected") {
  using Edit = std::function<void(const fs::path&)>;
  const auto set = [](const char* key, json value) -> Edit {
    return [=](const fs::path& adapter) {
      json config = config_of(adapter);
      config[key] = value;
      write(adapter / "adapter_config.json", config.dump());
    };
  };
  const auto header = [](const std::function<void(json&)>& edit) -> Edit {
    return [=](const fs::path& adapter) { edit_header(adapter, edit); };
  };
  const std::string q = "base_model.model.model.layers.1.self_attn.q_proj.lora_";
  const struct {
    Edit edit;
    const char* says;
  } cases[] = {
      {set("peft_type", "LOHA"),
       "key 'peft_type': unknown type 'LOHA'; known are ADALORA, IA3, LORA (DoRA too), "
       "PREFIX_TUNING, PROMPT_TUNING, VERA; another adapter can be merged"},
      {set("peft_type", nullptr), "key 'peft_type': found nothing, expected a text"},
      {set("use_dora", true), ".lora_magnitude_vector' beside the other one of its module"},
      {set("modules_to_save", json{"lm_head"}),
       "'lm_head' has no tensor in adapter_model.safetensors, expected those of each module"},
      {set("bias", "some"), "key 'bias': found 'some', expected none, all or lora_only"},
      {set("init_lora_weights", "pissa"),
       "key 'init_lora_weights': found 'pissa', which takes a part out of"},
      {set("r", 3), "key 'r': the rank of 'model.layers.1.mlp.up_proj' is 3, and"},
      {set("r", "two"), "key 'r': found \"two\", expected a whole number"},
      {set("lora_alpha", "two"), "key 'lora_alpha': found string, expected a number"},
      {set("alpha_pattern", json{{"layers.*", 3}}), "a regular expression is not read here"},
      {set("lora_dropout", 1.0), "key 'lora_dropout': found 1.0, expected at least 0"},
      {header([&](json& h) {
         h["base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight"] = h.at(q + "A.weight");
         h.erase(q + "A.weight");
       }),
       "has no tensor 'base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight' beside"},
      {header([&](json& h) {
         h["base_model.model.lm_head.weight"] = h.at(q + "A.weight");
         h.erase(q + "A.weight");
       }),
       "the tensor 'base_model.model.lm_head.weight' is no part of LoRA"},
      {header([&](json& h) {
         for (const std::string end : {"A.weight", "B.weight"}) {
           h["base_model.model.model.layers.7.self_attn.q_proj.lora_" + end] = h.at(q + end);
           h.erase(q + end);
         }
       }),
       "changes the module 'model.layers.7.self_attn.q_proj', which the base"},
      {header([&](json& h) {
         h.at(q + "B.weight")["shape"] = {2, 64};
       }),
       "q_proj.lora_B.weight' has the shape (2, 64), expected (64, 2) for the base"},
      {[](const fs::path& adapter) { write(adapter / "adapter_config.json", "{\"r\": "); },
       "it is no JSON there"},
      {[](const fs::path& adapter) { fs::resize_file(adapter / "adapter_model.safetensors", 100); },
       "adapter_model.safetensors"},
      {[](const fs::path& adapter) {
         fs::rename(adapter / "adapter_model.safetensors", adapter / "adapter_model.bin");
       },
       "its weights are pickled"},
  };
  const Base base("qwen3_lora");
  const auto refusal = [&](const std::string& format, const fs::path& from) {
    const std::string out = base.scratch / "out";
    fs::remove_all(out);
    const std::string text = host::failure_of([&] { import_folder(format, from, out); }).text;
    CHECK(!fs::exists(out));
    return text;
  };
  for (const auto& one : cases) {
    const fs::path adapter = base.scratch / "adapter";
    fs::remove_all(adapter);
    fs::copy(folder() / "peft/qwen3_lora", adapter);
    one.edit(adapter);
    const std::string found = refusal(peft_over(base.path), adapter);
    CAPTURE(one.says);
    CAPTURE(found);
    CHECK(found.find(one.says) != std::string::npos);
  }
  const fs::path good = folder() / "peft/qwen3_lora";
  CHECK(refusal("type = \"peft\"", good).find("option 'base' is missing") != std::string::npos);
  CHECK(refusal(peft_over((folder() / "hf/qwen3").string()), good)
            .find("it has no experiment.toml; make a folder of the base first: plait import hf") !=
        std::string::npos);
  const Base other("gpt2_lora");
  CHECK(refusal(peft_over(other.path), good).find("(gpt2) does not have; give the folder of") !=
        std::string::npos);
}

TEST_SUITE_END();
