// A tokenizer of a plugin: what it says of itself and what it returns is checked.
#include "engine/tokenizer/tokenizer.hpp"

#include <limits>
#include <stdexcept>

#include "engine/config/document.hpp"
#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using plugin::contains;
using test::error_of;

namespace {

// Ids are the bytes of a text. What a test sets goes wrong.
struct Faults {
  plait_tokenizer_info info{};
  int32_t added = -1;  // an id behind those of the text
  bool throws = false;
};
Faults faults;
int open_ones = 0;

plait_error* open_bytes(const plait_host*, const plait_options*, void** out) {
  ++open_ones;
  *out = &faults;
  return nullptr;
}
plait_error* describe(const void*, plait_tokenizer_info* out) {
  const size_t size = out->struct_size;
  *out = faults.info;
  out->struct_size = size;
  return nullptr;
}
plait_error* encode(const void*, const char* text, uint64_t size, uint32_t, plait_ids_sink sink,
                    void* user) {
  if (faults.throws) throw std::runtime_error("no words");
  for (uint64_t i = 0; i < size; ++i) {
    const int32_t id = static_cast<unsigned char>(text[i]);
    if (sink(user, &id, 1) != 0) return nullptr;
  }
  if (faults.added != -1) sink(user, &faults.added, 1);
  return nullptr;
}
plait_error* decode(const void*, const int32_t* ids, uint64_t n, uint32_t, plait_bytes_sink sink,
                    void* user) {
  if (faults.throws) throw std::runtime_error("no ids");
  for (uint64_t i = 0; i < n; ++i) {
    const char c = static_cast<char>(ids[i]);
    sink(user, &c, 1);
  }
  return nullptr;
}

plait_plugin make_table() {
  return plugin::make_plugin("letters",
                             [](const plait_host* h, const char*, void** state) -> plait_error* {
                               static const plait_tokenizer_item item{sizeof item,
                                                                      "letters",
                                                                      "bytes",
                                                                      nullptr,
                                                                      0,
                                                                      0,
                                                                      open_bytes,
                                                                      describe,
                                                                      encode,
                                                                      decode,
                                                                      [](void*) { --open_ones; }};
                               *state = nullptr;
                               return h->add(h, PLAIT_KIND_TOKENIZER, &item);
                             });
}

struct Opened {
  Log log{[](uint32_t, std::string_view) {}, PLAIT_LOG_ERROR};
  std::shared_ptr<plugin::Registry> registry =
      std::make_shared<plugin::Registry>(log, FileSystem::posix(), plugin::Extensions{});
  plait_plugin table = make_table();
  Opened() {
    faults = {};
    faults.info.vocabulary = 256;
    registry->load_static(table);
  }
  std::unique_ptr<tokenizer::Tokenizer> open(const std::string& toml = "type = \"letters\"") const {
    config::Problems problems;
    const auto document = config::Document::parse(toml, "t.toml", problems);
    const config::ItemConfig item =
        config::load_one_item(PLAIT_KIND_TOKENIZER, document, *registry, {}, problems);
    problems.raise_if_any();
    return std::make_unique<tokenizer::Tokenizer>(item, registry);
  }
};

std::vector<int32_t> ids_of(const tokenizer::Tokenizer& t, std::string_view text,
                            bool strict = false) {
  kit::InvalidBytes invalid;
  return t.encode(text, 0, strict, invalid);
}

}  // namespace

TEST_CASE("ids and texts go through") {
  const Opened at;
  const auto t = at.open();
  CHECK(ids_of(*t, "ab\n") == std::vector<int32_t>{97, 98, 10});
  CHECK(ids_of(*t, "").empty());
  const std::vector<int32_t> ids{104, 0, 105};
  CHECK(t->decode(ids, 0) == std::string("h\0i", 3));
  CHECK(contains(t->json(), R"("type": "letters", "plugin": "letters", "vocabulary": 256)"));
}

