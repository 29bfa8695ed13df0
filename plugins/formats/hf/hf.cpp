// format-hf: folders of models as Hugging Face's library transformers writes and reads them:
// config.json, model.safetensors or shards with their index, and the tokenizer's files; and
// folders of adapters as its library PEFT does: adapter_config.json, adapter_model.safetensors.
#include <plait/plugin.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kit/shell_word.hpp"
#include "plugins/formats/hf/chat_template.hpp"
#include "plugins/formats/hf/folder.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/formats/hf/places.hpp"
#include "plugins/formats/hf/read_config.hpp"
#include "plugins/formats/hf/read_layers.hpp"
#include "plugins/formats/hf/write_config.hpp"
#include "plugins/formats/hf/write_toml.hpp"
#include "plugins/support/description_file.hpp"

namespace {
using namespace plait;
namespace fs = std::filesystem;

constexpr std::array kOptions = {
    opt_path(
        "like", "\"\"",
        "for an export: the folder whose config.json, generation_config.json and tokenizer the "
        "model keeps; default: the one that it was imported to"),
    opt_text("family", "\"\"", "for an export: model_type; default: the first that fits"),
};

// Which tokenizer reads the folder's files.
void find_tokenizer(const fs::path& folder, hf::Speech& to) {
  constexpr struct {
    const char *file, *item;
  } kKinds[] = {
      {"tokenizer.json", "hf"}, {"vocab.json", "hf"}, {"tokenizer.model", "sentencepiece"}};
  for (const auto& kind : kKinds) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / kind.file, ignored)) continue;
    to.tokenizer = kind.item;
    to.file = kind.file;
    return;
  }
}

// eos_token_id of a JSON file: none, an id or a list of them. Some files name an id that the model
// does not have and so never draws.
void add_end_ids(const support::JsonPlace& json, int64_t vocabulary, hf::Speech& to) {
  const support::JsonPlace ids = json["eos_token_id"];
  if (ids.null() || !to.end.empty()) return;
  const bool list = ids.value().is_array();
  for (size_t i = 0; i < (list ? ids.size() : 1); ++i)
    if (const int64_t id = (list ? ids[i] : ids).whole(INT64_MIN, INT64_MAX);
        id >= 0 && id < vocabulary)
      to.end.push_back(id);
}

hf::Speech speech_of(const fs::path& folder, const support::JsonPlace& config, int64_t vocabulary) {
  hf::Speech speech;
  find_tokenizer(folder, speech);
  speech.chat_template = hf::template_of(folder);
  const support::SourceFile file{"format.hf", "folder",
                                 (folder / "generation_config.json").string()};
  std::error_code ignored;
  if (fs::is_regular_file(file.path, ignored)) {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    add_end_ids(support::JsonPlace(file, json, ""), vocabulary, speech);
  }
  add_end_ids(config, vocabulary, speech);
  return speech;
}

// The library has the experts of a block in one tensor in memory, and a tensor of each in files.
void check_experts(const hf::Folder& from, const hf::Model& model, const std::string& prefix,
                   const std::string& folder) {
  for (size_t i = 0; i < model.blocks.size(); ++i)
    if (const std::string joined =
            prefix + "layers." + std::to_string(i) + ".mlp.experts.gate_up_proj";
        model.blocks[i].experts && from.has(joined))
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[format.hf] folder '" + folder + "': it has the tensor '" + joined +
               "', all experts as the library holds them in memory, expected a tensor of each, "
               "as save_pretrained writes them; load the model with the library and save it so");
}

// An adapter alone has no config.json.
void refuse_adapter(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(fs::path(folder) / "config.json", ignored) &&
      fs::exists(fs::path(folder) / "adapter_config.json", ignored))
    fail(PLAIT_ERR_CONFIG, "[format.hf] folder '" + folder +
                               "' has an adapter of the library PEFT (adapter_config.json), and no "
                               "model; import its base first, then: plait import peft " +
                               kit::path_word(folder) + " OUT --option base=BASE");
}

void read(const Options&, const std::string& folder, const FormatOutput& out) {
  refuse_adapter(folder);
  const hf::Folder from(folder);
  const support::SourceFile file{"format.hf", "folder",
                                 (fs::path(folder) / "config.json").string()};
  support::in_memory(file, [&] {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    const support::JsonPlace config(file, json, "");
    const hf::Model model = hf::read_config(config);
    const std::string embedding = hf::embedding_tensor(*model.family);
    std::string prefix = hf::usual_prefix(*model.family);
    if (!from.has(prefix + embedding) && from.has(embedding)) prefix.clear();
    if (model.tied && from.has("lm_head.weight")) {
      from.check_equal("lm_head.weight", prefix + embedding);
      out.ignore("lm_head.weight");
    }
    check_experts(from, model, prefix, folder);
    hf::write_places(model, prefix, out, [&](const std::string& tensor, const auto& shape) {
      from.check_shape(tensor, shape);
    });
    for (const char* pattern : {"*.attn.bias", "*.attn.masked_bias", "*.rotary_emb.inv_freq"})
      out.ignore(pattern);
    out.file("experiment.toml",
             hf::experiment_toml(model, folder, speech_of(folder, config, model.vocabulary)));
    out.copy("config.json", file.path);
    hf::copy_companions(folder, out);
  });
}

