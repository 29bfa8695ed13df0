// The steps of a tokenizer.json one by one, and errors that only a text or its ids can bring. What
// is expected of Split and of normalizers is what the library tokenizers 0.23.3 has.
#include <plait/tokenizer.h>

#include <algorithm>
#include <fstream>

#include "tests/unit/host/tokenizers.hpp"

using host::contains;
using host::failure_of;
using nlohmann::json;
using Ids = std::vector<int32_t>;

namespace {

struct Bench {
  host::Engine engine{host::new_engine(), plait_engine_close};
  host::TempFolder folder;

  host::Tokenizer open(const std::string& type, const std::string& name, const std::string& content,
                       const std::string& options = "") const {
    std::ofstream(folder / name, std::ios::binary) << content;
    return host::open_tokenizer(
        engine, "type = \"" + type + "\"\npath = \"" + (folder / name) + "\"\n" + options);
  }
  host::Tokenizer hf(const json& keys) const { return open("hf", "tokenizer.json", keys.dump()); }

  // The pieces of a text with | between them: each part of `normalized` is a token, and of the ways
  // to make a piece the one of fewest tokens is the likeliest.
  std::string pieces(const json& keys, const std::string& text,
                     const std::string& normalized) const {
    json vocabulary = json::array();
    std::vector<std::string> tokens;
    const auto within = [&](size_t at) {  // a character
      return at < normalized.size() && (normalized[at] & 0xC0) == 0x80;
    };
    for (size_t i = 0; i < normalized.size(); ++i)
      for (size_t n = 1; n <= normalized.size() - i; ++n) {
        if (within(i) || within(i + n)) continue;
        const std::string part = normalized.substr(i, n);
        if (std::find(tokens.begin(), tokens.end(), part) != tokens.end()) continue;
        tokens.push_back(part);
        vocabulary.push_back({part, -1.0});
      }
    json all = keys;
    all["model"] = {{"type", "Unigram"}, {"vocab", vocabulary}};
    std::string joined;
    for (const int32_t id : host::encode(hf(all), text))
      joined += (joined.empty() ? "" : "|") + tokens.at(static_cast<size_t>(id));
    return joined;
  }
};

json split(const char* behavior, const json& pattern, bool invert = false) {
  return {{"pre_tokenizer",
           {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}}}};
}

}  // namespace

TEST_CASE("what becomes of matches, and of matches of no text") {
  const Bench b;
  const json dash = {{"String", "-"}}, letters = {{"Regex", "b*"}}, end = {{"Regex", "(?!.)"}},
             empty = {{"Regex", "x*"}};
  const struct {
    json keys;
    std::string text, expected;
  } rows[] = {
      {split("Removed", dash), "a--bc-", "a|bc"},
      {split("Isolated", dash), "a--bc-", "a|-|-|bc|-"},
      {split("MergedWithPrevious", dash), "a--bc-", "a-|-|bc-"},
      {split("MergedWithPrevious", dash), "--ab", "-|-|ab"},
      {split("MergedWithPrevious", dash, true), "a--bc-", "a|-|-bc|-"},
      {split("MergedWithNext", dash), "a--bc-", "a|-|-bc|-"},
      {split("MergedWithNext", dash), "--ab", "-|-ab"},
      {split("Contiguous", dash), "a--bc-", "a|--|bc|-"},
      {split("Removed", dash, true), "a--bc-", "-|-|-"},
      {split("Isolated", letters), "abca", "a|b|c|a"},
      {split("Removed", letters), "abca", "a|c|a"},
      {split("MergedWithPrevious", letters), "abca", "ab|c|a"},
      {split("MergedWithNext", letters), "abca", "a|bc|a"},
      {split("Contiguous", letters), "abca", "a|b|c|a"},
      {split("Contiguous", empty), "abca", "a|b|c|a"},
      {split("Isolated", end), "abca", "abca"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.keys.dump());
    CHECK(b.pieces(row.keys, row.text, row.text) == row.expected);
  }
}

TEST_CASE("normalizers that take marks away, and that replace no text") {
  const Bench b;
  const auto normalizer = [](const json& step) { return json{{"normalizer", step}}; };
  const auto replace = [&](const char* pattern) {
    return normalizer({{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", "-"}});
  };
  const json strip = {{"type", "StripAccents"}};
  const json decomposed = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFD"}}, strip}}};
  const struct {
    json keys;
    std::string text, expected;
  } rows[] = {
      {normalizer(strip), "a\u00e9\u0302b\u20dd\u0903", "a\u00e9b"},
      {normalizer(decomposed), "a\u00e9\u0302b\u00c5", "aebA"},
      {replace("x*"), "axxb", "-a-b-"},
      {replace("(?!.)"), "axxb", "axxb-"},
      {replace("(?=b)"), "axxb", "axx-b"},
      {replace("x+"), "axxb", "a-b"},
      {replace("x+"), "ab", "ab"},
      {replace("x*"), "", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.keys.dump());
    CHECK(b.pieces(row.keys, row.text, row.expected.empty() ? "a" : row.expected) == row.expected);
  }
}

TEST_CASE("names of steps that are not known, and lines that are no merge") {
  const Bench b;
  const auto outside = [&](const json& keys) {
    json all = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}}};
    all.update(keys);
    return failure_of([&] { b.hf(all); });
  };
  const struct {
    json keys;
    const char* says;
  } rows[] = {
      {split("Kept", {{"String", "-"}}),
       "key 'pre_tokenizer.behavior': 'Kept' is not known; known are Removed, Isolated, "
       "MergedWithPrevious, MergedWithNext, Contiguous"},
      {{{"pre_tokenizer",
         {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}}},
       "key 'pre_tokenizer.prepend_scheme': 'last' is not known; known are always, first, never"},
      {{{"post_processor", {{"type", "Other"}}}},
       "key 'post_processor.type': 'Other' is not known; known are TemplateProcessing, ByteLevel, "
       "BertProcessing, RobertaProcessing, Sequence"},
  };
  for (const auto& row : rows) {
    const auto found = outside(row.keys);
    CHECK_MESSAGE(contains(found.text, row.says), found.text);
    CHECK(found.code == PLAIT_ERR_UNIMPLEMENTED);
  }
  for (const char* line : {"ab", "a b c"}) {
    const auto found = outside(
        {{"model",
          {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {line}}}}});
    CHECK_MESSAGE(contains(found.text, "key 'model.merges[0]': found '" + std::string(line) +
                                           "', expected two tokens with a space between them"),
                  found.text);
    CHECK(found.code == PLAIT_ERR_DATA);
  }
}