TEST_CASE("bytes that are not UTF-8 are replaced, refused or left to a tokenizer of bytes") {
  const Opened at;
  kit::InvalidBytes invalid;
  const std::string text = "a\xFFz";
  const std::vector<int32_t> expected{'a', 0xEF, 0xBF, 0xBD, 'z'};
  CHECK(at.open()->encode(text, 0, false, invalid) == expected);
  CHECK(invalid.n == 1);
  CHECK(invalid.first == 1);
  CHECK(contains(error_of([&] { ids_of(*at.open(), text, true); }, PLAIT_ERR_DATA),
                 "the text is not UTF-8 at byte 1"));
  faults.info.flags = PLAIT_TOKENIZER_ANY_BYTES;
  CHECK(ids_of(*at.open(), text, true) == std::vector<int32_t>{'a', 0xFF, 'z'});
}

TEST_CASE("descriptions and results of a faulty plugin are errors that name it") {
  const Opened at;
  const auto refusal = [&](auto&& set) {
    faults = {};
    faults.info.vocabulary = 256;
    set(faults.info);
    std::string text = error_of([&] { at.open(); }, PLAIT_ERR_PLUGIN);
    CHECK(contains(text, "[plugin letters] tokenizer 'letters'"));
    CHECK(open_ones == 0);
    return text;
  };
  static const plait_special_token good{"<e>", 3, 5, PLAIT_TOKEN_END}, far{"<e>", 3, 256, 0},
      odd{"<e>", 3, 5, 9}, none{nullptr, 3, 5, 0};
  const auto special = [](const plait_special_token& s) {
    return [&s](plait_tokenizer_info& i) {
      i.specials = &s;
      i.n_specials = 1;
    };
  };
  CHECK(contains(refusal([](auto& i) { i.vocabulary = 0; }), "a vocabulary of 0 tokens"));
  CHECK(contains(refusal([](auto& i) { i.flags = 0x10; }), "the unknown flags 0x10"));
  CHECK(contains(refusal([](auto& i) { i.n_specials = 2; }), "but their list is NULL"));
  CHECK(contains(refusal([](auto& i) {
                   i.n_specials = UINT32_MAX;
                   i.specials = &good;
                 }),
                 "more than there can be"));
  CHECK(contains(refusal(special(far)), "the id 256 for special token 0, its vocabulary is 256"));
  CHECK(contains(refusal(special(odd)), "the unknown role 9"));
  CHECK(contains(refusal(special(none)), "but its text is NULL"));

  faults = {};
  faults.info.vocabulary = 200;
  special(good)(faults.info);
  const auto t = at.open();
  CHECK(contains(t->json(), R"({"text": "<e>", "id": 5, "role": "end"})"));
  for (const int32_t id : {200, -7, std::numeric_limits<int32_t>::max()}) {
    faults.added = id;
    CHECK(contains(error_of([&] { ids_of(*t, "a"); }, PLAIT_ERR_PLUGIN),
                   "returned the id " + std::to_string(id) + ", its vocabulary is 200"));
  }
  faults.throws = true;
  CHECK(contains(error_of([&] { ids_of(*t, "a"); }, PLAIT_ERR_PLUGIN),
                 "[plugin letters] encode() of tokenizer 'letters'"));
  const std::vector<int32_t> one{1}, wrong{1, 200};
  CHECK(contains(error_of([&] { t->decode(one, 0); }, PLAIT_ERR_PLUGIN), "no ids"));
  CHECK(contains(error_of([&] { t->decode(wrong, 0); }, PLAIT_ERR_INVALID),
                 "the id at position 1 is 200, expected 0 to 199"));
}

TEST_CASE("a description that is wrong tells where") {
  const Opened at;
  CHECK(contains(error_of([&] { at.open("type = \"leters\""); }, PLAIT_ERR_CONFIG),
                 "t.toml:1:8: type: unknown tokenizer 'leters' (did you mean 'letters'?)"));
  CHECK(contains(error_of([&] { at.open("type = \"letters\"\nsize = 3"); }, PLAIT_ERR_CONFIG),
                 "t.toml:2:1: size"));
  CHECK(contains(error_of([&] { at.open(""); }, PLAIT_ERR_CONFIG), "type"));
}
