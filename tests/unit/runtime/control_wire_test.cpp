// The parts of the control channel that need no socket: proofs, frames, and the job state on rank
// 0.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/job_state.hpp"
#include "engine/runtime/control/messages.hpp"
#include "engine/runtime/control/wire.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime::control;
using plait::runtime::testing::has;

namespace {

Frame one(const std::string& bytes) {
  FrameReader reader(kMaxPayload);
  reader.add(bytes);
  auto frame = reader.next();
  REQUIRE(frame);
  CHECK(!reader.next());
  return *frame;
}

// A job state and its outgoing messages.
struct Job {
  explicit Job(uint32_t size)
      : state(size, 10, "here:1", start, 3,
              [this](uint32_t rank, const std::string& bytes) { sent[rank] += bytes; }) {}

  void arrive(uint32_t rank, const std::string& host = "node", const std::string& machine = "m",
              double connect_timeout = 100, const Identity& identity = {}) {
    CHECK(!state.admit(rank, static_cast<uint32_t>(size())));
    Arrival arrival;
    arrival.peer = {"rank " + std::to_string(rank) + " (x)", host, "p"};
    arrival.machine = machine;
    arrival.process_id = 100 + rank;
    arrival.connect_timeout_ms = static_cast<uint64_t>(connect_timeout * 1000);
    arrival.identity = digests_of(identity);
    state.handle(rank, one(encode(arrival)), start);
  }
  void say(uint32_t rank, FrameWriter writer) { state.handle(rank, one(writer.done()), start); }
  size_t size() const { return n; }

  // The messages sent to a rank since the last call.
  std::vector<Frame> got(uint32_t rank) {
    FrameReader reader(kMaxPayload);
    reader.add(sent[rank]);
    sent[rank].clear();
    std::vector<Frame> frames;
    while (auto frame = reader.next()) frames.push_back(*frame);
    return frames;
  }
  std::string end_of(uint32_t rank) {
    const auto frames = got(rank);
    return frames.empty() || frames.back().kind != MessageKind::kEnd
               ? ""
               : decode_end(frames.back()).text;
  }

  size_t n = 3;
  Time start{};
  std::map<uint32_t, std::string> sent;
  JobState state;
};

}  // namespace

TEST_CASE("a proof is good for one connection, rank, size, run and direction") {
  const Challenge c{std::string(16, 'r'), std::string(32, 'c'), std::string(32, 's'), 1, 2};
  const std::string secret(32, 'k'), right = proof(secret, c, Side::kClient);
  CHECK(right.size() == 32);
  CHECK(equal_constant_time(right, proof(secret, c, Side::kClient)));
  CHECK(!equal_constant_time(right, proof(secret, c, Side::kServer)));
  CHECK(!equal_constant_time(right, proof(std::string(32, 'K'), c, Side::kClient)));
  for (int i = 0; i < 5; ++i) {
    Challenge other = c;
    if (i == 0) other.run[0] = 'x';
    if (i == 1) other.client_nonce[31] = 'x';
    if (i == 2) other.server_nonce[0] = 'x';
    if (i == 3) other.rank = 0;
    if (i == 4) other.size = 3;
    CHECK(!equal_constant_time(right, proof(secret, other, Side::kClient)));
  }
  CHECK(!equal_constant_time("a", "ab"));
  CHECK(equal_constant_time("", ""));
  CHECK(random_bytes(32) != random_bytes(32));
  CHECK(unhex(hex(std::string("\0\x7f\xff", 3))) == std::string("\0\x7f\xff", 3));
  CHECK(unhex("0g") == "");
  CHECK(unhex("0") == "");
}

TEST_CASE("frames are read as they were written, however the bytes arrive") {
  const std::string bytes = FrameWriter(MessageKind::kSet).u32(7).text("key").text("value").done() +
                            FrameWriter(MessageKind::kGoodbye).done() +
                            FrameWriter(MessageKind::kHeartbeat).i64(-1).done();
  for (const size_t piece : {size_t{1}, size_t{3}, bytes.size()}) {
    FrameReader reader(kMaxPayload);
    std::vector<Frame> frames;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    REQUIRE(frames.size() == 3);
    PayloadReader r(frames[0].payload);
    CHECK(r.u32() == 7);
    CHECK(r.text(3) == "key");
    CHECK(r.text(5) == "value");
    CHECK_NOTHROW(r.done());
    CHECK(frames[1].kind == MessageKind::kGoodbye);
    CHECK(PayloadReader(frames[2].payload).i64() == -1);
  }
}

