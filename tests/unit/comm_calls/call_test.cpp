// What every backend asks of a call before it keeps it: which memory it may be given, and what a
// kind has.
#include "plugins/comm/call.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace {

using namespace plait;
using comm_support::Members;

// Rank `rank` of a group of three.
Members members(uint32_t rank) {
  static const char* const kNames[] = {"rank 0", "rank 1", "rank 2"};
  plait_comm_setup setup{};
  setup.struct_size = sizeof setup;
  setup.name = "data[0]";
  setup.rank = rank;
  setup.size = 3;
  setup.ranks = setup.hosts = kNames;
  return Members("test", setup);
}

// "" where the call may be made.
std::string fault_of(uint32_t rank, const plait_comm_desc& d) {
  try {
    comm_support::checked(members(rank), d);
    return "";
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_INVALID);
    const std::string text = e.what(), begin = "[test] group 'data[0]': a call of kind ",
                      end = "; see plait/comm.h";
    CHECK(text.starts_with(begin + comm_support::kind_name(d.kind) + " cannot be prepared: "));
    CHECK(text.ends_with(end));
    const size_t at = text.find(": ", begin.size()) + 2;
    return text.substr(at, text.size() - end.size() - at);
  }
}

float memory[40];
plait_comm_desc of(uint32_t kind, uint64_t n, const float* in, float* out, uint32_t peer = 0) {
  return {sizeof(plait_comm_desc),
          kind,
          PLAIT_F32,
          comm_support::reduces(kind) ? uint32_t{PLAIT_COMM_SUM} : 0,
          peer,
          n,
          in,
          out};
}

}  // namespace

TEST_CASE("in and out of a call may touch, and overlap only as its kind says") {
  constexpr uint32_t kRank = 1;
  float* const m = memory + 20;
  constexpr const char* kWhole = "out overlaps in without being in";
  constexpr const char* kScatter = "out overlaps in without being this rank's row of it";
  constexpr const char* kGather = "in overlaps out without being this rank's row of it";
  // `in` lies at m; where `out` lies relative to it. Of 3 ranks, with rows of 2.
  const struct {
    uint32_t kind, peer;
    int first, last;           // the places that are refused, but
    std::vector<int> allowed;  // these
    const char* fault;
  } kinds[] = {
      {PLAIT_COMM_ALL_REDUCE, 0, -1, 1, {0}, kWhole},
      {PLAIT_COMM_BROADCAST, kRank, -1, 1, {0}, kWhole},
      {PLAIT_COMM_BROADCAST, 0, 0, -1, {}, kWhole},  // it reads no `in` here
      {PLAIT_COMM_REDUCE_SCATTER, 0, -1, 5, {2}, kScatter},
      {PLAIT_COMM_ALL_GATHER, 0, -5, 1, {-2}, kGather},
      {PLAIT_COMM_ALL_TO_ALL, 0, -5, 5, {}, "out overlaps in"},
      {PLAIT_COMM_SEND, 0, 0, -1, {}, ""},
      {PLAIT_COMM_RECEIVE, 0, 0, -1, {}, ""},
  };
  for (const auto& k : kinds)
    for (int at = -8; at <= 8; ++at) {
      CAPTURE(std::string(comm_support::kind_name(k.kind)));
      CAPTURE(at);
      const bool allowed = at < k.first || at > k.last ||
                           std::find(k.allowed.begin(), k.allowed.end(), at) != k.allowed.end();
      CHECK(fault_of(kRank, of(k.kind, 2, m, m + at, k.peer)) ==
            (allowed ? "" : std::string(k.fault)));
      CHECK(fault_of(kRank, of(k.kind, 0, m, m + at, k.peer)) == "");
    }
}

