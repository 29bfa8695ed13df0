// Tokenizers through plait.h, from several threads.
#include <plait/tokenizer.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/host/host.hpp"

using host::failure_of;

namespace {

using Engine = std::unique_ptr<plait_engine, decltype(&plait_engine_close)>;
using Tokenizer = std::unique_ptr<plait_tokenizer, decltype(&plait_tokenizer_close)>;

Tokenizer open(const Engine& engine, const std::string& toml) {
  plait_tokenizer* t = nullptr;
  host::check(plait_tokenizer_open(engine.get(), toml.c_str(), PLAIT_NTS, nullptr, &t));
  return {t, plait_tokenizer_close};
}
std::vector<int32_t> encode(const Tokenizer& t, const std::string& text, uint32_t flags = 0) {
  plait_tokens* tokens = nullptr;
  host::check(plait_tokenizer_encode(t.get(), text.data(), text.size(), flags, &tokens));
  const std::vector<int32_t> ids(plait_tokens_data(tokens),
                                 plait_tokens_data(tokens) + plait_tokens_size(tokens));
  plait_tokens_free(tokens);
  return ids;
}
std::string decode(const Tokenizer& t, const std::vector<int32_t>& ids, uint32_t flags = 0) {
  plait_text* text = nullptr;
  host::check(plait_tokenizer_decode(t.get(), ids.data(), ids.size(), flags, &text));
  const std::string all(plait_text_data(text), plait_text_size(text));
  plait_text_free(text);
  return all;
}
nlohmann::json describe(const Tokenizer& t) {
  plait_text* json = nullptr;
  host::check(plait_tokenizer_describe(t.get(), &json));
  return nlohmann::json::parse(host::take(json));
}

}  // namespace

TEST_CASE("bytes: any text comes back") {
  const Engine engine(host::new_engine(), plait_engine_close);
  const Tokenizer t = open(engine, "type = \"bytes\"");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(encode(t, all, PLAIT_ENCODE_STRICT).size() == 256);
  CHECK(decode(t, encode(t, all)) == all);
  CHECK(encode(t, "").empty());
  CHECK(describe(t).at("vocabulary") == 257);
  CHECK(describe(t).at("specials").at(0).at("role") == "end");
  CHECK(decode(t, {'a', 256}) == "a<|endoftext|>");
  CHECK(decode(t, {'a', 256}, PLAIT_DECODE_SKIP_SPECIAL) == "a");
  const auto failure = failure_of([&] { decode(t, {257}); });
  CHECK(failure.code == PLAIT_ERR_INVALID);
  CHECK(failure.text.find("the id at position 0 is 257, expected 0 to 256") != std::string::npos);
}

TEST_CASE("chars: sorted characters of a text, or given ones") {
  const Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  std::ofstream(folder / "t.txt") << "b\xC3\xA9"
                                     "a\nb";
  const Tokenizer t = open(engine, "type = \"chars\"\npath = \"" + (folder / "t.txt") + "\"");
  CHECK(describe(t).at("vocabulary") == 4);
  CHECK(encode(t,
               "\n"
               "ab\xC3\xA9") == std::vector<int32_t>{0, 1, 2, 3});
  CHECK(decode(t, {3, 0, 1}) ==
        "\xC3\xA9\n"
        "a");
  const Tokenizer same = open(engine, "type = \"chars\"\ncharacters = \"\xC3\xA9\\nab\"");
  CHECK(describe(same).at("fingerprint") == describe(t).at("fingerprint"));

  const auto text_of = [](auto&& f) { return failure_of(f).text; };
  CHECK(text_of([&] { encode(t, "ab!"); }).find("'!' at byte 2 is none of the 4 tokens") !=
        std::string::npos);
  CHECK(text_of([&] { open(engine, "type = \"chars\""); }).find("give either path") !=
        std::string::npos);
  CHECK(text_of([&] {
          open(engine, "type = \"chars\"\npath = \"" + (folder / "none") + "\"");
        }).find("cannot open it: No such file") != std::string::npos);
}

TEST_CASE("several threads encode at a time, also after the engine was closed") {
  Engine engine(host::new_engine(), plait_engine_close);
  const Tokenizer t = open(engine, "type = \"chars\"\ncharacters = \"abc\"");
  engine.reset();
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> ids(4);
  for (auto& one : ids)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) one = encode(t, "abcabcba");
    });
  for (auto& thread : threads) thread.join();
  for (const auto& one : ids) CHECK(one == std::vector<int32_t>{0, 1, 2, 0, 1, 2, 1, 0});
}