TEST_CASE("frames that make no sense are refused by their header") {
  FrameReader small(kMaxUnproven);
  small.add(std::string("\x01\x01\0\0\1\0\0\0", 8));  // 257 bytes to come
  CHECK_THROWS_AS(small.next(), Error);
  FrameReader flags(kMaxUnproven);
  flags.add(std::string("\0\0\0\0\1\0\1\0", 8));
  CHECK_THROWS_AS(flags.next(), Error);
  CHECK_THROWS_AS(FrameWriter(MessageKind::kSet).raw(std::string(kMaxPayload + 1, 'x')).done(),
                  Error);
  CHECK(one(FrameWriter(MessageKind::kSet).raw(std::string(kMaxPayload, 'x')).done())
            .payload.size() == kMaxPayload);
}

TEST_CASE("payloads are read within their bounds") {
  const std::string text = std::string("\x05\0\0\0four", 8);
  CHECK_THROWS_AS(PayloadReader(text).text(100), Error);
  CHECK_THROWS_AS(PayloadReader(text).text(4), Error);
  CHECK_THROWS_AS(PayloadReader("abc").u32(), Error);
  CHECK_THROWS_AS(PayloadReader("abcdefg").u64(), Error);
  CHECK_THROWS_AS(PayloadReader("a").done(), Error);
  CHECK_THROWS_AS(decode_hello(one(FrameWriter(MessageKind::kHello).done())), Error);
  CHECK_THROWS_AS(decode_hello(one(FrameWriter(MessageKind::kProof).done())), Error);
}

TEST_CASE("texts are not cut inside a character") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abc", 2) == "ab");
  CHECK(shortened("a\xc3\xa4z", 2) == "a");
  CHECK(shortened("a\xc3\xa4z", 3) == "a\xc3\xa4");
}

TEST_CASE("the job state: all ranks join, and each learns the addresses of all") {
  Job job(3);
  job.arrive(1);
  job.arrive(0);
  CHECK(job.got(0).empty());
  job.arrive(2);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto frames = job.got(rank);
    REQUIRE(frames.size() == 4);
    CHECK(decode_introduction(frames[2]).peer.name == "rank 2 (x)");
    CHECK(decode_introduction(frames[2]).process_id == 102);
    CHECK(frames[3].kind == MessageKind::kStart);
  }
}

TEST_CASE("the job state: values and the ranks that wait for them") {
  Job job(3);
  for (uint32_t rank = 0; rank < 3; ++rank) job.arrive(rank);
  for (uint32_t rank = 0; rank < 3; ++rank) job.got(rank);
  job.say(1, FrameWriter(MessageKind::kGet).u32(5).text("k"));
  job.say(2, FrameWriter(MessageKind::kGet).u32(6).text("k"));
  job.say(2, FrameWriter(MessageKind::kCancel).u32(6));
  job.say(2, FrameWriter(MessageKind::kCancel).u32(99));
  CHECK_THROWS_AS(job.say(1, FrameWriter(MessageKind::kGet).u32(5).text("k")), Error);
  CHECK(job.got(1).empty());
  const auto cancelled = job.got(2);  // one reply, of the request that waited
  REQUIRE(cancelled.size() == 1);
  CHECK(PayloadReader(cancelled[0].payload).u32() == 6);
  CHECK(PayloadReader(cancelled[0].payload.substr(4)).u32() == PLAIT_ERR_CANCELLED);
  job.say(0, FrameWriter(MessageKind::kSet).u32(1).text("k").text("v"));
  CHECK(job.got(2).empty());
  const auto frames = job.got(1);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].payload == std::string("\5\0\0\0\0\0\0\0v", 9));
  job.say(0, FrameWriter(MessageKind::kSet).u32(2).text("k").text("w"));
  CHECK(PayloadReader(job.got(0).back().payload.substr(4)).u32() == PLAIT_ERR_STATE);
  CHECK_THROWS_AS(job.say(0, FrameWriter(MessageKind::kSet).u32(2).text("k!").text("")), Error);
  CHECK_THROWS_AS(job.say(0, FrameWriter(MessageKind::kWelcome)), Error);
}

