// The error that a call ends with.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "engine/base/error.hpp"

namespace plait::test {

// Code PLAIT_OK if f() throws none.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return Error(PLAIT_OK, "no error");
}

// Its text and the texts of its causes. Checks that its code is `code`.
template <class F>
std::string error_of(F&& f, uint32_t code) {
  const Error e = error_of(f);
  CHECK(e.code() == code);
  return e.full_text();
}

}  // namespace plait::test
