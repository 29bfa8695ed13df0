// Calls of the entry points of NCCL fail in turn: the ranks are told, none hangs, and nothing is
// left.
#include <doctest/doctest.h>

#include "tests/comm/ranks.hpp"
#include "tests/cuda_emulator/interface.hpp"
#include "tests/cuda_emulator/nccl/faults.hpp"
#include "tests/nccl/device.hpp"

namespace {

using namespace comm_test;
using Floats = std::vector<float>;

struct Entry {
  const char* name;
  int first, last;  // calls in a life of two ranks, with what opens their group
  bool tells = true;
};

// A call of every kind, and a message from each rank to the other.
void life(Comm& comm) {
  constexpr size_t kN = 10;
  Floats one(kN, 1), many(2 * kN, 1), out(2 * kN), received(kN);
  const uint32_t other = 1 - comm.rank();
  Call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, kN, one.data(), out.data(), PLAIT_COMM_SUM))
      .run();
  Call(comm,
       desc(PLAIT_COMM_REDUCE_SCATTER, PLAIT_F32, kN, many.data(), out.data(), PLAIT_COMM_SUM))
      .run();
  Call(comm, desc(PLAIT_COMM_ALL_GATHER, PLAIT_F32, kN, one.data(), out.data())).run();
  Call(comm, desc(PLAIT_COMM_BROADCAST, PLAIT_F32, kN, one.data(), out.data())).run();
  Call(comm, desc(PLAIT_COMM_ALL_TO_ALL, PLAIT_F32, kN, many.data(), out.data())).run();
  Call(comm, desc(PLAIT_COMM_BARRIER, 0, 0, nullptr, nullptr)).run();
  Call send(comm, desc(PLAIT_COMM_SEND, PLAIT_F32, kN, one.data(), nullptr, 0, other));
  Call receive(comm, desc(PLAIT_COMM_RECEIVE, PLAIT_F32, kN, nullptr, received.data(), 0, other));
  send.start(), receive.start();
  send.finish(), receive.finish();
}

std::vector<Outcome> outcomes_of(const std::string& faults, double connect, double timeout) {
  nccl_emulator_configure(faults.c_str());
  const auto& plugin = static_cast<const OnGpus&>(*plugins().front());
  auto outcomes = run_group(plugin, 2, life, {"data[0]", connect, timeout});
  CHECK(std::string(emulator_live()) == "");
  CHECK(live_errors() == 0);
  return outcomes;
}

}  // namespace

TEST_SUITE("entries") {
  TEST_CASE("whichever call of NCCL fails, the ranks are told") {
    for (const Outcome& outcome : outcomes_of("", 20, 20)) CHECK(outcome.text == "");
    // Not the first exchanges, in which connections are made: streams of the emulated driver do
    // their work at once, so a rank whose peer has left in one waits inside of it, where no
    // time-out is.
    // Of what ends a communicator nobody needs to hear.
    const Entry entries[] = {{"ncclGetUniqueId", 1, 3},
                             {"ncclCommInitRankConfig", 1, 6},
                             {"ncclAllReduce", 3, 6},
                             {"ncclReduceScatter", 1, 2},
                             {"ncclAllGather", 1, 2},
                             {"ncclBroadcast", 1, 2},
                             {"ncclGroupStart", 3, 4},
                             {"ncclSend", 3, 6},
                             {"ncclRecv", 3, 6},
                             {"ncclGroupEnd", 3, 4},
                             {"ncclCommFinalize", 1, 6, false},
                             {"ncclCommDestroy", 1, 6, false}};
    for (const Entry& entry : entries) {
      int fired = 0;
      for (int call = entry.first; call <= entry.last; ++call) {
        const int error = 2 + call % 2;  // of the system, internal
        const std::string fault =
            std::string(entry.name) + ":" + std::to_string(call) + ":" + std::to_string(error);
        CAPTURE(fault);
        bool told = false;
        for (const Outcome& outcome : outcomes_of("fail=" + fault, 1, 0.5)) {
          CAPTURE(outcome.text);
          if (outcome.ok()) continue;
          CHECK(outcome.text.find("[nccl] group 'data[0]'") == 0);
          told |= outcome.text.find(error == 2 ? "(ncclSystemError)" : "(ncclInternalError)") !=
                  std::string::npos;
        }
        // On a busy machine a time-out may come first.
        if (entry.tells && nccl_emulator_has_failed()) CHECK(told);
        fired += nccl_emulator_has_failed() ? 1 : 0;
        nccl_emulator_configure("");
      }
      CAPTURE(entry.name);
      CHECK(fired > 0);
    }
  }
}