TEST_CASE("the job state: forgotten values take no memory, and their keys are free") {
  Job job(3);
  for (uint32_t rank = 0; rank < 3; ++rank) job.arrive(rank);
  job.got(1);
  const std::string value(kMaxValue, 'v');
  constexpr uint32_t kMore = 2 * (256 << 20) / kMaxValue;  // more than rank 0 keeps
  for (uint32_t i = 0; i < kMore; ++i) {
    job.say(1, FrameWriter(MessageKind::kSet).u32(i).text("k").text(value));
    job.say(1, FrameWriter(MessageKind::kForget).text("k"));
  }
  const auto frames = job.got(1);
  REQUIRE(frames.size() == kMore);
  CHECK(PayloadReader(frames.back().payload.substr(4)).u32() == PLAIT_OK);
  job.say(1, FrameWriter(MessageKind::kForget).text("k"));  // again
  job.say(2, FrameWriter(MessageKind::kGet).u32(1).text("k"));
  CHECK(job.got(2).back().kind != MessageKind::kReply);
  CHECK_THROWS_AS(job.say(1, FrameWriter(MessageKind::kForget).u32(1)), Error);
}

TEST_CASE("the job state: a rank that waits and goes is forgotten") {
  Job job(3);
  for (uint32_t rank = 0; rank < 3; ++rank) job.arrive(rank);
  job.say(1, FrameWriter(MessageKind::kGet).u32(5).text("k"));
  job.state.mark_lost(1, "its connection was closed");
  const std::string end = job.end_of(0);
  CHECK(has(end, "rank 1 (x) is lost: its connection was closed; it ran as process 101 on node"));
  CHECK(!has(end, "step"));  // none is known, which does not say that it ran none
  job.state.mark_lost(1, "again");
  job.say(0, FrameWriter(MessageKind::kSet).u32(1).text("k").text("v"));
  const auto frames = job.got(0);
  REQUIRE(frames.size() == 1);
  CHECK(PayloadReader(frames[0].payload.substr(4)).u32() == PLAIT_ERR_PEER);
}

TEST_CASE("digests do not depend on the order of the keys, and tell names from values") {
  const Identity ab{{"a", "1"}, {"b", "2"}};
  CHECK(digests_of(ab) == digests_of({{"b", "2"}, {"a", "1"}}));
  CHECK(differing_sections(digests_of(ab), digests_of(ab)) == 0);
  for (const Identity& other :
       {Identity{{"a", "1"}}, {{"a", "1"}, {"b", "3"}}, {{"a", "1"}, {"c", "2"}}})
    CHECK(differing_sections(digests_of(ab), digests_of(other)) != 0);
}

TEST_CASE("the job state: only ranks that differ are asked, and only for the differences") {
  Job job(3);
  Identity same, other;
  for (int i = 0; i < 1000; ++i) same.emplace_back("key" + std::to_string(i), "1");
  other = same;
  other[500].second = "2";
  job.arrive(0, "node", "m", 100, same);
  job.arrive(1, "node", "m", 100, other);
  job.arrive(2, "node", "m", 100, same);
  CHECK(job.got(2).empty());
  const auto say = [&](uint32_t rank, const Identity& identity) {
    const auto asked = job.got(rank);
    REQUIRE(asked.size() == 1);
    REQUIRE(asked[0].kind == MessageKind::kAskKeys);
    FrameReader reader(kMaxPayload);
    reader.add(encode_keys(identity, PayloadReader(asked[0].payload).u64()));
    size_t keys = 0;
    while (const auto frame = reader.next()) {
      IdentityKeys some;
      add_keys(*frame, some);
      keys += some.size();
      job.state.handle(rank, *frame, job.start);
    }
    CHECK(keys < 100);
  };
  SUBCASE("both report their values") {
    say(0, same);
    CHECK(job.end_of(2) == "");
    say(1, other);
    CHECK(has(job.end_of(2), "rank 1 (x) on node has key500 2, rank 0 has 1"));
  }
  SUBCASE("no rank reports in time") {
    job.state.tick(job.state.due());
    CHECK(has(job.end_of(2), "the ranks of the job differ"));
  }
  SUBCASE("keys without a request") {
    CHECK_THROWS_AS(job.say(2, FrameWriter(MessageKind::kKeys)), Error);
  }
}

