// Tokenizers of published models: the ids and texts of the libraries that define them, from
// tests/golden/tokenizers.json, and what is said about files that are wrong.
#include <plait/tokenizer.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/host/tokenizers.hpp"

using host::contains;
using host::failure_of;
using nlohmann::json;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string from_base64(const std::string& text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    if ((n += 6) >= 8) bytes += static_cast<char>(bits >> (n -= 8) & 0xFF);
  }
  return bytes;
}

// A decoder of the library writes U+FFFD for bytes that are not UTF-8; ours leaves them.
bool valid(const std::string& text) { return text.find("\xEF\xBF\xBD") == std::string::npos; }

const json& golden() {
  static const json file = json::parse(read(PLAIT_SOURCE_FOLDER "/tests/golden/tokenizers.json"));
  return file;
}

void check_case(const json& one, const json& texts, const host::Engine& engine,
                const host::TempFolder& folder) {
  const std::string path = folder / one.at("file").get<std::string>();
  write(path,
        one.contains("text") ? one.at("text").get<std::string>() : from_base64(one.at("base64")));
  const host::Tokenizer t = host::open_tokenizer(
      engine, "type = \"" + one.at("type").get<std::string>() + "\"\npath = \"" + path + "\"\n" +
                  one.at("options").get<std::string>());
  using Ids = std::vector<int32_t>;
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(i);
    const std::string text = texts[i];
    const Ids expected = one.at("ids")[i];
    CHECK(host::encode(t, text) == expected);
    const json& plain = one.at("plain");
    const std::string key = std::to_string(i);
    CHECK(host::encode(t, text, PLAIT_ENCODE_PLAIN) ==
          (plain.contains(key) ? plain.at(key).get<Ids>() : expected));
    const std::string decoded = one.at("decoded")[i];
    if (valid(decoded)) CHECK(host::decode(t, expected) == decoded);
  }
  CHECK(host::encode(t, texts[0], PLAIT_ENCODE_WRAP) == one.at("wrapped").get<Ids>());
}

}  // namespace

TEST_CASE("tokenizers of published models: ids and texts of the libraries that define them") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  for (const json& one : golden().at("cases")) {
    CAPTURE(one.at("name").get<std::string>());
    check_case(one, golden().at("texts"), engine, folder);
  }
}

TEST_CASE("special tokens: their ids and roles, from options, files beside, or custom") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const json& llama3 = golden().at("cases")[1];
  write(folder / "tokenizer.json", llama3.at("text"));
  const auto roles = [&](const std::string& options) {
    const auto t =
        host::open_tokenizer(engine, "type = \"hf\"\npath = \"" + (folder / "") + "\"\n" + options);
    const json description = host::describe(t);
    std::string all;
    for (const json& special : description.at("specials"))
      all +=
          special.at("text").get<std::string>() + "=" + special.at("role").get<std::string>() + " ";
    return all;
  };
  CHECK(roles("") == "<|begin|>=begin <|end|>=end ");  // they stand around a text
  CHECK(roles("begin = \"<|end|>\"") == "<|begin|>=other <|end|>=begin ");
  write(folder / "tokenizer_config.json",
        R"({"bos_token": null, "eos_token": {"content": "<|begin|>"}, "pad_token": "<|end|>"})");
  CHECK(roles("") == "<|begin|>=end <|end|>=pad ");
  CHECK(contains(failure_of([&] { roles("pad = \"<pad>\""); }).text,
                 "pad = '<pad>' is none of the special tokens: <|begin|>, <|end|>"));
}

TEST_CASE("an added token that is normalized is found in normalized text, and keeps its content") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  write(folder / "tokenizer.json", R"({"normalizer": {"type": "Lowercase"},
      "added_tokens": [{"id": 2, "content": "AB", "normalized": true},
                       {"id": 3, "content": "BA", "normalized": false}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  const auto t = host::open_tokenizer(engine, "type = \"hf\"\npath = \"" + (folder / "") + "\"");
  CHECK(host::encode(t, "aBbaBA") == std::vector<int32_t>{2, 1, 0, 3});
  CHECK(host::decode(t, {2, 3}) == "AB BA");
}

TEST_CASE("vocab.json with merges.txt beside it is the tokenizer of GPT-2") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  write(folder / "vocab.json",
        R"({"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "<|endoftext|>": 5})");
  const std::string toml = "type = \"hf\"\npath = \"" + (folder / "") + "\"";
  CHECK(contains(failure_of([&] { host::open_tokenizer(engine, toml); }).text,
                 "merges.txt': cannot open it: No such file"));
  write(folder / "merges.txt", "#version: 0.2\na b\nĠ ab\n");
  const auto t = host::open_tokenizer(engine, toml);
  CHECK(host::encode(t, "ab abb<|endoftext|>a") == std::vector<int32_t>{3, 4, 1, 5, 0});
  CHECK(host::decode(t, {4, 5}, PLAIT_DECODE_SKIP_SPECIAL) == " ab");
  const auto failure = failure_of([&] { host::encode(t, "abc"); });
  CHECK(failure.code == PLAIT_ERR_DATA);
  CHECK(
      contains(failure.text, "'c' at byte 2 is no token, and the tokenizer has no unknown token"));
  write(folder / "merges.txt", "#version: 0.2\na b\nĠ b\n");
  CHECK(contains(failure_of([&] { host::open_tokenizer(engine, toml); }).text,
                 "offset 18: line 3: 'Ġb' is no token of the vocabulary"));
}

