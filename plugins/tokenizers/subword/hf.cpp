#include "plugins/tokenizers/subword/hf.hpp"

#include <algorithm>
#include <filesystem>

#include "plugins/support/description_file.hpp"
#include "plugins/tokenizers/subword/hf_parts.hpp"
#include "plugins/tokenizers/subword/roles.hpp"

#include <xxhash.h>

namespace plait::subword {
namespace {
namespace fs = std::filesystem;
using support::SourceFile;

constexpr const char* kWho = "tokenizer.hf";
constexpr uint64_t kVersion = 0x68660000000001;  // "hf", version 1
constexpr std::pair<const char*, const char*> kVocabularies[] = {{"vocab.json", "merges.txt"},
                                                                 {"encoder.json", "vocab.bpe"}};
// Keys of tokenizer_config.json.
constexpr std::pair<const char*, uint32_t> kRoles[] = {{"bos_token", PLAIT_TOKEN_BEGIN},
                                                       {"eos_token", PLAIT_TOKEN_END},
                                                       {"pad_token", PLAIT_TOKEN_PAD},
                                                       {"unk_token", PLAIT_TOKEN_UNKNOWN}};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

class Reader {
 public:
  explicit Reader(const Options& options) : options_(options) { parts_.who = kWho; }

  Parts read() {
    const fs::path path = std::string(options_.text("path"));
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      read_file(path);
    } else if (is_file(path / "tokenizer.json")) {
      read_file(path / "tokenizer.json");
    } else {
      const auto pair = std::find_if(std::begin(kVocabularies), std::end(kVocabularies),
                                     [&](const auto& p) { return is_file(path / p.first); });
      if (pair == std::end(kVocabularies))
        fail(PLAIT_ERR_NOT_FOUND, "[tokenizer.hf] path '" + path.string() +
                                      "': the folder has neither tokenizer.json nor vocab.json; "
                                      "give the folder of a model, or the file itself");
      read_file(path / pair->first);
    }
    add_roles();
    return std::move(parts_);
  }

 private:
  support::Bytes bytes_of_file(const SourceFile& file) {
    support::Bytes bytes = support::read_description(file);
    parts_.fingerprint =
        XXH3_64bits_withSeed(bytes.data(), bytes.size(), parts_.fingerprint + kVersion);
    return bytes;
  }

  void read_file(const fs::path& path) {
    folder_ = path.parent_path();
    const SourceFile file{kWho, "path", path.string()};
    support::in_memory(file, [&] {
      const nlohmann::json json = parse_json(file, bytes_of_file(file).span());
      const JsonPlace root(file, json, "");
      root.object();
      if (root["model"].null() || !root["model"].value().is_object())
        read_vocabulary_file(path, root);
      else
        read_tokenizer_json(root, parts_);
    });
  }

  // vocab.json, whose merges stand in a file beside it: the tokenizer of GPT-2.
  void read_vocabulary_file(const fs::path& path, const JsonPlace& root) {
    const auto pair = std::find_if(std::begin(kVocabularies), std::end(kVocabularies),
                                   [&](const auto& p) { return path.filename() == p.first; });
    if (pair == std::end(kVocabularies))
      root["model"].bad(
          "this is no tokenizer.json, which has a model, and no vocab.json, which "
          "has merges.txt beside it");
    const TokenIds ids = read_vocabulary(root);
    const SourceFile file{kWho, "path", (path.parent_path() / pair->second).string()};
    const support::Bytes bytes = bytes_of_file(file);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    MergeReader reader(ids, static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), "");
    for (size_t line = 1, begin = 0; begin < text.size(); ++line) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view one = text.substr(begin, end - begin);
      if (one.ends_with('\r')) one.remove_suffix(1);
      const bool version = line == 1 && one.starts_with("#version");
      const std::string wrong = version || one.empty() ? "" : reader.add(one);
      if (!wrong.empty()) file.bad(begin, "line " + std::to_string(line) + ": " + wrong);
      begin = end + 1;
    }
    BpeOptions options;
    options.bytes = true;
    parts_.splitters.push_back(split_by(Regex(kGpt2Pattern), Matched::kIsolated));
    parts_.model = make_bpe(ids, reader.take(), std::move(options));
    for (const std::string_view end : kCustomaryEnds)
      if (const int32_t id = find_token(ids, end); id != kNoToken)
        parts_.added.push_back(special_token(id, end));
    set_texts(ids, parts_);
    parts_.decoders.push_back(decode_stand_ins());
    decode_texts(parts_);
  }

  // Options first, then the file beside, then what stands around a text, then custom.
  void add_roles() {
    add_given_roles(parts_, options_);
    read_config();
    const auto wrap = [&](const Ids& ids, uint32_t role) {
      for (const int32_t id : ids)
        for (const AddedToken& token : parts_.added)
          if (token.id == id && !has_role(parts_, role))
            parts_.roles.emplace_back(token.text, role);
    };
    wrap(parts_.before, PLAIT_TOKEN_BEGIN);
    wrap(parts_.behind, PLAIT_TOKEN_END);
    add_customary_end(parts_);
  }

  // It decides no id, so it is not part of the fingerprint.
  void read_config() {
    const fs::path path = folder_ / "tokenizer_config.json";
    if (!is_file(path)) return;
    const SourceFile file{kWho, "path", path.string()};
    const nlohmann::json json = parse_json(file, support::read_description(file).span());
    const JsonPlace root(file, json, "");
    root.object();
    for (const auto& [key, role] : kRoles) {
      const JsonPlace place = root[key];
      if (place.null() || has_role(parts_, role)) continue;
      // A text, or an object that has it.
      const std::string& text = place.value().is_string() ? place.text() : place["content"].text();
      parts_.roles.emplace_back(text, role);
    }
  }

  const Options& options_;
  fs::path folder_;
  Parts parts_;
};
}  // namespace

Parts read_hf(const Options& options) { return Reader(options).read(); }

}  // namespace plait::subword