TEST_CASE("the job state: ranks whose calls differ are asked which they were, and all are told") {
  Job job(3);
  for (uint32_t rank = 0; rank < 3; ++rank) job.arrive(rank);
  for (uint32_t rank = 0; rank < 3; ++rank) job.got(rank);
  const auto at = [&](uint32_t rank, uint64_t hash) {
    job.state.handle(rank, one(encode({"data.0", {{6, 60}, {7, hash}}})), job.start);
  };
  at(0, 70);
  at(2, 70);
  CHECK(job.got(2).empty());
  CHECK_THROWS_AS(job.say(1, FrameWriter(MessageKind::kCallDescription).text("'x'")), Error);
  SUBCASE("both answer") {
    at(1, 71);
    for (const uint32_t rank : {0u, 1u}) {
      const auto asked = job.got(rank);
      REQUIRE(asked.size() == 1);
      CHECK(asked[0].kind == MessageKind::kAskCall);
      PayloadReader r(asked[0].payload);
      CHECK(r.text(kMaxKey) == "data.0");
      CHECK(r.u64() == 7);
    }
    CHECK(job.got(2).empty());
    job.say(1, FrameWriter(MessageKind::kCallDescription).text("'all_gather'"));
    CHECK(job.got(2).empty());
    job.say(0, FrameWriter(MessageKind::kCallDescription).text("'all_reduce'"));
    for (uint32_t rank = 0; rank < 3; ++rank)
      CHECK(has(
          job.end_of(rank),
          "the ranks of group 'data.0' started different collectives: as call 7 rank 0 (x) started "
          "'all_reduce', rank 1 (x) 'all_gather'"));
  }
  SUBCASE("one of them has left") {
    job.say(0, FrameWriter(MessageKind::kGoodbye));
    at(1, 71);
    job.say(1, FrameWriter(MessageKind::kCallDescription).text("'all_gather'"));
    CHECK(has(job.end_of(2), "rank 0 (x) started a different call, rank 1 (x) 'all_gather'"));
  }
}

TEST_CASE("the job state: ranks that join late, twice, or in another job") {
  Job job(3);
  job.arrive(1);
  CHECK(job.state.admit(1, 3)->code == PLAIT_ERR_CONFIG);
  CHECK(has(job.state.admit(1, 3)->text, "rank 1 (x) is already connected (process 101 on node)"));
  job.state.tick(job.start + std::chrono::seconds(9));
  CHECK(job.got(1).empty());
  job.state.tick(job.start + std::chrono::seconds(10));
  CHECK(has(job.end_of(1), "missing: rank 0, rank 2 of 3"));
  CHECK(has(job.state.admit(2, 3)->text, "missing: rank 0, rank 2 of 3"));
}

TEST_CASE("the job state: no rank waits longer than the shortest time-out") {
  Job job(3);
  job.arrive(1, "node", "m", 2);
  CHECK(job.state.due() == job.start + std::chrono::seconds(2));
}

TEST_CASE("the job state: two machines of one name are told apart") {
  Job job(3);
  job.arrive(0, "node", "m0");
  job.arrive(1, "node", "");
  job.arrive(2, "node", "m2");
  CHECK(has(job.end_of(2),
            "rank 0 (x) and rank 2 (x) run on two machines that are both called node"));
}

TEST_CASE("the job state: leaving") {
  Job job(3);
  for (uint32_t rank = 0; rank < 3; ++rank) job.arrive(rank);
  job.say(2, FrameWriter(MessageKind::kGoodbye));
  CHECK(!job.state.is_connected(2));
  const Time over = job.state.due();
  CHECK(over == job.start + std::chrono::seconds(3));
  job.say(0, FrameWriter(MessageKind::kGoodbye));
  job.state.tick(over - std::chrono::milliseconds(1));
  CHECK(job.end_of(1) == "");
  SUBCASE("the others follow") {
    job.say(1, FrameWriter(MessageKind::kGoodbye));
    job.state.tick(over);
    CHECK(job.end_of(1) == "");
    CHECK(job.state.n_connected() == 0);
  }
  SUBCASE("one stays") {
    job.state.tick(over);
    CHECK(job.end_of(1) == "rank 2 (x) left the job while others were still working");
  }
}