TEST_CASE("a tokenizer.json that is wrong: which key, what is there, what was expected") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string path = folder / "tokenizer.json";
  const auto failure = [&](const std::string& content) {
    write(path, content);
    return failure_of(
        [&] { host::open_tokenizer(engine, "type = \"hf\"\npath = \"" + path + "\""); });
  };
  const auto model = [](const std::string& keys) {
    return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [])" + keys + "}}";
  };
  const auto outside = [](const std::string& keys) {
    return R"({"model": {"vocab": {"a": 0}, "merges": []}, )" + keys + "}";
  };
  const struct {
    std::string content, text;
    uint32_t code = PLAIT_ERR_DATA;
  } table[] = {
      {"{\"model\": ", "offset 10: not valid JSON: parse error at line 1"},
      {"[]", "found array, expected an object"},
      {R"({"model": {"vocab": []}})", "key 'model.vocab': there is no token"},
      {R"({"a": 1})", "this is no tokenizer.json, which has a model"},
      {R"({"model": {"type": "WordPiece"}})",
       "key 'model.type': 'WordPiece' is not known; known are BPE, Unigram",
       PLAIT_ERR_UNIMPLEMENTED},
      {R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})",
       "key 'model.vocab.a': found -1, expected a whole number from 0 to 4194303"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 1e300}, "merges": []}})",
       "key 'model.vocab.a': found 1e+300, expected a whole number"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})",
       "key 'model.vocab.b': another token has the id 0"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}})",
       "key 'model.merges[0]': 'aa' is no token of the vocabulary"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", 1]]}})",
       "key 'model.merges[0]': expected \"left right\""},
      {R"({"model": {"type": "Unigram", "vocab": [["a", 0.5], ["a", 1]]}})",
       "key 'model.vocab[1]': the token 'a' was there before"},
      {model(R"(, "dropout": 0.1)"), "key 'model.dropout': the same text would have different ids",
       PLAIT_ERR_UNIMPLEMENTED},
      {model(R"(, "unk_token": "u")"), "key 'model.unk_token': 'u' is no token"},
      {outside(R"("normalizer": {"type": "Precompiled"})"),
       "key 'normalizer.type': 'Precompiled' is not known; known are NFC", PLAIT_ERR_UNIMPLEMENTED},
      {outside(R"re("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a(?<b>c)"}})re"),
       "key 'pre_tokenizer.pattern.Regex': the pattern 'a(?<b>c)', at 1: a group of a kind",
       PLAIT_ERR_UNIMPLEMENTED},
      {outside(R"("pre_tokenizer": {"type": "Metaspace", "replacement": ""})"),
       "key 'pre_tokenizer.replacement': expected one character"},
      {outside(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
                                    {"type": "Digits"}]})"),
       "key 'pre_tokenizer.pretokenizers[1].type': nothing may follow ByteLevel",
       PLAIT_ERR_UNIMPLEMENTED},
      {R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"vocab": {"a": 0}, "merges": [],
           "continuing_subword_prefix": "##"}})",
       "continuing_subword_prefix and end_of_word_suffix do not go with ByteLevel",
       PLAIT_ERR_UNIMPLEMENTED},
      {outside(R"("decoder": {"type": "CTC"})"), "key 'decoder.type': 'CTC' is not known",
       PLAIT_ERR_UNIMPLEMENTED},
      {outside(R"("post_processor": {"type": "TemplateProcessing", "single": []})"),
       "key 'post_processor.single': expected one Sequence"},
      {outside(R"("added_tokens": [{"id": 5000000000, "content": "x"}])"),
       "key 'added_tokens[0].id': found 5000000000"},
      {outside(R"("added_tokens": [{"id": 1}])"),
       "key 'added_tokens[0].content': found nothing, expected a text"},
  };
  for (const auto& row : table) {
    CAPTURE(row.content);
    const auto found = failure(row.content);
    CHECK_MESSAGE(contains(found.text, row.text), found.text);
    CHECK(found.code == row.code);
  }
}

