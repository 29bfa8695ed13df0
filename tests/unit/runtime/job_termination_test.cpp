#include "engine/runtime/control/job_termination.hpp"

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>

namespace {

using plait::runtime::control::EndReason;
using plait::runtime::control::JobTermination;

template <class E>
EndReason end_after(const E& exception) {
  int woken = 0;
  std::string told;
  JobTermination termination([&] { ++woken; });
  termination.on_end([&](const std::string& reason) { told = reason; });
  try {
    throw exception;
  } catch (...) {
    termination.fail();
  }
  CHECK(woken == 1);
  CHECK(told == termination.get().text);
  return termination.get();
}

TEST_CASE(
    "an exception on the channel's thread ends the job with its text; no memory has its code") {
  EndReason end = end_after(std::runtime_error("no route"));
  CHECK(end.code == PLAIT_ERR_PEER);
  CHECK(end.text == "the control channel of this rank broke: no route");
  end = end_after(std::bad_alloc());
  CHECK(end.code == PLAIT_ERR_MEMORY);
  CHECK(end.text == "out of memory");
  end = end_after(7);
  CHECK(end.code == PLAIT_ERR_PEER);
  CHECK(end.text == "the control channel of this rank broke");
}

TEST_CASE("the first reason stays") {
  JobTermination termination([] {});
  CHECK(termination.get().code == PLAIT_OK);
  CHECK(termination.set({PLAIT_ERR_PEER, "first"}));
  CHECK(!termination.set({PLAIT_ERR_CONFIG, "second"}));
  try {
    throw std::bad_alloc();
  } catch (...) {
    termination.fail();
  }
  CHECK(termination.get().text == "first");
}

}  // namespace
