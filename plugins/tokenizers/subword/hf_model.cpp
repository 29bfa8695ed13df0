// tokenizer.json: the vocabulary, and how words become ids of it.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "plugins/tokenizers/subword/hf_parts.hpp"
#include "plugins/tokenizers/subword/unigram.hpp"

namespace plait::subword {

TokenIds read_vocabulary(const JsonPlace& place) {
  TokenIds ids;
  std::vector<bool> taken;
  for (const auto& [text, value] : place.object().items()) {
    const auto id = static_cast<size_t>(place[text].whole(0, kMostIds - 1));
    if (id >= taken.size()) taken.resize(2 * id + 1);
    if (taken[id]) place[text].bad("another token has the id " + std::to_string(id));
    taken[id] = true;
    ids.emplace(text, static_cast<int32_t>(id));
  }
  return ids;
}

MergeReader::MergeReader(const TokenIds& vocabulary, size_t n, std::string prefix)
    : vocabulary_(vocabulary), prefix_(std::move(prefix)), merges_(n) {}

std::string MergeReader::add(std::string_view left, std::string_view right) {
  const auto missing = [](std::string_view text) {
    return "'" + std::string(text) + "' is no token of the vocabulary";
  };
  const int32_t a = find_token(vocabulary_, left), b = find_token(vocabulary_, right);
  if (a == kNoToken || b == kNoToken) return missing(a == kNoToken ? left : right);
  std::string whole(left);
  whole += right.substr(right.starts_with(prefix_) ? prefix_.size() : 0);
  const int32_t id = find_token(vocabulary_, whole);
  if (id == kNoToken) return missing(whole);
  merges_.add(a, b, {rank_++, id});
  return {};
}
std::string MergeReader::add(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos)
    return "found '" + std::string(line) + "', expected two tokens with a space between them";
  return add(line.substr(0, space), line.substr(space + 1));
}

std::unique_ptr<const Model> make_bpe(const TokenIds& vocabulary, Merges merges,
                                      BpeOptions options) {
  if (!options.bytes)
    return std::make_unique<Bpe>(vocabulary, std::move(merges), std::move(options));
  TokenIds by_bytes;
  std::string bytes;
  for (const auto& [text, id] : vocabulary)
    if (bytes_of(text, bytes)) by_bytes.emplace(bytes, id);
  return std::make_unique<Bpe>(std::move(by_bytes), std::move(merges), std::move(options));
}

namespace {
std::unique_ptr<const Model> read_bpe(const JsonPlace& place, bool bytes, TokenIds& vocabulary) {
  vocabulary = read_vocabulary(place["vocab"]);
  const JsonPlace dropout = place["dropout"];
  if (!dropout.null() && dropout.number() != 0.0)
    dropout.bad("the same text would have different ids; set it to null", PLAIT_ERR_UNIMPLEMENTED);
  BpeOptions options;
  options.bytes = bytes;
  options.ignore_merges = place["ignore_merges"].flag(false);
  options.fuse_unknown = place["fuse_unk"].flag(false);
  options.prefix = place["continuing_subword_prefix"].text("");
  options.suffix = place["end_of_word_suffix"].text("");
  if (bytes && !(options.prefix + options.suffix).empty())
    place.bad("continuing_subword_prefix and end_of_word_suffix do not go with ByteLevel",
              PLAIT_ERR_UNIMPLEMENTED);
  if (place["byte_fallback"].flag(false)) options.byte_tokens = byte_tokens(vocabulary);
  const JsonPlace unknown = place["unk_token"];
  if (!unknown.null()) options.unknown = find_token(vocabulary, unknown.text());
  if (!unknown.null() && options.unknown == kNoToken)
    unknown.bad("'" + unknown.text() + "' is no token of the vocabulary");

  const JsonPlace list = place["merges"];
  MergeReader reader(vocabulary, list.size(), options.prefix);
  for (size_t i = 0; i < list.size(); ++i) {
    const nlohmann::json& merge = list.value()[i];
    std::string wrong;
    if (merge.is_string())
      wrong = reader.add(merge.get_ref<const std::string&>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      wrong = reader.add(merge[0].get_ref<const std::string&>(),
                         merge[1].get_ref<const std::string&>());
    else
      wrong = "expected \"left right\" or [\"left\", \"right\"]";
    if (!wrong.empty()) list[i].bad(wrong);
  }
  return make_bpe(vocabulary, reader.take(), std::move(options));
}

namespace {

// The library reads a decimal as its digits, rounded to a double, times a power of ten, rounded
// again: of 17 digits that is not always the nearest double. Between ways to write a word that are
// equally likely the last bit decides.
double as_the_library_reads(double score) {
  if (!(std::fabs(score) > 1e-200 && std::fabs(score) < 1e200)) return score;
  char text[40];
  const char* end =
      std::to_chars(text, text + sizeof text, std::fabs(score), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  for (const char* at = text; at != end; ++at) {
    if (*at == 'e') {
      exponent += std::atoi(std::string(at + 1, end).c_str());
      break;
    }
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = 10 * digits + static_cast<uint64_t>(*at - '0');
    exponent -= fraction ? 1 : 0;
  }
  const double power = std::pow(10.0, std::abs(exponent)), rounded = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? rounded / power : rounded * power, score);
}

}  // namespace

std::unique_ptr<const Model> read_unigram(const JsonPlace& place, bool bytes,
                                          TokenIds& vocabulary) {
  if (bytes) place["type"].bad("Unigram does not go with ByteLevel", PLAIT_ERR_UNIMPLEMENTED);
  const JsonPlace list = place["vocab"];
  if (list.size() == 0) list.bad("there is no token");
  if (list.size() > static_cast<size_t>(kMostIds)) list.bad("too many tokens");
  std::vector<double> scores;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonPlace token = list[i];
    if (token.size() != 2) token.bad("expected a token and its score");
    const std::string& text = token[size_t{0}].text();
    if (!vocabulary.emplace(text, static_cast<int32_t>(i)).second)
      token.bad("the token '" + text + "' was there before");
    scores.push_back(as_the_library_reads(token[1].number()));
  }
  UnigramOptions options;
  const JsonPlace unknown = place["unk_id"];
  if (!unknown.null())
    options.unknown = static_cast<int32_t>(unknown.whole(0, static_cast<int64_t>(list.size()) - 1));
  if (place["byte_fallback"].flag(false)) options.byte_tokens = byte_tokens(vocabulary);
  return std::make_unique<Unigram>(vocabulary, std::move(scores), std::move(options));
}
}  // namespace

std::unique_ptr<const Model> read_model(const JsonPlace& place, bool bytes, TokenIds& vocabulary) {
  place.object();
  const JsonPlace type = place["type"];
  // The oldest files do not write the type.
  const std::string name = type.text(place["merges"].null() ? "Unigram" : "BPE");
  if (name == "BPE") return read_bpe(place, bytes, vocabulary);
  if (name == "Unigram") return read_unigram(place, bytes, vocabulary);
  type.unknown("BPE, Unigram");
}

}  // namespace plait::subword
