// Ranks that can start no thread: what they are told, and that none waits for ever.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <optional>

#include "tests/comm/ranks.hpp"
#include "tests/nccl/recorded_sum.hpp"
#include "tests/support/no_threads.hpp"
#include "tests/support/thread_faults.hpp"

namespace {

using namespace comm_test;

// A sum, and a message from rank 0 to rank 1.
void work_as(uint32_t rank, const plait_store* store, const GroupSettings& settings) {
  Comm comm(plugin(), store, rank, 2, settings);
  Floats data(10, 1);
  Call(comm, sum_of(data)).run();
  require(data == Floats(10, 2), "a wrong sum");
  const bool sends = rank == 0;
  Call(comm, desc(sends ? PLAIT_COMM_SEND : PLAIT_COMM_RECEIVE, PLAIT_F32, 10, data.data(),
                  data.data(), 0, 1 - rank))
      .run();
}

}  // namespace

TEST_SUITE("nccl") {
  TEST_CASE("each thread that the ranks start fails in turn: an error of the call that needs it") {
    // Of each rank: for its communicator, to watch the group, and two for a message.
    constexpr int64_t kThreads = 8;
    for (int64_t n = 1; n <= kThreads + 1; ++n) {
      CAPTURE(n);
      std::barrier began(2, [n]() noexcept { plait::test::fail_thread(n); });
      MemoryStore store(3);
      const auto outcomes = each_rank(2, [&](uint32_t rank) {
        began.arrive_and_wait();
        work_as(rank, store.raw(), {"data[0]", 3, 2});
      });
      CHECK(plait::test::thread_has_failed() == (n <= kThreads));
      plait::test::fail_thread(0);
      int64_t said = 0;
      for (const Outcome& o : outcomes) {
        CAPTURE(o.text);
        CHECK(o.seconds < 10);
        if (o.code == PLAIT_ERR_IO) {
          ++said;
          CHECK(o.text.starts_with("[nccl] group 'data[0]' cannot start a thread: "));
          CHECK(o.text.find("; raise the limits of processes and memory (ulimit -u") !=
                o.text.npos);
        } else if (!o.ok()) {
          CHECK(o.code == PLAIT_ERR_PEER);
        }
      }
      CHECK(said == (n <= kThreads ? 1 : 0));
      nothing_left();
    }
    MemoryStore store;
    expect_all_ok(each_rank(2, [&](uint32_t rank) { work_as(rank, store.raw(), {}); }));
  }

  // NCCL gives the communicator of the sum up when its graph is closed, which the rank does when
  // the message has ended.
  TEST_CASE("a group ends a message although a graph holds a sum and there are no threads") {
    std::optional<plait::test::NoThreads> none;
    std::atomic<bool> ended{false};
    const auto outcomes = run_group(
        plugin(), 2,
        [&](Comm& comm) {
          Floats data(10, 1);
          RecordedSum sum(comm, data);
          sum.launch();
          const uint32_t kind = comm.rank() == 0 ? PLAIT_COMM_RECEIVE : PLAIT_COMM_SEND;
          Call call(comm, desc(kind, PLAIT_F32, 10, data.data(), data.data(), 0, 1 - comm.rank()));
          call.run();
          if (comm.rank() == 1) {  // sends no second message
            for (int i = 0; i < 200 && !ended; ++i)
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
            return;
          }
          none.emplace();
          try {
            call.run();
          } catch (const Failure&) {
            ended = true;
            throw;
          }
        },
        {"data[0]", 10, 0.3});
    none.reset();
    CAPTURE(outcomes[0].text);
    CHECK(outcomes[0].code == PLAIT_ERR_PEER);
    CHECK(outcomes[0].text.find("receive of 10 f32 from rank 1 (data 1) has not ended") !=
          std::string::npos);
    CHECK(outcomes[0].seconds < 8);
    nothing_left();
  }
}