TEST_CASE("punctuation is that of Unicode 8, as the library has it") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string path = folder / "tokenizer.json";
  write(path, R"({"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"},
    "model": {"type": "BPE", "merges": [["a", "\u055A"], ["a", "\uD805\uDC4C"], ["a", "\u166D"]], )"
              R"("vocab":
      {"a": 0, "\u055A": 1, "\uD805\uDC4C": 2, "\u166D": 3, "a\u055A": 4, "a\uD805\uDC4C": 5, )"
              R"("a\u166D": 6}}})");
  const host::Tokenizer t =
      host::open_tokenizer(engine, "type = \"hf\"\npath = \"" + path + "\"\n");
  CHECK(host::encode(t, "a\u055A") == std::vector<int32_t>{0, 1});
  CHECK(host::encode(t, "a\U0001144C") == std::vector<int32_t>{5});  // of Unicode 9
  CHECK(host::encode(t, "a\u166D") == std::vector<int32_t>{0, 3});   // a symbol since Unicode 12
}

// 0x11 + 0 + 000 and 0x11 + 000 + 0 are equally likely; which sum is greater in the last bit
// depends on how the digits of the scores are read. tokenizers 0.23.3 has the first.
TEST_CASE("unigram: equally likely ways, with scores of 17 digits, as the library has them") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string path = folder / "tokenizer.json";
  write(path, R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0],
    ["0x11", -10.941066019069583], ["0", -7.798070961291274], ["000", -9.819717333836302]]}})");
  const host::Tokenizer t =
      host::open_tokenizer(engine, "type = \"hf\"\npath = \"" + path + "\"\n");
  CHECK(host::encode(t, "0x110000") == std::vector<int32_t>{1, 2, 3});
}

TEST_CASE("tiktoken: the encoding by the name of the file, and lines that are wrong") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const auto open = [&](const std::string& name, const std::string& content,
                        const std::string& options = "") {
    write(folder / name, content);
    return host::open_tokenizer(
        engine, "type = \"tiktoken\"\npath = \"" + (folder / name) + "\"\n" + options);
  };
  CHECK(host::describe(open("cl100k_base.tiktoken", "YQ== 0\n")).at("vocabulary") == 100277);
  const auto text = [&](const std::string& content, const std::string& options) {
    return failure_of([&] { open("r.tiktoken", content, options); }).text;
  };
  CHECK(contains(text("YQ== 0\n", ""), "does not tell the encoding; give encoding, one of gpt2"));
  CHECK(contains(text("YQ== 0\nYQ= 1\n", "encoding = \"gpt2\""),
                 "offset 7: expected a token in base64"));
  CHECK(contains(text("YQ== 0\nYg== 0\n", "encoding = \"gpt2\""),
                 "offset 7: another token has the id 0"));
  for (const char* line :
       {"YQ==1", "YQ== ", "YQ== -1", "YQ== 1x", "YQ== 2147483648", " 1", "Y=== 1", "Y*== 1"})
    CHECK(contains(text("YQ== 0\n" + std::string(line), "encoding = \"gpt2\""),
                   "offset 7: expected a token in base64, a space, and an id below"));
  CHECK(contains(text("YQ== 0\nYQ== 1\n", "encoding = \"gpt2\""),
                 "offset 7: this token was there before"));
  CHECK(contains(text("", "encoding = \"gpt2\""), "there is no token"));
  CHECK(contains(text("YQ== 0\n", "encoding = \"gpt2\"\npattern = \"a\""),
                 "give encoding or pattern, not both"));
  CHECK(contains(text("YQ== 0\n", "pattern = \"a\"\nspecials = [\"x=0\"]"),
                 "the special token 'x' has the id 0, which another token has"));
}

TEST_CASE("tiktoken: a special token with its id, and one that contains a number") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  write(folder / "r.tiktoken", "YQ== 0\nYg== 1\n");
  const auto t = host::open_tokenizer(
      engine, "type = \"tiktoken\"\npath = \"" + (folder / "r.tiktoken") +
                  "\"\npattern = \"[ab]\"\nspecials = [\"<|x|>=7\", \"<|y=1|>\", \"<|z=|>\"]");
  CHECK(host::encode(t, "a<|x|>b<|y=1|><|z=|>") == std::vector<int32_t>{0, 7, 1, 8, 9});
  write(folder / "r.tiktoken", "YQ== 1\nYg== 2\n");
  const auto first =
      host::open_tokenizer(engine, "type = \"tiktoken\"\npath = \"" + (folder / "r.tiktoken") +
                                       "\"\npattern = \"[ab]\"\nspecials = [\"<|x|>=0\"]");
  CHECK(host::encode(first, "a<|x|>b") == std::vector<int32_t>{1, 0, 2});
}