// The folder with the files that an exported model keeps; "" if there is none. A model that was
// merged has no weights to load; its tokenizer is that of its base.
std::string folder_like(std::string given, const nlohmann::json& model) {
  if (!given.empty()) return given;
  for (const char* key : {"load", "tokenizer"}) {
    const fs::path path = fs::path(model.at(key).get<std::string>());
    std::error_code ignored;
    const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
    if (!path.empty() && fs::is_regular_file(folder / "config.json", ignored))
      return folder.string();
  }
  return "";
}

void write(const Options& options, std::string_view text, const FormatOutput& out) {
  const nlohmann::json description = nlohmann::json::parse(text);
  if (!description.at("adapters").empty())
    fail(PLAIT_ERR_CONFIG,
         "[format.hf] the model has adapters, which this format does not hold; merge them first: "
         "plait merge RUN --to DIR, and export DIR; or write them alone as the library PEFT does: "
         "plait export peft");
  const std::string like = folder_like(std::string(options.text("like")), description);
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  std::string family(options.text("family"));
  if (!like.empty()) {
    const support::SourceFile file{"format.hf", "like", (fs::path(like) / "config.json").string()};
    support::in_memory(file, [&] {
      const support::Bytes bytes = support::read_description(file);
      const nlohmann::json checked = support::parse_json(file, bytes.span());
      const std::string type = support::JsonPlace(file, checked, "")["model_type"].text();
      if (family.empty()) family = type;
      config = nlohmann::ordered_json::parse(bytes.span().begin(), bytes.span().end());
    });
  }
  const hf::Model model = hf::read_layers(description, family);
  hf::write_places(model, hf::usual_prefix(*model.family), out);
  config = hf::config_json(model, config, description.at("dtype"));
  out.file("config.json", config.dump(2) + "\n");
  if (!like.empty()) hf::copy_companions(like, out);
}

constexpr std::array kPeftOptions = {
    opt_path("base", "\"\"",
             "for an import: the folder that the base was imported to; for an export: the folder "
             "whose config.json tells the base's family, by default the one that model.load names"),
    opt_text("adapter", "\"\"",
             "for an import: name of the adapter in the experiment, by default its type; for an "
             "export: the adapter that is written, by default all"),
    opt_text("family", "\"\"", "for an export: model_type; default: the first that fits"),
};

void read_peft(const Options& options, const std::string& folder, const FormatOutput& out) {
  const auto tokenizer_in = [](const std::string& base) {
    hf::Speech speech;
    find_tokenizer(base, speech);
    return speech;
  };
  hf::read_adapter(folder, std::string(options.text("base")), std::string(options.text("adapter")),
                   tokenizer_in, out);
}

// model_type of a folder's config.json; "" without a folder.
std::string family_of(const std::string& folder) {
  if (folder.empty()) return "";
  std::string family;
  const support::SourceFile file{"format.peft", "base",
                                 (fs::path(folder) / "config.json").string()};
  support::in_memory(file, [&] {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    family = support::JsonPlace(file, json, "")["model_type"].text();
  });
  return family;
}

// The folder that the base came from, where the one that it was imported to tells.
std::string source_of(const std::string& imported) {
  const support::SourceFile file{"format.peft", "base",
                                 (fs::path(imported) / "weights.map.json").string()};
  std::error_code ignored;
  if (imported.empty() || !fs::is_regular_file(file.path, ignored)) return imported;
  std::string source;
  support::in_memory(file, [&] {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    source = support::JsonPlace(file, json, "")["weights"].text("");
  });
  return source;
}

void write_peft(const Options& options, std::string_view text, const FormatOutput& out) {
  const nlohmann::json description = nlohmann::json::parse(text);
  const std::string base = folder_like(std::string(options.text("base")), description);
  const std::string given(options.text("family"));
  hf::write_adapter(description, given.empty() ? family_of(base) : given,
                    std::string(options.text("adapter")), source_of(base), out);
}

}  // namespace

PLAIT_PLUGIN("format-hf", "0.1.0", "Apache-2.0",
             "Models of Hugging Face's library transformers, adapters of PEFT") {
  static const auto hf = format<read, write>(
      "hf", "a folder of Hugging Face: config.json, safetensors, tokenizer", kOptions);
  host.add(hf);
  static const auto peft = format<read_peft, write_peft>(
      "peft", "adapters of Hugging Face's library PEFT: adapter_config.json, safetensors",
      kPeftOptions);
  host.add(peft);
}
