// The dataset of prompts and conversations: ids, labels and weights against plain second readings.
#include <filesystem>
#include <random>

#include "tests/unit/host_data/datasets.hpp"

using host::contains;
using host::Dataset;
using host::failure_of;
using nlohmann::json;

namespace {

using Ints = std::vector<int32_t>;
constexpr int32_t kEnd = 256;  // of the tokenizer `bytes`

std::string toml_of(const std::string& file, int length, const std::string& more = "",
                    const std::string& tokenizer = "{type = \"bytes\"}") {
  return "type = \"fine_tune\"\nfiles = \"" + file + "\"\ntokenizer = " + tokenizer +
         "\nlength = " + std::to_string(length) + "\n" + more;
}

Ints ids_of(const std::string& text) {
  Ints ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// A sample by its definition: ids, and for each whether it is learned.
struct Expected {
  Ints ids;
  std::vector<bool> learned;
  void add(const std::string& text, bool learn) {
    for (const int32_t id : ids_of(text)) add_id(id, learn);
  }
  void add_id(int32_t id, bool learn) {
    ids.push_back(id);
    learned.push_back(learn);
  }
};

void check_sample(const Dataset& d, int64_t i, const Expected& e, size_t length) {
  Ints tokens, labels;
  for (size_t t = 0; t < length; ++t) {
    const bool inside = t + 1 < e.ids.size();
    tokens.push_back(inside ? e.ids[t] : 0);
    labels.push_back(inside && e.learned[t + 1] ? e.ids[t + 1] : -100);
  }
  CHECK(d.read("tokens", i) == tokens);
  CHECK(d.read("labels", i) == labels);
}

struct Bench {
  host::Engine engine{host::new_engine(), plait_engine_close};
  host::TempFolder folder;
  std::string file(const std::string& content) const {
    host::write(folder / "d.jsonl", content);
    return folder / "d.jsonl";
  }
  Dataset open(const std::string& content, int length, const std::string& more = "") const {
    return Dataset(engine, toml_of(file(content), length, more));
  }
  std::string error(const std::string& content, const std::string& more = "",
                    int length = 8) const {
    return failure_of([&] { open(content, length, more); }).text;
  }
};

std::string line_of(const json& messages) {
  json list = json::array();
  for (const json& m : messages) list.push_back({{"role", m[0]}, {"content", m[1]}});
  return json{{"messages", list}}.dump() + "\n";
}

}  // namespace

TEST_CASE("prompts and completions: the loss is on the completion and its end token") {
  const Bench b;
  const Dataset d = b.open(R"({"prompt": "ab", "completion": "cd"})"
                           "\n\n"
                           R"({"id": 7, "prompt": "", "completion": "xyz"})"
                           "\n",
                           6, "reset_attention = true\nreset_positions = true");
  CHECK(d.samples() == 2);
  CHECK(d.read("tokens", 0) == Ints{'a', 'b', 'c', 'd', 0, 0});
  CHECK(d.read("labels", 0) == Ints{-100, 'c', 'd', kEnd, -100, -100});
  CHECK(d.read("labels", 1) == Ints{'y', 'z', kEnd, -100, -100, -100});
  CHECK(d.read("first", 0) == Ints{0, 0, 0, 0, 4, 5});
  CHECK(d.read("positions", 0) == Ints{0, 1, 2, 3, 0, 0});
}

TEST_CASE("placeholders stand in front of each line; the last one predicts its first token") {
  const Bench b;
  const std::string lines = R"({"prompt": "ab", "completion": "cd"})"
                            "\n"
                            R"({"prompt": "", "completion": "xyzuv"})"
                            "\n";
  const Dataset d = b.open(lines, 6, "placeholders = 2\nreset_attention = true");
  CHECK(d.samples() == 2);
  CHECK(d.read("tokens", 0) == Ints{0, 0, 'a', 'b', 'c', 'd'});
  CHECK(d.read("labels", 0) == Ints{-100, -100, -100, 'c', 'd', kEnd});
  CHECK(d.read("first", 0) == Ints{0, 0, 0, 0, 0, 0});
  CHECK(d.read("tokens", 1) == Ints{0, 0, 'x', 'y', 'z', 'u'});
  CHECK(d.read("labels", 1) == Ints{-100, 'x', 'y', 'z', 'u', 'v'});
  // What is left out of a line is left out behind the placeholders.
  const Dataset cut = b.open(lines, 4, "placeholders = 2\ntruncate = \"start\"");
  CHECK(cut.read("tokens", 1) == Ints{0, 0, 'u', 'v'});
  CHECK(cut.read("labels", 1) == Ints{-100, 'u', 'v', kEnd});
  CHECK(contains(b.error(lines, "placeholders = 8"),
                 "placeholders are 8, expected fewer than length, which is 8; set at"));
  CHECK(contains(b.error(lines, "placeholders = 2\npack = \"best_fit\""),
                 "which would hold several lines; set pack = \"none\"; set at"));
  CHECK(contains(b.error(lines, "placeholders = 5\ntruncate = \"refuse\""),
                 "a sample holds 4, one more than length without placeholders; set truncate"));
}

TEST_CASE("packed: whole lines together, each for itself") {
  const Bench b;
  std::string lines;
  for (const char* text : {"abcd", "e", "fg"})
    lines += json{{"prompt", ""}, {"completion", text}}.dump() + "\n";
  const Dataset d = b.open(lines, 6, "pack = \"best_fit\"\nreset_attention = true");
  CHECK(d.samples() == 2);
  CHECK(d.read("tokens", 0) == Ints{'a', 'b', 'c', 'd', 'f', 'g'});
  CHECK(d.read("labels", 0) == Ints{'b', 'c', 'd', kEnd, 'g', kEnd});
  CHECK(d.read("first", 0) == Ints{0, 0, 0, 0, 4, 4});
  CHECK(d.read("tokens", 1) == Ints{'e', 0, 0, 0, 0, 0});
}

TEST_CASE("conversations: random ones against the template written out") {
  const Bench b;
  std::mt19937 random(3);
  const auto text = [&] {
    std::string t;
    for (unsigned i = 0; i < random() % 9; ++i) t += "a \n\xC3\xA9|<"[random() % 7];
    return t;
  };
  for (int round = 0; round < 30; ++round) {
    json messages = json::array();
    Expected chatml, phi3;
    for (unsigned i = 0; i < 2 + random() % 5; ++i) {
      const char* role = i == 0 && round % 2 ? "system" : i % 2 ? "assistant" : "user";
      std::string t = text();
      std::erase_if(t, [](char c) { return static_cast<unsigned char>(c) > 127; });
      const bool learn = std::string(role) == "assistant";
      messages.push_back(json::array({role, t}));
      chatml.add("<|im_start|>" + std::string(role) + "\n", false);
      chatml.add(t + "<|im_end|>", learn);
      chatml.add("\n", false);
      phi3.add("<|" + std::string(role) + "|>\n", false);
      phi3.add(t + "<|end|>", learn);
      phi3.add("\n", false);
    }
    phi3.add("<|endoftext|>", false);
    const std::string line = line_of(messages);
    const int length = static_cast<int>(chatml.ids.size()) + 40;
    check_sample(b.open(line, length, "template = \"chatml\""), 0, chatml,
                 static_cast<size_t>(length));
    check_sample(b.open(line, length, "template = \"phi3\""), 0, phi3, static_cast<size_t>(length));
  }
}

TEST_CASE("a template renders prompts and completions too; llama2 learns the blanks it generates") {
  const Bench b;
  const Dataset d = b.open(R"({"prompt": "q", "completion": "a"})", 60, "template = \"llama2\"");
  Expected e;
  e.add("<s>[INST] q [/INST]", false);
  e.add(" a <|endoftext|>", true);  // the end of the tokenizer, which has no </s>
  check_sample(d, 0, e, 60);
}

TEST_CASE("a tokenizer that joins texts: the prompt's ids stay those of the prompt") {
  const Bench b;
  std::ifstream golden(PLAIT_SOURCE_FOLDER "/tests/golden/tokenizers.json");
  const json tokenizers = json::parse(golden);
  for (const json& one : tokenizers.at("cases"))
    if (one.at("name") == "llama2") host::write(b.folder / "tokenizer.json", one.at("text"));
  const std::string tokenizer = "{type = \"hf\", path = \"" + (b.folder / "tokenizer.json") + "\"}";
  const auto t = host::open_tokenizer(
      b.engine, "type = \"hf\"\npath = \"" + (b.folder / "tokenizer.json") + "\"");
  const std::string file = b.file(R"({"prompt": "the network", "completion": " learns</s> more"})");
  const Dataset d(b.engine, toml_of(file, 40, "", tokenizer));
  const Ints all = host::encode(t, "the network learns</s> more", PLAIT_ENCODE_WRAP),
             prompt = host::encode(t, "the network", PLAIT_ENCODE_WRAP);
  REQUIRE(std::equal(prompt.begin(), prompt.end(), all.begin()));
  const int32_t end = host::encode(t, "</s>").back();
  Expected e;
  bool ended = false;
  for (size_t i = 0; i < all.size(); ++i) {
    e.add_id(all[i], i >= prompt.size() && !ended);
    ended |= all[i] == end;
  }
  CHECK(ended);
  check_sample(d, 0, e, 40);
}

TEST_CASE("weights of messages, and of lines") {
  const Bench b;
  const std::string line =
      R"({"messages": [{"role": "user", "content": "q"},
          {"role": "assistant", "content": "a", "weight": 0},
          {"role": "user", "content": "r"},
          {"role": "assistant", "content": "b", "weight": 2.5}]})";
  std::string flat;
  for (const char c : line)
    if (c != '\n') flat += c;
  const std::string more = "template = \"tulu\"\nweights = true";
  const Dataset d = b.open(flat, 120, more);
  const auto weights = d.read<float>("weights", 0);
  const auto labels = d.read("labels", 0), tokens = d.read("tokens", 0);
  for (size_t t = 0; t < labels.size(); ++t) CHECK((weights[t] == 2.5f) == (labels[t] >= 0));
  const auto first = std::find(weights.begin(), weights.end(), 2.5f) - weights.begin();
  CHECK(labels[static_cast<size_t>(first)] == 'b');
  CHECK(contains(b.error(flat, "template = \"tulu\""),
                 "line 1, key 'messages[3].weight': found 2.5"));
  CHECK(contains(b.error(R"({"prompt": "a", "completion": "b", "weight": -1})"),
                 "line 1, key 'weight': found -1, expected a number, at least 0"));
}

