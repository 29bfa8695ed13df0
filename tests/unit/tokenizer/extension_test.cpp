// What the host offers to plugins that need a tokenizer.
#include "engine/tokenizer/extension.hpp"

#include <doctest/doctest.h>

#include "engine/base/c_error.hpp"
#include "tests/unit/error_of.hpp"

using namespace plait;
using plait::test::error_of;

namespace {

// "" without an error.
std::string text_of(plait_error* error) {
  if (!error) return "";
  return error_of([&] { throw from_c(error); }, PLAIT_ERR_INVALID);
}

}  // namespace

TEST_CASE("a call without one of its arguments is refused, and says which") {
  const plait_tokenizers_table& table = *tokenizer::tokenizers_table();
  // They are not read: each call lacks an argument.
  static const plait_host host{};
  static const plait_options options{};
  plait_host_tokenizer* out = nullptr;
  CHECK(text_of(table.open(nullptr, "bytes", &options, &out)) == "[tokenizers] host is NULL");
  CHECK(text_of(table.open(&host, nullptr, &options, &out)) == "[tokenizers] type is NULL");
  CHECK(text_of(table.open(&host, "bytes", nullptr, &out)) == "[tokenizers] options is NULL");
  CHECK(text_of(table.open(&host, "bytes", &options, nullptr)) == "[tokenizers] out is NULL");
  CHECK(out == nullptr);
  CHECK(text_of(table.encode(nullptr, "a", 1, 0, nullptr, nullptr, nullptr)) ==
        "[tokenizers] tokenizer is NULL");
  const int32_t id = 1;
  CHECK(text_of(table.decode(nullptr, &id, 1, 0, nullptr, nullptr)) ==
        "[tokenizers] tokenizer is NULL");
}