TEST_CASE("tiktoken: lines of another system, empty ones, and a last one without an end") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  write(folder / "r.tiktoken", "YQ== 0\r\n\r\nw78= 1\n\nPz8/ 2\r\nPj4+ 3\r\nYWJj 4");
  const auto t =
      host::open_tokenizer(engine, "type = \"tiktoken\"\npath = \"" + (folder / "r.tiktoken") +
                                       "\"\npattern = \"[?]+|[>]+|abc|.\"");
  CHECK(host::encode(t, "aÿ??\?>>>abc") == std::vector<int32_t>{0, 1, 2, 3, 4});
}

// The library tiktoken leaves such text out.
TEST_CASE("tiktoken: text that the pattern does not match is an error, not lost") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  write(folder / "r.tiktoken", "YQ== 0\nYg== 1\nIA== 2\n");
  const auto open = [&](const std::string& pattern) {
    return host::open_tokenizer(engine, "type = \"tiktoken\"\npath = \"" + (folder / "r.tiktoken") +
                                            "\"\npattern = '" + pattern +
                                            "'\nspecials = [\"<|x|>\"]");
  };
  const auto letters = open("[ab]+");
  CHECK(host::encode(letters, "ab<|x|>b") == std::vector<int32_t>{0, 1, 3, 1});
  for (const auto& [text, says] : {std::pair{"ab<|x|>b a", "does not match ' ' at byte 8, which"},
                                   {"<|x|>  ", "does not match '  ' at byte 5, which"},
                                   {"  ab", "does not match '  ' at byte 0, which"}}) {
    const auto failure = failure_of([&] { host::encode(letters, text); });
    CHECK(failure.code == PLAIT_ERR_DATA);
    CHECK_MESSAGE(contains(failure.text, says), failure.text);
  }
  const auto all = open("[ab]+|[\\s\\S]");  // as the message says
  CHECK(host::encode(all, "ab<|x|>b a") == std::vector<int32_t>{0, 1, 3, 1, 2, 0});
}

TEST_CASE("sentencepiece: a file that is no model") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  write(folder / "m.model", "no model");
  const auto failure = failure_of([&] {
    host::open_tokenizer(engine,
                         "type = \"sentencepiece\"\npath = \"" + (folder / "m.model") + "\"");
  });
  CHECK(failure.code == PLAIT_ERR_DATA);
  CHECK(contains(failure.text, "SentencePiece cannot read it as a model"));
}

// SentencePiece follows the trie of such a table without a check.
TEST_CASE("sentencepiece: a damaged table of normalization, and a file that is cut, say where") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string toml = "type = \"sentencepiece\"\npath = \"" + (folder / "m.model") + "\"";
  const std::string whole = read(PLAIT_SOURCE_FOLDER "/tests/fuzz/corpus/sentencepiece/rules");
  write(folder / "m.model", whole);
  CHECK(host::encode(host::open_tokenizer(engine, toml), "AB") ==
        host::encode(host::open_tokenizer(engine, toml), "ab"));
  const size_t table = whole.find(std::string("\0\4\0\0", 4));  // 1024 bytes of trie
  REQUIRE(table != whole.npos);
  const auto failure = [&](const std::string& content) {
    write(folder / "m.model", content);
    return failure_of([&] { host::open_tokenizer(engine, toml); });
  };
  std::string damaged = whole;
  damaged.replace(table + 4, 4, "\xFF\xFF\xFF\xFF");
  const auto found = failure(damaged);
  CHECK(found.code == PLAIT_ERR_DATA);
  CHECK_MESSAGE(contains(found.text, "m.model', offset " + std::to_string(table) +
                                         ": SentencePiece cannot read it as a model: its "
                                         "precompiled_charsmap is damaged: a node of its trie"),
                found.text);
  CHECK(contains(failure(whole.substr(0, table + 100)).text, "longer than what holds it"));
}

TEST_CASE("a file of a tokenizer that is far too large is refused before it is read") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  for (const auto& [type, name] : {std::pair{"hf", "tokenizer.json"},
                                   {"tiktoken", "cl100k_base.tiktoken"},
                                   {"sentencepiece", "m.model"}}) {
    const std::string path = folder / name;
    write(path, "");
    std::filesystem::resize_file(path, (256u << 20) + 1);  // takes no space: it is sparse
    const auto failure = failure_of([&] {
      host::open_tokenizer(engine, std::string("type = \"") + type + "\"\npath = \"" + path + "\"");
    });
    CHECK(failure.code == PLAIT_ERR_DATA);
    CHECK_MESSAGE(
        contains(failure.text, std::string(name) + "': it has 268435457 bytes, expected at most "
                                                   "268435456; is it the file that its name says?"),
        failure.text);
  }
}