TEST_CASE("lines that are too long: each rule") {
  const Bench b;
  const std::string lines = R"({"prompt": "abcdef", "completion": "ghij"})"
                            "\n"
                            R"({"prompt": "a", "completion": "b"})"
                            "\n";
  CHECK(b.open(lines, 4).samples() == 1);  // of the first no completion is left
  CHECK(b.open(lines, 4).read("tokens", 0) == Ints{'a', 'b', 0, 0});
  CHECK(b.open(lines, 7).read("labels", 0) == Ints{-100, -100, -100, -100, -100, 'g', 'h'});
  const Dataset start = b.open(lines, 4, "truncate = \"start\"");
  CHECK(start.samples() == 2);
  CHECK(start.read("labels", 0) == Ints{'h', 'i', 'j', kEnd});
  CHECK(b.open(lines, 4, "truncate = \"skip\"").samples() == 1);
  CHECK(contains(b.error(lines, "truncate = \"refuse\"", 4),
                 "line 1: there are 11 tokens, a sample holds 5"));
  CHECK(contains(b.error(R"({"prompt": "abcdef", "completion": "ghij"})", "", 4),
                 "none of the 1 lines makes a sample: 1 have more than 5 tokens"));
}

TEST_CASE("bytes that are not UTF-8 are repaired, or refused") {
  const Bench b;
  const std::string line = "{\"prompt\": \"\xFF\", \"completion\": \"b\"}\n";
  CHECK(b.open(line, 6).read("tokens", 0) == Ints{0xEF, 0xBF, 0xBD, 'b', 0, 0});
  CHECK(contains(b.error(line, "strict = true"), "line 1: it is not UTF-8 at byte 12"));
}

