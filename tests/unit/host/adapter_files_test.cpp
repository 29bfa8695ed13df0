// Adapters that the library PEFT wrote: imported, computed, exported.
#include "tests/unit/host/adapter_folders.hpp"

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

using host::content;
using host::import_folder;
using host::Run;
using host::write;
using nlohmann::json;
using namespace host::peft;
namespace fs = std::filesystem;

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
    const std::string hf = folder() / "hf" / adapter.substr(0, adapter.find('_'));
    if (adapter == "gpt2_lora") {  // a base that was never imported stands for itself
      export_to(*run, toml, peft_over(hf), base.scratch / "direct");
      CHECK(config_of(base.scratch / "direct").at("base_model_name_or_path") == hf);
    }
    CHECK(ours.at("peft_type") == theirs.at("peft_type"));
    for (const char* key : {"task_type", "inference_mode", "use_rslora", "use_dora", "lora_dropout",
                            "vera_dropout", "fan_in_fan_out", "num_virtual_tokens", "token_dim",
                            "num_layers", "num_attention_heads", "encoder_hidden_size", "bias",
                            "deltaT", "tinit", "tfinal", "beta1", "beta2", "orth_reg_weight"})
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

// Cases from the library: tests/golden/golden_peft_defaults.py.
TEST_CASE("a key that an adapter_config.json leaves out has the library's value") {
  const json cases = json::parse(content(folder() / "peft_defaults.json"));
  CHECK(cases.size() > 12);
  for (const json& one : cases) {
    CAPTURE(one.dump());
    const Base base(one.at("adapter"));
    const std::string adapter = base.scratch / "adapter", in = base.scratch / "in";
    fs::copy(folder() / "peft" / std::string(one.at("adapter")), adapter);
    // The imported experiment; the error, where the tensors of the folder do not fit.
    const auto outcome = [&](const json& config) {
      write(adapter + "/adapter_config.json", config.dump());
      fs::remove_all(in);
      const std::string text =
          host::failure_of([&] { import_folder(peft_over(base.path), adapter, in); }).text;
      return fs::exists(in) ? content(in + "/experiment.toml") : text;
    };
    const std::string key = one.at("key");
    json config = config_of(adapter);
    config.erase(key);
    const std::string without = outcome(config);
    config[key] = one.at("value");
    CHECK(outcome(config) == without);
    config[key] = one.at("other");
    CHECK(outcome(config) != without);
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

TEST_SUITE_END();
