// Times of messages between ranks, from both ends.
#include "engine/session/message_times.hpp"

#include <doctest/doctest.h>

#include "engine/base/error.hpp"

using namespace plait::session;  // NOLINT: a test of this module

TEST_CASE("message times: a message takes from when both ends are ready") {
  const std::vector<MessageEnd> sender{{0, 1, 0, true, 1'000'000'000, 0},
                                       {0, 1, 0, true, 5'000'000'000, 0},
                                       {0, 1, 1, true, 6'000'000'000, 0}};
  const std::vector<MessageEnd> receiver{
      {0, 1, 0, false, 3'000'000'000, 3'500'000'000},   // the sender was early
      {0, 1, 1, false, 4'000'000'000, 6'250'000'000},   // late, on another channel
      {0, 1, 0, false, 4'000'000'000, 7'000'000'000}};  // late
  CHECK(message_seconds({sender, receiver}) == std::vector<double>{0.5, 0.25, 2});
  // Ends without the other one, and a clock that goes ahead.
  CHECK(message_seconds({sender}).empty());
  CHECK(message_seconds({receiver}).empty());
  CHECK(message_seconds({{{0, 1, 0, true, 9, 0}}, {{0, 1, 0, false, 1, 5}}}) ==
        std::vector<double>{0});
  CHECK(message_seconds({{{0, 1, 0, true, 9, 0}}, {{0, 1, 0, false, 1, 0}}}).empty());
}

TEST_CASE("message times: ends travel as text") {
  const std::vector<MessageEnd> ends{{0, 1, 0, true, 1'700'000'000'000'000'001, 0},
                                     {3, 2, 1, false, -5, 7}};
  CHECK(message_ends(text_of(ends)) == ends);
  CHECK(message_ends(std::string()).empty());
  CHECK_THROWS_AS(message_ends(std::string("1 2 x")), plait::Error);
}