TEST_CASE("a call has the memory that it reads and writes") {
  float* const m = memory;
  const struct {
    uint32_t kind, peer;
    bool reads, writes;
  } kinds[] = {{PLAIT_COMM_ALL_REDUCE, 0, true, true}, {PLAIT_COMM_REDUCE_SCATTER, 0, true, true},
               {PLAIT_COMM_ALL_GATHER, 0, true, true}, {PLAIT_COMM_ALL_TO_ALL, 0, true, true},
               {PLAIT_COMM_BROADCAST, 1, true, true},  {PLAIT_COMM_BROADCAST, 2, false, true},
               {PLAIT_COMM_SEND, 0, true, false},      {PLAIT_COMM_RECEIVE, 2, false, true}};
  for (const auto& k : kinds) {
    CAPTURE(std::string(comm_support::kind_name(k.kind)));
    CHECK(fault_of(1, of(k.kind, 2, m, m + 20, k.peer)) == "");
    CHECK(fault_of(1, of(k.kind, 2, nullptr, m, k.peer)) == (k.reads ? "in is NULL" : ""));
    CHECK(fault_of(1, of(k.kind, 2, m, nullptr, k.peer)) == (k.writes ? "out is NULL" : ""));
    CHECK(fault_of(1, of(k.kind, 0, nullptr, nullptr, k.peer)) == "");
  }
}

TEST_CASE("a call has what its kind has, and nothing else") {
  float* const m = memory;
  const auto changed = [&](uint32_t kind, auto&& change) {
    plait_comm_desc d = of(kind, 2, m, m + 20, comm_support::point_to_point(kind) ? 2 : 0);
    change(d);
    return fault_of(1, d);
  };
  using D = plait_comm_desc;
  for (const uint32_t kind : {PLAIT_COMM_ALL_REDUCE, PLAIT_COMM_REDUCE_SCATTER}) {
    for (const uint32_t reduction : {PLAIT_COMM_SUM, PLAIT_COMM_MAX, PLAIT_COMM_MIN})
      CHECK(changed(kind, [&](D& d) { d.reduction = reduction; }) == "");
    CHECK(changed(kind, [](D& d) { d.reduction = 0; }) == "reduction 0 is unknown");
    CHECK(changed(kind, [](D& d) { d.reduction = 4; }) == "reduction 4 is unknown");
    CHECK(changed(kind, [](D& d) { d.dtype = PLAIT_BOOL; }) == "bool cannot be reduced");
  }
  for (const uint32_t kind : {PLAIT_COMM_BROADCAST, PLAIT_COMM_ALL_GATHER, PLAIT_COMM_ALL_TO_ALL,
                              PLAIT_COMM_SEND, PLAIT_COMM_RECEIVE}) {
    CHECK(changed(kind, [](D& d) { d.reduction = PLAIT_COMM_SUM; }) ==
          "a reduction is given to a kind that has none");
    CHECK(changed(kind, [](D& d) { d.dtype = PLAIT_BOOL; }) == "");
  }
  for (const uint32_t kind : {PLAIT_COMM_BROADCAST, PLAIT_COMM_SEND, PLAIT_COMM_RECEIVE}) {
    CHECK(changed(kind, [](D& d) { d.peer = 2; }) == "");
    CHECK(changed(kind, [](D& d) { d.peer = 3; }) == "peer 3 is no member of 3");
    CHECK(changed(kind, [](D& d) { d.peer = 1; }) ==
          (kind == PLAIT_COMM_BROADCAST ? "" : "the peer is this rank itself"));
  }
  for (const uint32_t kind : {PLAIT_COMM_BARRIER, PLAIT_COMM_ALL_REDUCE, PLAIT_COMM_ALL_GATHER})
    CHECK(changed(kind, [](D& d) { d.peer = 1; }) == "a peer is given to a kind that has none");
  CHECK(changed(PLAIT_COMM_BARRIER, [](D&) {}) == "a barrier has elements");
  CHECK(changed(PLAIT_COMM_BARRIER, [](D& d) { d.n = 0; }) == "");
  for (const uint32_t kind : {0u, 9u})
    CHECK(changed(kind, [](D&) {}) == "kind " + std::to_string(kind) + " is unknown");
}

TEST_CASE("a call counts no more elements than memory has, in a struct that has all of a call") {
  constexpr uint64_t kMost = INT64_MAX / sizeof(float) / 3;
  plait_comm_desc d = of(PLAIT_COMM_ALL_GATHER, kMost, nullptr, nullptr);
  CHECK(fault_of(1, d) == "in is NULL");
  ++d.n;
  CHECK(fault_of(1, d) == std::to_string(kMost + 1) + " elements exceed memory");
  d = of(PLAIT_COMM_ALL_REDUCE, 2, memory, memory);
  d.struct_size = offsetof(plait_comm_desc, out) + sizeof(d.out);
  CHECK(fault_of(1, d) == "");
  --d.struct_size;
  CHECK(fault_of(1, d) == "struct_size " + std::to_string(d.struct_size) + " is too small");
}
