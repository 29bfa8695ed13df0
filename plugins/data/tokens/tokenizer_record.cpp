#include "plugins/data/tokens/tokenizer_record.hpp"

#include <algorithm>

#include "plugins/support/description_file.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::data::tokens {
namespace {

bool is_fingerprint(const std::string& text) {
  return text.size() == 16 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

TokenizerRecord read_tokenizer_record(const std::string& path, int64_t tokens) {
  if (::access(path.c_str(), R_OK) != 0) return {};
  try {
    const support::SourceFile source{"data.tokens", "path", path};
    const support::Bytes bytes = support::read_description(source);
    const nlohmann::json all = support::parse_json(source, bytes.span());
    const support::JsonPlace record(source, all, "");
    constexpr int64_t kMost = int64_t{1} << 62;
    const support::JsonPlace tokenizer = record["tokenizer"];
    if (record["tokens"].whole(0, kMost) != tokens) return {};
    const std::string& fingerprint = tokenizer["fingerprint"].text();
    if (!is_fingerprint(fingerprint)) return {};
    const std::string& type = tokenizer["type"].text();
    return {fingerprint, type, "'" + type + "' by '" + path + "'"};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace plait::data::tokens
