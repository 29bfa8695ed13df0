// Failures between ranks become PLAIT_ERR_PEER on every waiting rank, in time, with a text that
// names the rank and the call.
#include <doctest/doctest.h>

#include <barrier>
#include <latch>
#include <optional>

#include "tests/comm/ranks.hpp"
#include "tests/support/no_threads.hpp"

namespace {

using namespace comm_test;
using Floats = std::vector<float>;

// In groups made of other groups, not every rank learns which rank was missing first.
bool composed(const Plugin& plugin) { return plugin.name().find('+') != std::string::npos; }
// Backends whose ranks see each other's calls report a mismatch at once; others by the time-out.
bool sees_calls(const Plugin& plugin) { return plugin.name() != "gloo" && !composed(plugin); }

plait_comm_desc sum_of(Floats& data, uint64_t n) {
  return desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, n, data.data(), data.data(), PLAIT_COMM_SUM);
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
void check_peer(const Outcome& outcome, const std::vector<std::string>& parts, double within) {
  CAPTURE(outcome.text);
  CHECK(outcome.code == PLAIT_ERR_PEER);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(outcome.text, part));
  }
  CHECK(outcome.seconds < within);
}

}  // namespace

TEST_SUITE("failure") {
  TEST_CASE("a rank that does not start is named by those that wait") {
    for (const auto& plugin : plugins()) {
      std::latch over(2);
      const auto outcomes = run_group(
          *plugin, 3,
          [&](Comm& comm) {
            Floats data(100, 1);
            Call call(comm, sum_of(data, 100));
            call.run();
            if (comm.rank() == 2) return over.wait();
            std::string first;
            try {
              call.run();
            } catch (const Failure& e) {
              first = e.what();
            }
            try {
              over.count_down();
              Call(comm, sum_of(data, 50)).run();  // the group has failed: the same error, at once
            } catch (const Failure& e) {
              require(first == e.what(), first + " became " + e.what());
              throw;
            }
          },
          {"data[0]", 20, 0.5});
      CHECK(outcomes[2].ok());
      const std::string call = "] group 'data[0]': all_reduce of 100 f32 (sum)",
                        missing = "missing: rank 2 (data 2)";
      for (int r : {0, 1})
        if (composed(*plugin))
          check_peer(outcomes[r], {call, "rank "}, 3);
        else
          check_peer(outcomes[r], {call, "timed out", missing}, 3);
      CHECK((contains(outcomes[0].text, missing) || contains(outcomes[1].text, missing)));
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("ranks that can start no thread say so, and none waits for another") {
    for (const auto& plugin : plugins()) {
      CAPTURE(plugin->name());
      constexpr uint32_t kRanks = 3;
      std::optional<plait::test::NoThreads> none;
      std::barrier began(kRanks, [&none]() noexcept { none.emplace(); });
      MemoryStore store;
      const auto outcomes = each_rank(kRanks, [&](uint32_t rank) {
        began.arrive_and_wait();
        Comm comm(*plugin, store.raw(), rank, kRanks, {"data[0]", 60, 60});
        Floats data(10, 1);
        Call(comm, sum_of(data, 10)).run();
      });
      none.reset();
      bool said = plugin->name() == "shm";  // it needs none
      for (const Outcome& o : outcomes) {
        if (o.ok()) continue;
        CAPTURE(o.text);
        CHECK((o.code == PLAIT_ERR_IO || o.code == PLAIT_ERR_PEER));
        CHECK(o.text.starts_with("["));
        CHECK(o.seconds < 10);
        said = said || (contains(o.text, "cannot start a thread") && contains(o.text, "ulimit -u"));
      }
      CHECK(said);
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("time-outs of every kind, on groups of every size") {
    struct Late {
      uint32_t kind, ranks;
    };
    constexpr uint32_t kAll = PLAIT_COMM_ALL_REDUCE;
    const Late table[] = {{kAll, 2},
                          {kAll, 3},
                          {kAll, 4},
                          {kAll, 7},
                          {kAll, 8},
                          {PLAIT_COMM_BARRIER, 4},
                          {PLAIT_COMM_REDUCE_SCATTER, 4},
                          {PLAIT_COMM_ALL_GATHER, 4},
                          {PLAIT_COMM_BROADCAST, 4},
                          {PLAIT_COMM_ALL_TO_ALL, 4},
                          {PLAIT_COMM_RECEIVE, 2}};
    for (const auto& plugin : plugins())
      for (const Late& late : table) {
        const uint32_t kind = late.kind, ranks = late.ranks;
        CAPTURE(plugin->name());
        CAPTURE(kind);
        CAPTURE(ranks);
        const uint32_t last = ranks - 1;  // never starts
        const bool has_peer = kind == PLAIT_COMM_BROADCAST || kind == PLAIT_COMM_RECEIVE;
        const bool reduces = kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_REDUCE_SCATTER;
        std::latch open(ranks), over(last);
        const auto outcomes = run_group(
            *plugin, ranks,
            [&](Comm& comm) {
              open.arrive_and_wait();
              if (comm.rank() == last) return over.wait();
              Floats in(10 * ranks, 1), out(10 * ranks);
              try {
                Call(comm, desc(kind, PLAIT_F32, kind == PLAIT_COMM_BARRIER ? 0 : 10, in.data(),
                                out.data(), reduces ? PLAIT_COMM_SUM : 0, has_peer ? last : 0))
                    .run();
              } catch (...) {
                over.count_down();
                throw;
              }
              over.count_down();
            },
            {"data[0]", 20, 0.1});
        // The rank that waits longest may learn of it from the others.
        bool told = false;
        for (uint32_t r = 0; r < last; ++r) {
          check_peer(outcomes[r], {"] group 'data[0]"}, 10);
          const std::string& text = outcomes[r].text;
          told = told || (contains(text, "timed out") &&
                          (composed(*plugin) ||
                           contains(text, "missing: rank " + std::to_string(last) + " (data ")));
        }
        CHECK(told);
        CHECK(outcomes[last].ok());
        CHECK(live_errors() == 0);
      }
  }

  TEST_CASE("a message that does not arrive") {
    for (const auto& plugin : plugins()) {
      std::latch over(1);
      const auto outcomes = run_group(
          *plugin, 2,
          [&](Comm& comm) {
            if (comm.rank() == 1) return over.wait();
            Floats data(5);
            Call call(comm, desc(PLAIT_COMM_RECEIVE, PLAIT_F32, 5, nullptr, data.data(), 0, 1));
            try {
              call.run();
            } catch (...) {
              over.count_down();
              throw;
            }
          },
          {"pipe[1]", 20, 0.3});
      check_peer(outcomes[0],
                 {"group 'pipe[1]': receive of 5 f32 from rank 1 (data 1)", "timed out"}, 3);
    }
  }

  TEST_CASE("abort wakes everybody with its text") {
    for (const auto& plugin : plugins()) {
      std::atomic<Comm*> end{nullptr};
      std::atomic<int> waiting{0};
      std::chrono::steady_clock::time_point aborted;
      std::thread outside([&] {
        while (waiting < 2 || !end) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        aborted = std::chrono::steady_clock::now();
        end.load()->abort("[control] rank 9 (stage 4) died at step 12");
        end.load()->abort("another text");
      });
      std::latch over(2);
      const auto outcomes = run_group(*plugin, 3, [&](Comm& comm) {
        if (comm.rank() == 2) return over.wait();
        if (comm.rank() == 0) end = &comm;
        Floats data(1000, 1);
        Call call(comm, sum_of(data, 1000));
        call.start();
        ++waiting;
        try {
          call.finish();
        } catch (const Failure&) {
          const std::chrono::duration<double> late = std::chrono::steady_clock::now() - aborted;
          over.count_down();
          require(late.count() < 1, "woke up late");
          if (comm.rank() == 0) outside.join();  // the endpoint must outlive the abort
          throw;
        }
      });
      check_peer(outcomes[0], {"[control] rank 9 (stage 4) died at step 12"}, 5);
      CHECK(outcomes[0].text == "[control] rank 9 (stage 4) died at step 12");
      CHECK(outcomes[1].code == PLAIT_ERR_PEER);
      CHECK(outcomes[1].seconds < 5);
    }
  }

  TEST_CASE("after an abort nothing starts") {
    for (const auto& plugin : plugins()) {
      const auto outcomes = run_group(*plugin, 1, [&](Comm& comm) {
        Floats data(3);
        Call call(comm, sum_of(data, 3));
        call.run();
        comm.abort("stop");
        call.run();
      });
      CHECK(outcomes[0].code == PLAIT_ERR_PEER);
      CHECK(outcomes[0].text == "stop");
    }
  }

  TEST_CASE("a rank that is missing at the rendezvous is named") {
    for (const auto& plugin : plugins()) {
      MemoryStore store(0.5);
      const GroupSettings settings{"data[0]", 0.5, 20};
      const auto outcomes = each_rank(4, [&](uint32_t rank) {
        if (rank == 1 || rank == 3) return;
        Comm comm(*plugin, store.raw(), rank, 4, settings);
      });
      for (int r : {0, 2})
        check_peer(
            outcomes[r],
            {"group 'data[0]'", composed(*plugin) ? "missing: " : "missing: rank 1 (data 1)"}, 3);
      // Rank 0 sees which ranks are present, or has waited for rank 1 first.
      if (sees_calls(*plugin)) CHECK(contains(outcomes[0].text, "rank 3 (data 3)"));
    }
  }

  TEST_CASE("rank 0 does not connect") {
    for (const auto& plugin : plugins()) {
      MemoryStore store(0.3);
      const auto outcomes = each_rank(2, [&](uint32_t rank) {
        if (rank == 0) return;
        Comm comm(*plugin, store.raw(), rank, 2, {"data[0]", 0.3, 20});
      });
      check_peer(outcomes[1], {"group 'data[0]'", "missing: rank 0 (data 0)"}, 3);
    }
  }

  TEST_CASE("calls that do not match exchange no data") {
    struct Pair {
      plait_comm_desc one, other;
      const char *text, *other_text;
    };
    Floats a(100, 1), b(100, 2), c(100);
    float *x = a.data(), *y = b.data(), *z = c.data();
    const Pair pairs[] = {
        {desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 10, x, x, 1),
         desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 11, y, z, 1), "all_reduce of 10 f32 (sum)",
         "all_reduce of 11 f32 (sum)"},
        {desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 10, x, x, 1),
         desc(PLAIT_COMM_ALL_REDUCE, PLAIT_I32, 10, y, z, 1), "f32 (sum)", "i32 (sum)"},
        {desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 10, x, x, 1),
         desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 10, y, z, 2), "(sum)", "(max)"},
        {desc(PLAIT_COMM_BARRIER, 0, 0, nullptr, nullptr),
         desc(PLAIT_COMM_BROADCAST, PLAIT_F32, 10, y, z), "barrier", "broadcast of 10 f32 from 0"},
        {desc(PLAIT_COMM_SEND, PLAIT_F32, 10, x, nullptr, 0, 1),
         desc(PLAIT_COMM_RECEIVE, PLAIT_F32, 20, nullptr, z, 0, 0), "send of 10 f32 to rank 1",
         "receive of 20 f32 from rank 0"},
    };
    for (const auto& plugin : plugins())
      for (const Pair& pair : pairs) {
        const double limit = sees_calls(*plugin) ? 10 : 0.4;
        std::atomic<int> failed{0};
        const auto outcomes = run_group(*plugin, 2,
                                        [&](Comm& comm) {
                                          Call call(comm, comm.rank() ? pair.other : pair.one);
                                          try {
                                            call.run();
                                          } catch (...) {
                                            ++failed;
                                            while (failed < 2) std::this_thread::yield();
                                            throw;
                                          }
                                        },
                                        {"data[0]", 20, limit});
        for (const Outcome& outcome : outcomes) {
          std::vector<std::string> parts = {"group 'data[0]'"};
          if (sees_calls(*plugin)) parts.insert(parts.end(), {pair.text, pair.other_text});
          check_peer(outcome, parts, 5);
        }
        CHECK(c == Floats(100));
      }
  }

  TEST_CASE("calls in the group's memory that do not match, and one that is missing") {
    constexpr uint64_t kLarge = 100000;
    for (const auto& plugin : plugins()) {
      if (!plugin->item().memory) continue;
      const auto sum = [](float* at) {
        return desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, kLarge, at, at, PLAIT_COMM_SUM);
      };
      const auto apart = run_group(*plugin, 2, [&](Comm& comm) {
        float* const memory = comm.memory<float>(2 * kLarge);
        Call(comm, sum(memory + 16 * comm.rank())).run();
      });
      for (const Outcome& outcome : apart)
        check_peer(outcome, {"at byte 0 of memory 1", "at byte 64 of memory 1"}, 5);
      std::latch over(2);
      const auto missing = run_group(*plugin, 3,
                                     [&](Comm& comm) {
                                       float* const memory = comm.memory<float>(kLarge);
                                       Call call(comm, sum(memory));
                                       call.run();
                                       if (comm.rank() == 1) return over.wait();
                                       try {
                                         call.run();
                                       } catch (...) {
                                         over.count_down();
                                         throw;
                                       }
                                     },
                                     {"data[0]", 20, 0.5});
      for (const int r : {0, 2})
        check_peer(missing[r], {"all_reduce of 100000 f32 (sum)", "missing: rank 1 (data 1)"}, 3);
    }
  }

  TEST_CASE("memory of the group: members that ask for different bytes, do not ask, abort") {
    constexpr uint64_t kBytes = 1 << 20;
    for (const auto& plugin : plugins()) {
      if (!plugin->item().memory) continue;
      const auto apart =
          run_group(*plugin, 2, [&](Comm& comm) { comm.memory<char>(kBytes + 64 * comm.rank()); });
      for (const Outcome& outcome : apart)
        check_peer(outcome, {"1048576", "1048640", "ask for the same"}, 5);
      std::latch over(2);
      const auto missing = run_group(*plugin, 3,
                                     [&](Comm& comm) {
                                       if (comm.rank() == 1) return over.wait();
                                       try {
                                         comm.memory<char>(kBytes);
                                       } catch (...) {
                                         over.count_down();
                                         throw;
                                       }
                                     },
                                     {"data[0]", 20, 0.5});
      for (const int r : {0, 2})
        check_peer(missing[r], {"memory of 1048576 bytes", "missing: rank 1 (data 1)"}, 3);
      const auto aborted = run_group(*plugin, 2, [&](Comm& comm) {
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          return comm.abort("enough");
        }
        comm.memory<char>(kBytes);
      });
      check_peer(aborted[0], {"rank 1 (data 1) ended the group: enough"}, 1);
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("a rank that leaves is named by those that wait for it") {
    for (const auto& plugin : plugins()) {
      const auto outcomes = run_group(*plugin, 3, [&](Comm& comm) {
        Floats data(100, 1);
        Call call(comm, sum_of(data, 100));
        call.run();
        if (comm.rank() != 1) call.run();
      });
      CHECK(outcomes[1].ok());
      // One of the two may learn of it from the other.
      for (int r : {0, 2}) check_peer(outcomes[r], {"group 'test[0]'", "rank"}, 5);
      CHECK((contains(outcomes[0].text, "rank 1 (data 1)") ||
             contains(outcomes[2].text, "rank 1 (data 1)")));
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("a call released while it is active fails the group") {
    for (const auto& plugin : plugins()) {
      const auto outcomes = run_group(*plugin, 2, [&](Comm& comm) {
        Floats data(100, 1);
        Call call(comm, sum_of(data, 100));
        if (comm.rank() == 0) {
          Call other(comm, sum_of(data, 100));
          other.start();
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        call.run();
      });
      check_peer(outcomes[1], {"group 'test[0]'", "rank 0 (data 0)"}, 5);
    }
  }

  TEST_CASE("large calls cut off by an abort leave memory alone afterwards") {
    for (const auto& plugin : plugins())
      for (int round = 0; round < 5; ++round) {
        std::latch open(3);  // an abort also ends opens in progress
        const auto outcomes = run_group(*plugin, 3, [&](Comm& comm) {
          auto data = std::make_unique<Floats>(2000000, 1.0f);
          open.arrive_and_wait();
          std::thread outside;
          if (comm.rank() == 0)
            outside = std::thread([&] {
              std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
              comm.abort("cut off");
            });
          try {
            Call call(comm, sum_of(*data, data->size()));  // may be too late already
            call.run();
          } catch (const Failure& e) {
            require(e.code == PLAIT_ERR_PEER, e.what());
          }
          data.reset();  // sanitizers detect later writes
          if (outside.joinable()) outside.join();
        });
        CHECK_NOTHROW(expect_all_ok(outcomes));
      }
  }
}
