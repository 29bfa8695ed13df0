// Adapters that do not fit the files of the library PEFT, and faulty files of it: what is said.
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
       "'lm_head' has no tensor in adapter_model.safetensors, expected the tensors of each module"},
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
       "not valid JSON"},
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
