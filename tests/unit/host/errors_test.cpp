// The chain of an error, as a host reads it.
#include "tests/unit/host/tokenizers.hpp"

TEST_CASE("an error leads to its causes, and its full text has all of them") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  plait_tokenizer* t = nullptr;
  plait_error* e = plait_tokenizer_open(engine.get(), "type = \"chars\"\npath = \"/no/such/file\"",
                                        PLAIT_NTS, nullptr, &t);
  REQUIRE(e != nullptr);
  CHECK(t == nullptr);
  std::string all = plait_error_text(e), last;
  for (const plait_error* c = plait_error_cause(e); c; c = plait_error_cause(c)) {
    CHECK(plait_error_code(c) != PLAIT_OK);
    last = plait_error_text(c);
    all += "\n  because: " + last;
  }
  CHECK(host::contains(last, "/no/such/file"));
  CHECK(all == plait_error_full_text(e));
  plait_error_free(e);
}

TEST_CASE("no error has no code, no text and no cause") {
  CHECK(plait_error_code(nullptr) == PLAIT_OK);
  CHECK(plait_error_text(nullptr) == std::string());
  CHECK(plait_error_full_text(nullptr) == std::string());
  CHECK(plait_error_cause(nullptr) == nullptr);
  plait_error_free(nullptr);
}
