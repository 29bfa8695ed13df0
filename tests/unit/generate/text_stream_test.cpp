#include "engine/generate/text_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using generate::possible_beginning;
using generate::TextStream;

namespace {

// Ids are bytes; 256 and above have no text, except this one.
constexpr int32_t kCapitals = 299;  // makes the letters of a text capitals, and begins a character

plait_error* open_bytes(const plait_host*, const plait_options*, void** out) {
  static int state;
  *out = &state;
  return nullptr;
}
plait_error* describe(const void*, plait_tokenizer_info* out) {
  out->vocabulary = 300;
  return nullptr;
}
plait_error* encode(const void*, const char*, uint64_t, uint32_t, plait_ids_sink, void*) {
  return nullptr;
}
plait_error* decode(const void*, const int32_t* ids, uint64_t n, uint32_t, plait_bytes_sink sink,
                    void* user) {
  const bool capitals = std::find(ids, ids + n, kCapitals) != ids + n;
  for (uint64_t i = 0; i < n; ++i) {
    const int id = ids[i] == kCapitals ? 0xC3 : ids[i];
    const char c = static_cast<char>(capitals && id >= 'a' && id <= 'z' ? id - 'a' + 'A' : id);
    if (id < 256) sink(user, &c, 1);
  }
  return nullptr;
}

std::shared_ptr<plugin::Registry> registry_of_bytes() {
  static Log log{[](uint32_t, std::string_view) {}, PLAIT_LOG_ERROR};
  static const plait_plugin table = plugin::make_plugin(
      "letters", [](const plait_host* h, const char*, void** state) -> plait_error* {
        static const plait_tokenizer_item item{sizeof item, "letters", "bytes",     nullptr,
                                               0,           0,         open_bytes,  describe,
                                               encode,      decode,    [](void*) {}};
        *state = nullptr;
        return h->add(h, PLAIT_KIND_TOKENIZER, &item);
      });
  auto registry =
      std::make_shared<plugin::Registry>(log, FileSystem::posix(), plugin::Extensions{});
  registry->load_static(table);
  return registry;
}

using Texts = std::vector<std::string>;

// What each id gives, and at the end what finish() does.
Texts streamed(const std::vector<int32_t>& ids, std::vector<std::string> stop = {}) {
  const tokenizer::Tokenizer tokenizer("letters", nullptr, registry_of_bytes());
  TextStream stream(tokenizer, {'<'}, std::move(stop));
  Texts all;
  for (const int32_t id : ids) all.emplace_back(stream.push(id));
  all.emplace_back(stream.finish());
  return all;
}

const std::string kReplaced = "\xEF\xBF\xBD";

}  // namespace

TEST_CASE("a character comes with the last of its tokens, one without a text brings nothing") {
  CHECK(streamed({'a', 0xC3, 0xA9, 'b'}) == Texts{"a", "", "\xC3\xA9", "b", ""});
  CHECK(streamed({'a', 256, 'b'}) == Texts{"a", "", "b", ""});
  CHECK(streamed({256}) == Texts{"", ""});
}

TEST_CASE("a last token that changes the text before it adds nothing") {
  CHECK(streamed({'a', kCapitals}) == Texts{"a", "", ""});
}

TEST_CASE("what is no character ends as U+FFFD: when more tokens follow than one has, or the end") {
  CHECK(streamed({'a', 0xC3}) == Texts{"a", "", kReplaced});
  CHECK(streamed({0xC3, 256}) == Texts{"", "", kReplaced});
  CHECK(streamed({0xF0, 256, 256, 256, 256, 'z'}) == Texts{"", "", "", "", kReplaced, "z", ""});
  CHECK(streamed({}) == Texts{""});
}

TEST_CASE("a stop text ends it, also one that the last bytes complete") {
  CHECK(streamed({'a', 'b', 'c', 'd'}, {"bc"}) == Texts{"a", "", "", "", ""});
  CHECK(streamed({'a', 'b', 'd'}, {"bc"}) == Texts{"a", "", "bd", ""});
  CHECK(streamed({'a', 'b'}, {"bc"}) == Texts{"a", "", "b"});
  CHECK(streamed({'a', 0xC3}, {kReplaced}) == Texts{"a", "", ""});
  CHECK(streamed({'a', 'x', 0xC3}, {"x"}) == Texts{"a", "", "", ""});
}

TEST_CASE("how much of a text may begin a stop text") {
  CHECK(possible_beginning("abc", "xyz") == 0);
  CHECK(possible_beginning("abx", "xyz") == 1);
  CHECK(possible_beginning("axy", "xyz") == 2);
  CHECK(possible_beginning("xyz", "xyz") == 0);  // it has come, which is another question
  CHECK(possible_beginning("aab", "aabaac") == 3);
  CHECK(possible_beginning("", "a") == 0);
  CHECK(possible_beginning("a", "a") == 0);
}