TEST_CASE("lines that are malformed: file, line, key, and what to do") {
  const Bench b;
  const std::string good = "{\"prompt\": \"a\", \"completion\": \"b\"}\n",
                    chat = "template = \"chatml\"";
  const auto says = [&](const std::string& line, const std::string& text) {
    const std::string error = b.error(good + line, chat, 100);
    CAPTURE(error);
    CHECK(contains(error, "d.jsonl', line 2"));
    CHECK(contains(error, text));
  };
  says("{\"prompt\": \"a\"", "this is no JSON");
  says("[1]", "found array, expected an object");
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  says("{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"weight\": " + deep + "}]}",
       "lists and objects are nested more than 100 deep, at byte 158");
  says("{\"text\": \"a\"}", "neither 'messages' nor 'prompt' and 'completion'; there are: text");
  says("{\"prompt\": \"a\"}", "key 'completion': is missing; there are: prompt");
  says("{\"prompt\": 3, \"completion\": \"\"}", "key 'prompt': found number, expected a text");
  says("{\"messages\": {}}", "key 'messages': found object, expected a list");
  says("{\"messages\": []}", "found 0 messages");
  says("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
       "no message is the assistant's");
  says("{\"messages\": [3]}", "key 'messages[0]': found number, expected an object");
  says("{\"messages\": [{\"content\": \"a\"}]}", "key 'messages[0].role': is missing");
  says("{\"messages\": [{\"role\": \"bot\", \"content\": \"a\"}]}", "found 'bot', expected system");
  says("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
       "key 'messages[0].content': found a list");
  says("{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": []}]}",
       "key 'messages[0].tool_calls': tools are not read");
  says("{\"messages\": [{\"role\": \"user\", \"content\": \"\", \"weight\": 1}]}",
       "only messages of the assistant have a weight");
  says(
      "{\"messages\": [{\"role\": \"assistant\", \"content\": \"\"}, {\"role\": \"system\", "
      "\"content\": \"\"}]}",
      "message 2 has the role 'system'");
  CHECK(contains(b.error(line_of(json::parse(R"([["user", "a"], ["assistant", "b"]])"))),
                 "line 1, key 'messages': no template says how they become text; set template"));
  const std::string narrow = failure_of([&] {
                               const std::string chars = "{type = \"chars\", characters = \"a\"}";
                               Dataset(b.engine, toml_of(b.file(good), 8, "", chars));
                             }).text;
  CHECK(contains(narrow, "d.jsonl', line 1: cannot be encoded"));
  CHECK(contains(narrow, "the character 'b' at byte 1 is none of the 1 tokens"));
  CHECK(contains(b.error(""), "the file has no line with anything in it"));
  const std::string path = b.file(good);
  std::filesystem::resize_file(path, good.size() + (64u << 20));  // takes no space: it is sparse
  const std::string longest = failure_of([&] { Dataset(b.engine, toml_of(path, 8)); }).text;
  CHECK(contains(longest, "line 2"));
  CHECK(!contains(longest, "the line has"));
  std::filesystem::resize_file(path, good.size() + (64u << 20) + 1);
  CHECK(contains(
      failure_of([&] { Dataset(b.engine, toml_of(path, 8)); }).text,
      "line 2: the line has 67108865 bytes, at most 67108864 are read; is it JSON Lines?"));
  CHECK(contains(failure_of([&] {
                   Dataset(b.engine,
                           "type = \"fine_tune\"\nfiles = []\ntokenizer = {type = \"bytes\"}\n"
                           "length = 8\n");
                 }).text,
                 "[data.fine_tune] files is empty, expected a path; set at "));
  CHECK(contains(b.error(good, "template = \"chatlm\""),
                 "found \"chatlm\" (did you mean 'chatml'?)"));
  const auto text_of = [&](const std::string& toml) {
    return failure_of([&] { Dataset(b.engine, toml); }).text;
  };
  CHECK(contains(text_of(toml_of(b.folder / "none.jsonl", 8)), "none.jsonl"));
  CHECK(contains(text_of(toml_of(b.file(good), 8, "", "{type = \"byte\"}")),
                 "tokenizer.type: unknown tokenizer 'byte' (did you mean 'bytes'?)"));
  CHECK(contains(text_of(toml_of(b.file(good), 8, "", "{type = \"bytes\", x = 1}")),
                 "tokenizer.x: unknown key 'x'"));
  CHECK(contains(text_of(toml_of(b.file(good), 8, "", "\"bytes\"")),
                 "expected table: {type = \"NAME\", ...} of a tokenizer"));
  CHECK(contains(text_of(toml_of(b.file(good), 8, "", "{type = \"hf\", path = \"/none\"}")),
                 "/none"));
}
