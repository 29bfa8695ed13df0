// A backend beyond single calls: repeated starts, concurrent calls, several groups, messages,
// refusals.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <thread>

#include "tests/comm/ranks.hpp"
#include "tests/support/descriptors.hpp"

namespace {

using namespace comm_test;
using Floats = std::vector<float>;

plait_comm_desc sum_of(Floats& in, Floats& out) {
  return desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, in.size(), in.data(), out.data(), PLAIT_COMM_SUM);
}
plait_comm_desc send_to(uint32_t peer, const Floats& in) {
  return desc(PLAIT_COMM_SEND, PLAIT_F32, in.size(), in.data(), nullptr, 0, peer);
}
plait_comm_desc receive_from(uint32_t peer, Floats& out) {
  return desc(PLAIT_COMM_RECEIVE, PLAIT_F32, out.size(), nullptr, out.data(), 0, peer);
}

void on_all(uint32_t ranks, const std::function<void(Comm&)>& body) {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    CHECK_NOTHROW(expect_all_ok(run_group(*plugin, ranks, body)));
    CHECK(live_errors() == 0);
  }
}

std::string text_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Failure& e) {
    return e.what();
  }
  return "no error";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("behaviour") {
  TEST_CASE("a call is started many times") {
    on_all(3, [](Comm& comm) {
      Floats in(100), out(100);
      Call call(comm, sum_of(in, out));
      for (int step = 0; step < 1000; ++step) {
        for (size_t i = 0; i < in.size(); ++i)
          in[i] = static_cast<float>(comm.rank() + 1) * static_cast<float>(step + i);
        call.run();
        for (size_t i = 0; i < out.size(); ++i)
          require(out[i] == 6.0f * static_cast<float>(step + i), "wrong sum");
      }
    });
  }

  TEST_CASE("calls under way at once, finished in any order") {
    on_all(4, [](Comm& comm) {
      constexpr size_t kCalls = 12;
      std::vector<Floats> in, out;
      for (size_t c = 0; c < kCalls; ++c) {
        in.emplace_back(50 * c + 1, static_cast<float>(comm.rank() + c));
        out.emplace_back(in.back().size());
      }
      std::vector<std::unique_ptr<Call>> calls;
      for (size_t c = 0; c < kCalls; ++c)
        calls.push_back(std::make_unique<Call>(comm, sum_of(in[c], out[c])));
      for (int round = 0; round < 20; ++round) {
        for (auto& call : calls) call->start();
        for (size_t c = 0; c < kCalls; ++c) calls[comm.rank() % 2 ? c : kCalls - 1 - c]->finish();
        for (size_t c = 0; c < kCalls; ++c)
          require(out[c].back() == 6 + 4 * static_cast<float>(c), "wrong sum");
      }
    });
  }

  TEST_CASE("two groups at once, finished in opposite orders") {
    for (const auto& plugin : plugins()) {
      MemoryStore first, second;
      const auto outcomes = each_rank(2, [&](uint32_t rank) {
        Comm a(*plugin, first.raw(), rank, 2, {"a", 20, 20});
        Comm b(*plugin, second.raw(), rank, 2, {"b", 20, 20});
        Floats x(1000, 1), y(1000, 2), sum_x(1000), sum_y(1000);
        Call on_a(a, sum_of(x, sum_x)), on_b(b, sum_of(y, sum_y));
        for (int step = 0; step < 100; ++step) {
          on_a.start();
          on_b.start();
          rank ? on_a.finish() : on_b.finish();
          rank ? on_b.finish() : on_a.finish();
          require(sum_x[999] == 2 && sum_y[0] == 4, "wrong sum");
        }
      });
      CHECK_NOTHROW(expect_all_ok(outcomes));
    }
  }

  TEST_CASE("two groups at once with large calls of several kinds, finished in opposite orders") {
    constexpr uint32_t kRanks = 3;
    constexpr size_t kN = 400000;  // larger than any internal buffer of a backend
    for (const auto& plugin : plugins()) {
      CAPTURE(plugin->name());
      MemoryStore first, second;
      const auto outcomes = each_rank(kRanks, [&](uint32_t rank) {
        Comm a(*plugin, first.raw(), rank, kRanks, {"a", 20, 20});
        Comm b(*plugin, second.raw(), rank, kRanks, {"b", 20, 20});
        Floats x(kN, 1), y(kRanks * kN, 2), z(kN, static_cast<float>(rank));
        Floats sum(kN), part(kN), all(kRanks * kN);
        Call sum_on_a(a, sum_of(x, sum));
        Call scatter_on_b(b, desc(PLAIT_COMM_REDUCE_SCATTER, PLAIT_F32, kN, y.data(), part.data(),
                                  PLAIT_COMM_SUM));
        Call gather_on_a(a, desc(PLAIT_COMM_ALL_GATHER, PLAIT_F32, kN, z.data(), all.data()));
        Call sum_on_b(b, sum_of(z, z));
        Call* const calls[] = {&sum_on_a, &scatter_on_b, &gather_on_a, &sum_on_b};
        for (int step = 0; step < 5; ++step) {
          z.assign(kN, static_cast<float>(rank));
          gather_on_a.start(), scatter_on_b.start(), sum_on_a.start();
          gather_on_a.finish();
          sum_on_b.start();
          for (int i = 0; i < 4; ++i)
            if (Call* call = calls[rank == 1 ? 3 - i : i]; call != &gather_on_a) call->finish();
          require(sum == Floats(kN, 3) && part == Floats(kN, 6), "wrong sum");
          require(z == Floats(kN, 3), "wrong sum in place");
          for (uint32_t r = 0; r < kRanks; ++r)
            require(all[r * kN] == static_cast<float>(r) &&
                        all[r * kN + kN - 1] == static_cast<float>(r),
                    "wrong row");
        }
      });
      CHECK_NOTHROW(expect_all_ok(outcomes));
    }
  }

  TEST_CASE(
      "calls in the memory of two groups at once, finished in opposite orders, again and again") {
    constexpr uint64_t kLarge = 300000, kCalls = 3;
    for (const auto& plugin : plugins()) {
      if (!plugin->item().memory) continue;
      MemoryStore stores[2];
      CHECK_NOTHROW(expect_all_ok(each_rank(3, [&](uint32_t rank) {
        Comm one(*plugin, stores[0].raw(), rank, 3, {"one[0]"}),
            two(*plugin, stores[1].raw(), rank, 3, {"two[0]"});
        std::vector<std::span<float>> data;
        std::vector<std::unique_ptr<Call>> calls;
        for (Comm* comm : {&one, &two})
          for (uint64_t i = 0; i < kCalls; ++i) {
            float* const memory = comm->memory<float>(kLarge);
            require(memory, "the group has no memory; has the machine too little?");
            data.emplace_back(memory, kLarge);
            calls.push_back(std::make_unique<Call>(
                *comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, kLarge, data.back().data(),
                            data.back().data(), PLAIT_COMM_SUM)));
          }
        for (int round = 0; round < 20; ++round) {
          for (size_t i = 0; i < calls.size(); ++i)
            std::ranges::fill(data[i], static_cast<float>(rank + i + static_cast<size_t>(round)));
          for (const auto& call : calls) call->start();
          for (size_t i = 0; i < calls.size(); ++i) {
            const size_t next = rank == 1 ? calls.size() - 1 - i : i;
            calls[next]->finish();
            const auto sum = static_cast<float>(3 + 3 * (next + static_cast<size_t>(round)));
            require(std::ranges::all_of(data[next], [&](float v) { return v == sum; }),
                    "wrong sum");
          }
        }
      })));
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("one rank starts one call again and again, another has one for each time") {
    for (const size_t n : {10, 200000})
      on_all(2, [&](Comm& comm) {
        constexpr size_t kTimes = 4;
        std::vector<Floats> in(kTimes, Floats(n)), out(kTimes, Floats(n));
        if (comm.rank() == 0) {
          Call send(comm, send_to(1, in[0])), reduce(comm, sum_of(in[1], out[1]));
          for (size_t t = 0; t < kTimes; ++t) {
            in[0].assign(n, static_cast<float>(t));
            in[1].assign(n, static_cast<float>(10 * t));
            send.run(), reduce.run();
            require(out[1] == Floats(n, static_cast<float>(11 * t)), "wrong sum");
          }
          return;
        }
        std::vector<Floats> message(kTimes, Floats(n));
        std::vector<std::unique_ptr<Call>> receives, reduces;
        for (size_t t = 0; t < kTimes; ++t) {
          in[t].assign(n, static_cast<float>(t));
          receives.push_back(std::make_unique<Call>(comm, receive_from(0, message[t])));
          reduces.push_back(std::make_unique<Call>(comm, sum_of(in[t], out[t])));
          receives[t]->start(), reduces[t]->start();
        }
        for (size_t t = kTimes; t-- > 0;) {
          reduces[t]->finish(), receives[t]->finish();
          require(message[t] == Floats(n, static_cast<float>(t)), "messages were mixed up");
          require(out[t] == Floats(n, static_cast<float>(11 * t)), "wrong sum");
        }
      });
  }

  TEST_CASE("a call that stays in flight while thousands of others start and finish") {
    on_all(2, [](Comm& comm) {
      Floats in(3, 1), out(3), step_in(5, 2), step_out(5);
      Call early(comm, sum_of(in, out)), step(comm, sum_of(step_in, step_out));
      early.start();
      for (int i = 0; i < 3000; ++i) step.run();
      early.finish();
      require(out == Floats(3, 2) && step_out == Floats(5, 4), "wrong sum");
    });
  }

  TEST_CASE("a rank that is a thousand calls ahead over shm is refused more") {
    std::atomic<size_t> told{0};  // one more than the calls that rank 0 has started
    const auto body = [&](Comm& comm) {
      constexpr size_t kMany = 1100;
      Floats in(3, 1);
      std::vector<Floats> out(kMany, Floats(3));
      std::vector<std::unique_ptr<Call>> calls;
      for (Floats& one : out) calls.push_back(std::make_unique<Call>(comm, sum_of(in, one)));
      size_t n = 0;
      if (comm.rank() == 0) {
        const std::string refusal = text_of([&] {
          for (; n < kMany; ++n) calls[n]->start();
        });
        told = n + 1;
        require(n < kMany && contains(refusal, "finish some before you start more"), refusal);
      } else {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (told == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        require(told > 0, "rank 0 did not say how many calls it has started");
        for (const size_t most = told - 1; n < most; ++n) calls[n]->start();
      }
      for (size_t i = 0; i < n; ++i) calls[i]->finish();
      for (size_t i = 0; i < n; ++i) require(out[i] == Floats(3, 3), "wrong sum");
    };
    for (const auto& plugin : plugins())  // others have no such bound, and take their time
      if (plugin->name() == std::string("shm"))
        CHECK_NOTHROW(expect_all_ok(run_group(*plugin, 3, body)));
  }

  TEST_CASE("a rank may finish calls that another has under way by the thousand") {
    const auto body = [](Comm& comm) {
      constexpr size_t kUnderWay = 1024;
      Floats in(3, 1), sum(3), message(1, 7);
      std::vector<Floats> out(kUnderWay, Floats(1));
      Call reduce(comm, sum_of(in, sum));
      if (comm.rank() == 0) {
        // Rank 1 has read none of the calls that it has under way, nor of as many behind them.
        Call send(comm, send_to(1, message));
        std::vector<std::unique_ptr<Call>> sends;
        for (size_t n = 0; n < kUnderWay; ++n)
          sends.push_back(std::make_unique<Call>(comm, send_to(1, message)));
        for (size_t n = 0; n < kUnderWay; ++n) send.run();
        for (auto& one : sends) one->start();
        require(contains(text_of([&] { send.start(); }), "finish some before you start more"),
                "one more was not refused");
        reduce.run();
        for (auto& one : sends) one->finish();
        for (size_t n = 0; n < 2 * kUnderWay; ++n) send.run();  // once more around the ring
        return;
      }
      std::vector<std::unique_ptr<Call>> receives;
      for (Floats& one : out)
        receives.push_back(std::make_unique<Call>(comm, receive_from(0, one)));
      for (size_t n = 0; n < kUnderWay; ++n) receives[n]->start();
      reduce.run();
      for (int round = 0; round < 4; ++round) {
        for (size_t n = 0; n < kUnderWay; ++n) {
          if (round > 0) receives[n]->start();
          receives[n]->finish();
          require(out[n] == message, "wrong message");
          out[n][0] = 0;
        }
      }
      require(sum == Floats(3, 2), "wrong sum");
    };
    for (const auto& plugin : plugins())  // others have no such bound, and take their time
      if (plugin->name() == std::string("shm"))
        CHECK_NOTHROW(expect_all_ok(run_group(*plugin, 2, body)));
  }

  TEST_CASE("messages both ways at once, and around a ring") {
    on_all(4, [](Comm& comm) {
      const uint32_t next = (comm.rank() + 1) % 4, last = (comm.rank() + 3) % 4;
      for (const size_t n : {0, 1, 1000, 300000}) {
        Floats right(n, static_cast<float>(comm.rank())), left(n, 10.0f + comm.rank());
        Floats from_left(n), from_right(n);
        // Sends first on every rank: a send must not wait for its receiver.
        Call s1(comm, send_to(next, right)), s2(comm, send_to(last, left));
        Call r1(comm, receive_from(last, from_left)), r2(comm, receive_from(next, from_right));
        for (int step = 0; step < 3; ++step) {
          s1.start(), s2.start(), r1.start(), r2.start();
          s1.finish(), s2.finish(), r2.finish(), r1.finish();
          require(from_left == Floats(n, static_cast<float>(last)), "wrong message from the left");
          require(from_right == Floats(n, 10.0f + static_cast<float>(next)),
                  "wrong message from the right");
        }
      }
    });
  }

  TEST_CASE("messages of one pair keep their order; they pass collectives") {
    on_all(2, [](Comm& comm) {
      Floats a(10, 1), b(10, 2), c(1, 3), sum(1);
      Call reduce(comm, sum_of(c, sum));
      if (comm.rank() == 0) {
        Call first(comm, send_to(1, a)), second(comm, send_to(1, b));
        first.start(), second.start();
        first.finish(), second.finish();  // while rank 1 has a collective in flight
        reduce.run();
      } else {
        Call first(comm, receive_from(0, a)), second(comm, receive_from(0, b));
        reduce.start();
        first.start(), second.start();
        second.finish(), first.finish();
        reduce.finish();
      }
      require(a[9] == 1 && b[9] == 2 && sum[0] == 6, "messages were mixed up");
    });
  }

  TEST_CASE("calls of one group on two threads at once, while others are prepared") {
    // Far larger than the sums, so that a backend has no reason to use the same memory for both.
    constexpr size_t kMessage = 1000000;
    on_all(4, [](Comm& comm) {
      const uint32_t next = (comm.rank() + 1) % 4, last = (comm.rank() + 3) % 4;
      Floats right(kMessage, static_cast<float>(comm.rank())), from_left(kMessage);
      Call send(comm, send_to(next, right)), receive(comm, receive_from(last, from_left));
      std::string failure;
      std::thread messages([&] {
        try {
          for (int step = 0; step < 20; ++step) {
            send.start(), receive.start();
            send.finish(), receive.finish();
            require(from_left == Floats(kMessage, static_cast<float>(last)), "wrong message");
          }
        } catch (const std::exception& e) {
          failure = e.what();
        }
      });
      try {
        for (size_t n = 10; n < 200000; n *= 3) {
          Floats in(n, 1), out(n);
          Call call(comm, sum_of(in, out));
          for (int step = 0; step < 10; ++step) call.run();
          require(out == Floats(n, 4), "wrong sum");
        }
      } catch (const std::exception& e) {
        comm.abort(e.what());
        messages.join();
        throw;
      }
      messages.join();
      require(failure.empty(), failure);
    });
  }

  TEST_CASE("a barrier holds until the last") {
    for (const auto& plugin : plugins()) {
      std::atomic<uint32_t> arrived{0};
      const auto outcomes = run_group(*plugin, 4, [&](Comm& comm) {
        Call barrier(comm, desc(PLAIT_COMM_BARRIER, 0, 0, nullptr, nullptr));
        for (uint32_t step = 1; step <= 50; ++step) {
          ++arrived;
          barrier.run();
          require(arrived >= 4 * step, "somebody passed early");
          barrier.run();
        }
      });
      CHECK_NOTHROW(expect_all_ok(outcomes));
    }
  }

  TEST_CASE("NaN propagates, whichever rank contributes it") {
    on_all(3, [](Comm& comm) {
      for (const uint32_t reduction : {PLAIT_COMM_SUM, PLAIT_COMM_MAX, PLAIT_COMM_MIN}) {
        Floats in(4, 1), out(4);
        in[comm.rank()] = NAN;
        in[3] = comm.rank() == 1 ? std::numeric_limits<float>::infinity() : 0;
        Call call(comm,
                  desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 4, in.data(), out.data(), reduction));
        call.run();
        for (int i = 0; i < 3; ++i) require(std::isnan(out[i]), "a NaN went lost");
        require(out[3] == (reduction == PLAIT_COMM_MIN ? 0 : INFINITY), "infinity went wrong");
      }
    });
  }

  TEST_CASE("a group may be opened again and again") {
    for (int round = 0; round < 10; ++round)
      on_all(2, [](Comm& comm) {
        Floats in(3, 1), out(3);
        Call(comm, sum_of(in, out)).run();
        require(out[2] == 2, "wrong sum");
      });
  }

  TEST_CASE("a program that the host starts gets nothing of a group") {
    const std::vector<std::string> before = plait::test::passed_on();
    on_all(3, [&](Comm& comm) {
      Floats in(3, 1), out(3);
      Call call(comm, sum_of(in, out));
      call.run();
      for (const std::string& one : plait::test::passed_on()) {
        if (contains(one, "[eventpoll]")) continue;  // Gloo opens one without the flag
        require(std::count(before.begin(), before.end(), one) > 0, one + " is passed on");
      }
      call.run();  // until then no rank leaves
    });
  }

  TEST_CASE("calls out of order are refused and do no harm") {
    on_all(2, [](Comm& comm) {
      Floats in(3, 1), out(3);
      Call call(comm, sum_of(in, out));
      require(contains(text_of([&] { call.finish(); }), "is finished without start()"), "finish");
      call.start();
      require(contains(text_of([&] { call.start(); }), "is started again before finish()"),
              "start");
      call.finish();
      require(out[0] == 2, "wrong sum");
      call.run();
    });
  }

  TEST_CASE("impossible calls are refused when they are prepared") {
    struct Bad {
      plait_comm_desc desc;
      const char* text;
    };
    static float memory[8];
    const auto bad = [](uint32_t kind, uint32_t dtype, uint64_t n, const void* in, void* out,
                        uint32_t reduction, uint32_t peer, const char* text) {
      return Bad{desc(kind, dtype, n, in, out, reduction, peer), text};
    };
    float* m = memory;
    const Bad table[] = {
        bad(9, PLAIT_F32, 1, m, m, 0, 0, "kind 9 is unknown"),
        bad(0, PLAIT_F32, 1, m, m, 0, 0, "kind 0 is unknown"),
        bad(PLAIT_COMM_ALL_REDUCE, 99, 1, m, m, 1, 0, "element type 99 is unknown"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_BOOL, 1, m, m, 1, 0, "bool cannot be reduced"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 1, m, m, 0, 0, "reduction 0 is unknown"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 1, m, m, 4, 0, "reduction 4 is unknown"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 1, m, m, 1, 1, "a peer is given"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 1, nullptr, m, 1, 0, "in is NULL"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 1, m, nullptr, 1, 0, "out is NULL"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 2, m, m + 1, 1, 0, "out overlaps in"),
        bad(PLAIT_COMM_ALL_REDUCE, PLAIT_F64, UINT64_MAX / 4, m, m, 1, 0, "exceed memory"),
        bad(PLAIT_COMM_BROADCAST, PLAIT_F32, 1, m, m, 0, 2, "peer 2 is no member of 2"),
        bad(PLAIT_COMM_BROADCAST, PLAIT_F32, 1, m, m, 1, 0, "a reduction is given"),
        bad(PLAIT_COMM_SEND, PLAIT_F32, 1, m, nullptr, 0, 0, "the peer is this rank itself"),
        bad(PLAIT_COMM_ALL_TO_ALL, PLAIT_F32, 2, m, m, 0, 0, "out overlaps in"),
        bad(PLAIT_COMM_ALL_GATHER, PLAIT_F32, 2, m + 1, m, 0, 0, "this rank's row"),
        bad(PLAIT_COMM_REDUCE_SCATTER, PLAIT_F32, 2, m, m + 1, 1, 0, "this rank's row"),
        bad(PLAIT_COMM_BARRIER, PLAIT_F32, 2, m, m, 0, 0, "a barrier has elements"),
    };
    on_all(2, [&](Comm& comm) {
      if (comm.rank() == 0)
        for (const Bad& one : table) {
          const std::string text = text_of([&] { Call(comm, one.desc); });
          require(contains(text, one.text), text + ", expected " + one.text);
          require(contains(text, "] group 'test[0]': a call of kind "), text);
        }
      Floats in(2, 1), out(2);
      Call(comm, sum_of(in, out)).run();
    });
  }

  TEST_CASE("members of several hosts are refused where they share no memory") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm") continue;
      const GroupSettings settings{"data[0]", 5, 5, {"here", "there"}};
      const auto outcomes = run_group(
          *plugin, 2, [](Comm&) {}, settings);
      for (const Outcome& outcome : outcomes) {
        CHECK(outcome.code == PLAIT_ERR_CONFIG);
        CHECK(outcome.seconds < 4);
      }
      CHECK(
          outcomes[0].text ==
          "[shm] group 'data[0]': rank 1 (data 1) runs on host 'there', expected 'here' like rank "
          "0 (data 0): ranks on several hosts share no memory; choose another topology.backend, "
          "such "
          "as gloo");
    }
  }

  TEST_CASE("members on several hosts, and chosen interfaces") {
    for (const auto& plugin : plugins()) {
      if (plugin->item().reach < PLAIT_COMM_REACH_NETWORK) continue;
      const auto reduce = [](Comm& comm) {
        Floats in(3, 1), out(3);
        Call(comm, sum_of(in, out)).run();
        require(out[2] == 2, "wrong sum");
      };
      GroupSettings settings{"test[0]", 5, 5, {"127.0.0.1", "127.0.0.2"}};
      CHECK_NOTHROW(expect_all_ok(run_group(*plugin, 2, reduce, settings)));
      settings.options = {{"interface", "\"lo\""}};
      CHECK_NOTHROW(expect_all_ok(run_group(*plugin, 2, reduce, settings)));
      settings.options = {{"interface", "\"no0\""}};
      settings.connect_timeout = 0.2;
      for (const Outcome& outcome : run_group(*plugin, 2, reduce, settings)) {
        CHECK(outcome.code == PLAIT_ERR_CONFIG);
        CHECK(contains(outcome.text,
                       "interface 'no0' does not exist or has no address; known are: lo"));
      }
      settings.options.clear();
      settings.hosts = {"127.0.0.1", "no.such.host.invalid"};
      const auto outcomes = run_group(*plugin, 2, reduce, settings);
      CHECK(contains(outcomes[0].text, "host 'no.such.host.invalid' has no address"));
    }
  }
}
