// Tokenizers through encode.h, from several threads.
#include <plait/tokenizer.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/host/tokenizers.hpp"

using host::contains;
using host::decode;
using host::describe;
using host::encode;
using host::Engine;
using host::failure_of;
using host::open_tokenizer;
using host::Tokenizer;

TEST_CASE("bytes: any text comes back") {
  const Engine engine(host::new_engine(), plait_engine_close);
  const Tokenizer t = open_tokenizer(engine, "type = \"bytes\"");
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
  CHECK(contains(failure.text, "the id at position 0 is 257, expected 0 to 256"));
}

TEST_CASE("chars: sorted characters of a text, or given ones") {
  const Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  std::ofstream(folder / "t.txt") << "b\xC3\xA9"
                                     "a\nb";
  const Tokenizer t =
      open_tokenizer(engine, "type = \"chars\"\npath = \"" + (folder / "t.txt") + "\"");
  CHECK(describe(t).at("vocabulary") == 4);
  CHECK(encode(t,
               "\n"
               "ab\xC3\xA9") == std::vector<int32_t>{0, 1, 2, 3});
  CHECK(decode(t, {3, 0, 1}) ==
        "\xC3\xA9\n"
        "a");
  const Tokenizer same = open_tokenizer(engine, "type = \"chars\"\ncharacters = \"\xC3\xA9\\nab\"");
  CHECK(describe(same).at("fingerprint") == describe(t).at("fingerprint"));

  const auto text_of = [](auto&& f) { return failure_of(f).text; };
  CHECK(contains(text_of([&] { encode(t, "ab!"); }), "'!' at byte 2 is none of the 4 tokens"));
  CHECK(contains(text_of([&] { open_tokenizer(engine, "type = \"chars\""); }), "give either path"));
  CHECK(contains(text_of([&] {
                   const std::string path = folder / "none";
                   open_tokenizer(engine, "type = \"chars\"\npath = \"" + path + "\"");
                 }),
                 "cannot open it: No such file"));
}

TEST_CASE("chars: bytes that are not UTF-8 are replaced and counted, or refused") {
  const Engine engine(host::new_engine(), plait_engine_close);
  const Tokenizer t = open_tokenizer(engine, "type = \"chars\"\ncharacters = \"ab\xEF\xBF\xBD\"");
  const auto replaced = [&](const std::string& text, uint64_t& first) {
    plait_tokens* tokens = nullptr;
    host::check(plait_tokenizer_encode(t.get(), text.data(), text.size(), 0, &tokens));
    const uint64_t n = plait_tokens_replaced(tokens, &first);
    CHECK(n == plait_tokens_replaced(tokens, nullptr));
    plait_tokens_free(tokens);
    return n;
  };
  uint64_t first = 9;
  CHECK(replaced("ab", first) == 0);
  CHECK(first == 0);
  CHECK(replaced("ab\xFF\xFE", first) == 2);
  CHECK(first == 2);
  CHECK(plait_tokens_replaced(nullptr, &first) == 0);
  CHECK(first == 0);
  CHECK(encode(t, "ab\xFF") == encode(t, "ab\xEF\xBF\xBD"));
  const auto failure = failure_of([&] { encode(t, "ab\xFF", PLAIT_ENCODE_STRICT); });
  CHECK(failure.code == PLAIT_ERR_DATA);
  CHECK(contains(failure.text, "not UTF-8 at byte 2"));
}

TEST_CASE("several threads encode at a time, also after the engine was closed") {
  Engine engine(host::new_engine(), plait_engine_close);
  const Tokenizer t = open_tokenizer(engine, "type = \"chars\"\ncharacters = \"abc\"");
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