TEST_CASE("unigram: characters without a token become bytes, the unknown token, or an error") {
  const Bench b;
  json vocabulary = json::array({{"<unk>", 0.0}, {"a", -1.0}});
  const json plain = {{"type", "Unigram"}, {"vocab", vocabulary}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    vocabulary.push_back({name, -1.0});
  }
  const auto with = [&](json model, const json& keys) {
    model.update(keys);
    return b.hf({{"model", model}});
  };
  const json bytes = {{"type", "Unigram"}, {"vocab", vocabulary}, {"byte_fallback", true}};
  CHECK(host::encode(with(bytes, {{"unk_id", 0}}), "a\u00e9a") == Ids{1, 2 + 0xC3, 2 + 0xA9, 1});
  CHECK(host::encode(with(plain, {{"unk_id", 0}}), "a\u00e9\u00e9a") == Ids{1, 0, 1});
  const auto failure = failure_of([&] { host::encode(with(plain, json::object()), "aa\u00e9"); });
  CHECK(failure.code == PLAIT_ERR_DATA);
  CHECK_MESSAGE(contains(failure.text,
                         "'\u00e9' at byte 2 is no token, and the tokenizer has no unknown token"),
                failure.text);
}

TEST_CASE("tiktoken: a pattern that is none, and one that takes too long on a text") {
  const Bench b;
  const auto open = [&](const char* pattern) {
    return b.open("tiktoken", "r.tiktoken", "YQ== 0\n",
                  std::string("pattern = '") + pattern + "'\n");
  };
  const auto none = failure_of([&] { open("a("); });
  CHECK(none.code == PLAIT_ERR_UNIMPLEMENTED);
  CHECK_MESSAGE(contains(none.text, "[tokenizer.tiktoken] the pattern 'a(', at 1"), none.text);
  const auto t = open("(?:a|a)+b|a");
  CHECK(host::encode(t, "aa") == Ids{0, 0});
  const auto slow = failure_of([&] { host::encode(t, std::string(64, 'a')); });
  CHECK(slow.code == PLAIT_ERR_DATA);
  CHECK_MESSAGE(contains(slow.text, "[tokenizer.tiktoken] "), slow.text);
  CHECK_MESSAGE(contains(slow.text, "too many ways"), slow.text);
}

TEST_CASE("sentencepiece: control tokens in a text, and fields of a file that are not read") {
  const Bench b;
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/fuzz/corpus/sentencepiece/rules",
                     std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const auto open = [&](const std::string& behind) {
    return b.open("sentencepiece", "m.model", whole + behind);
  };
  const auto t = open("");
  const Ids ids = host::encode(t, "ab");
  int32_t end = -1;
  std::string text;
  const json described = host::describe(t);
  for (const json& special : described.at("specials"))
    if (special.at("role") == "end") {
      end = special.at("id");
      text = special.at("text");
    }
  REQUIRE(end >= 0);
  Ids twice = ids;
  twice.push_back(end);
  twice.insert(twice.end(), ids.begin(), ids.end());
  const std::string plain = host::decode(t, ids);
  CHECK(host::decode(t, twice) == plain + text + plain);
  CHECK(host::decode(t, twice, PLAIT_DECODE_SKIP_SPECIAL) == plain + plain);

  // Field 200, for extensions: a number, 8 bytes, 4 bytes.
  for (const std::string& field :
       {std::string("\xC0\x0C\x85\1"), std::string("\xC1\x0C") + "12345678",
        std::string("\xC5\x0C") + "1234"})
    CHECK(host::encode(open(field), "ab") == ids);
  const std::string at = "m.model', offset " + std::to_string(whole.size());
  const auto says = [&](const std::string& behind) {
    return failure_of([&] { open(behind); }).text;
  };
  CHECK(contains(says("\xC0"), at + ": SentencePiece cannot read it as a model: a number without"));
  CHECK(contains(says("\xC5\x0C"
                      "123"),
                 at + ": SentencePiece cannot read it as a model: a field "
                      "that is longer than what holds it"));
  CHECK(contains(says("\xC3\x0C"), "a field of an unknown type"));
}
