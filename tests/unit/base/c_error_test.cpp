#include <doctest/doctest.h>

#include <new>
#include <stdexcept>

#include "engine/base/c_error.hpp"
#include "engine/base/plugin_call.hpp"

using namespace plait;

TEST_CASE("an error survives the way to C and back") {
  const auto cause = std::make_shared<const Error>(PLAIT_ERR_IO, "disk");
  plait_error* c = to_c(Error(PLAIT_ERR_DATA, "file", cause));
  REQUIRE(c != nullptr);
  CHECK(c->code == PLAIT_ERR_DATA);
  CHECK(c->text == "file");
  REQUIRE(c->cause);
  CHECK(c->cause->text == "disk");
  const Error back = from_c(c);
  CHECK(back.full_text() == "file\n  because: disk");
  CHECK(back.cause()->code() == PLAIT_ERR_IO);
}

TEST_CASE("texts by length and by NUL; a code of 0 is no error code") {
  plait_error* c = new_c_error(PLAIT_OK, "abcdef", 3, nullptr);
  CHECK(c->text == "abc");
  CHECK(c->code == PLAIT_ERR_INTERNAL);
  free_c_error(c);
  c = new_c_error(PLAIT_ERR_IO, "abc", PLAIT_NTS, nullptr);
  CHECK(c->text == "abc");
  free_c_error(c);
  c = new_c_error(PLAIT_ERR_IO, nullptr, 0, nullptr);
  CHECK(c->text.empty());
  free_c_error(c);
  free_c_error(nullptr);
}

TEST_CASE("a very long chain is freed and read without recursion") {
  plait_error* chain = nullptr;
  for (int i = 0; i < 200000; ++i) chain = new_c_error(PLAIT_ERR_IO, "x", 1, chain);
  const Error e = from_c(chain);
  int links = 0;
  for (const Error* one = &e; one; one = one->cause().get()) ++links;
  CHECK(links == 64);
}

TEST_CASE("check_plugin names plugin and call, with the plugin's text as cause") {
  const PluginCall at{"data-x", "open", "dataset", "x"};
  CHECK_NOTHROW(check_plugin(nullptr, at, "opening [data.train]"));
  try {
    check_plugin(new_c_error(PLAIT_ERR_DATA, "bad magic", PLAIT_NTS, nullptr), at,
                 "opening [data.train]");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_DATA);
    CHECK(e.full_text() ==
          "[plugin data-x] opening [data.train] failed in open() of dataset 'x'\n"
          "  because: bad magic");
  }
}

TEST_CASE("guard_c turns every exception into an error") {
  CHECK(guard_c([] {}) == nullptr);
  plait_error* e = guard_c([] { fail_data("d"); });
  CHECK(e->code == PLAIT_ERR_DATA);
  free_c_error(e);
  e = guard_c([] { throw std::runtime_error("r"); });
  CHECK(e->code == PLAIT_ERR_INTERNAL);
  CHECK(e->text == "r");
  free_c_error(e);
  e = guard_c([] { throw 1; });
  CHECK(e->code == PLAIT_ERR_INTERNAL);
  free_c_error(e);
  e = guard_c([] { throw std::bad_alloc(); });
  CHECK(e->code == PLAIT_ERR_MEMORY);
  free_c_error(e);  // a static error: freeing has no effect
  CHECK(e->text == "out of memory");
  // As a cause it is copied, because it has no owner.
  plait_error* outer = new_c_error(PLAIT_ERR_IO, "outer", PLAIT_NTS, e);
  REQUIRE(outer->cause);
  CHECK(outer->cause->code == PLAIT_ERR_MEMORY);
  free_c_error(outer);
}
