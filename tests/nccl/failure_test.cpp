// Faults of NCCL and of members: what the ranks are told, and how soon.
#include <doctest/doctest.h>
#include <signal.h>

#include "tests/comm/processes.hpp"
#include "tests/comm/ranks.hpp"
#include "tests/cuda_emulator/interface.hpp"
#include "tests/cuda_emulator/nccl/faults.hpp"
#include "tests/nccl/recorded_sum.hpp"

namespace {

using namespace comm_test;
void check_outcome(const Outcome& outcome, uint32_t code, std::vector<std::string> parts,
                   double seconds) {
  CAPTURE(outcome.text);
  CHECK(outcome.code == code);
  for (const std::string& part : parts) CHECK(outcome.text.find(part) != std::string::npos);
  CHECK(outcome.seconds < seconds);
}

// While it lives, the emulated NCCL has these faults.
struct Faults {
  explicit Faults(const char* text) { nccl_emulator_configure(text); }
  ~Faults() { nccl_emulator_configure(""); }
};

}  // namespace

TEST_SUITE("nccl") {
  TEST_CASE("a call that hangs ends after the time-out; the error names group, kind and members") {
    const Faults faults("hang=1:4");  // two exchanges open the group
    const auto outcomes = run_group(plugin(), 2,
                                    [](Comm& comm) {
                                      Floats data(10, 1);
                                      Call call(comm, sum_of(data));
                                      call.run(), call.run();
                                      try {
                                        call.run();
                                      } catch (const Failure& first) {
                                        // Every further call fails with the same text.
                                        try {
                                          call.run();
                                        } catch (const Failure& e) {
                                          require(std::string(e.what()) == first.what(), e.what());
                                          throw;
                                        }
                                      }
                                    },
                                    {"data[0]", 10, 0.5});
    for (const Outcome& outcome : outcomes)
      check_outcome(outcome, PLAIT_ERR_PEER,
                    {"[nccl] group 'data[0]': all_reduce of 10 f32 (sum) has not ended 0.5 s",
                     "rank 0 (data 0), rank 1 (data 1)"},
                    4);
    nothing_left();
  }

  TEST_CASE("a call in a graph that hangs") {
    const Faults faults("hang=1:4");
    const auto outcomes =
        run_group(plugin(), 2,
                  [](Comm& comm) {
                    DeviceComm& on = device_comm(comm.raw());
                    const plait_device_item& device = plugin().device().item();
                    const plait_comm_item& backend = plugin().backend();
                    Floats data(10, 1), other(20, 1);
                    plait_comm_call *call = nullptr, *second = nullptr;
                    const plait_comm_desc d = sum_of(data), e = sum_of(other);
                    check(backend.prepare(on.inner, &d, &call));
                    check(backend.prepare(on.inner, &e, &second));
                    plait_graph* graph = nullptr;
                    check(device.capture_begin(on.queue));
                    check(backend.start(call, on.queue)), check(backend.finish(call, on.queue));
                    check(backend.start(second, on.queue)), check(backend.finish(second, on.queue));
                    check(device.capture_end(on.queue, &graph));
                    const auto launch = [&] {
                      check(device.graph_launch(graph, on.queue));
                      check(device.sync(on.queue));
                      check(backend.status(on.inner));
                    };
                    std::string text;
                    try {
                      launch();
                      launch();  // its first call hangs
                    } catch (const Failure& f) {
                      text = f.what();
                    }
                    device.graph_close(graph);
                    backend.release(call), backend.release(second);
                    throw Failure(PLAIT_ERR_PEER, text);
                  },
                  {"data[0]", 10, 0.5});
    for (const Outcome& outcome : outcomes)
      check_outcome(outcome, PLAIT_ERR_PEER,
                    {"group 'data[0]': all_reduce of 10 f32 (sum) has not ended"}, 4);
    nothing_left();
  }

  TEST_CASE("a call that waits in each launch of a graph is not late for all of them together") {
    constexpr int kLaunches = 30;  // together half as long again as the time-out
    const auto outcomes = run_group(plugin(), 2,
                                    [](Comm& comm) {
                                      Floats data(10, 1);
                                      RecordedSum sum(comm, data);
                                      if (comm.rank() == 0) return sum.launch(kLaunches);
                                      for (int i = 0; i < kLaunches; ++i) {
                                        std::this_thread::sleep_for(std::chrono::milliseconds(200));
                                        sum.launch();
                                      }
                                    },
                                    {"data[0]", 10, 4});
    CHECK_NOTHROW(expect_all_ok(outcomes));
    nothing_left();
  }

  // NCCL gives a communicator up only when the graphs that hold its work have been destroyed.
  TEST_CASE("a group that fails while a graph holds its calls") {
    const auto outcomes = run_group(plugin(), 2, [](Comm& comm) {
      const plait_comm_item& backend = plugin().backend();
      DeviceComm& on = device_comm(comm.raw());
      Floats data(10, 1);
      RecordedSum sum(comm, data);
      sum.launch();
      comm.abort("enough");
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const plait_comm_desc d =
          desc(PLAIT_COMM_SEND, PLAIT_F32, 10, data.data(), nullptr, 0, 1 - comm.rank());
      plait_comm_call* message = nullptr;
      check(backend.prepare(on.inner, &d, &message));
      backend.release(message);
      sum.launch();
    });
    for (const Outcome& outcome : outcomes) check_outcome(outcome, PLAIT_ERR_PEER, {"enough"}, 2);
    nothing_left();
  }

  TEST_CASE("a group that closes before such a graph keeps what the graph uses" *
            doctest::test_suite("forked")) {
    Processes processes(1, [](uint32_t, const plait_store* store) {
      Floats data(10, 1);
      alignas(RecordedSum) char graph[sizeof(RecordedSum)];  // is not closed
      {
        Comm comm(plugin(), store, 0, 1);
        (new (graph) RecordedSum(comm, data))->release();
        comm.abort("enough");
      }
      const std::string live = emulator_live();
      require(live.find("pinned allocation") != std::string::npos, live);
    });
    const ProcessResult result = processes.wait(0, 9);
    CHECK(result.text == "");
    CHECK(result.ok());
  }

  TEST_CASE("a message whose other end never comes") {
    const auto outcomes =
        run_group(plugin(), 2,
                  [](Comm& comm) {
                    Floats data(10, 1);
                    const bool receives = comm.rank() == 0;
                    Call call(comm, desc(receives ? PLAIT_COMM_RECEIVE : PLAIT_COMM_SEND, PLAIT_F32,
                                         10, data.data(), data.data(), 0, 1 - comm.rank()));
                    if (receives) call.run();
                    std::this_thread::sleep_for(std::chrono::seconds(1));
                  },
                  {"data[0]", 10, 0.3});
    check_outcome(outcomes[0], PLAIT_ERR_PEER,
                  {"receive of 10 f32 from rank 1 (data 1) has not ended"}, 4);
    CHECK(outcomes[1].ok());
    nothing_left();
  }

  TEST_CASE("a group closes at once although the sender of a message never comes") {
    const auto outcomes = run_group(plugin(), 2,
                                    [](Comm& comm) {
                                      if (comm.rank() == 1) return;
                                      Floats data(10, 1);
                                      const Call call(comm, desc(PLAIT_COMM_RECEIVE, PLAIT_F32, 10,
                                                                 nullptr, data.data(), 0, 1));
                                      std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                    },
                                    {"data[0]", 60, 60});
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.ok());
      CHECK(outcome.seconds < 8);  // kLeave of group.cpp, and a busy machine
    }
    nothing_left();
  }

  TEST_CASE("an abort ends calls under way at once, with its text") {
    std::atomic<bool> over{false};
    const auto outcomes = run_group(plugin(), 2, [&](Comm& comm) {
      if (comm.rank() == 1) {
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      Floats data(10, 1);
      Call call(comm, sum_of(data));
      std::thread outside([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        comm.abort("enough");
        comm.abort("too late");
      });
      std::string text;
      try {
        call.run();
      } catch (const Failure& e) {
        text = e.what();
      }
      outside.join();
      over = true;
      throw Failure(PLAIT_ERR_PEER, text);
    });
    check_outcome(outcomes[0], PLAIT_ERR_PEER, {"enough"}, 2);
    CHECK(outcomes[0].text == "enough");
    nothing_left();
  }

  TEST_CASE("errors that NCCL notices by itself") {
    const std::pair<const char*, uint32_t> errors[] = {{"error=1:3:6", PLAIT_ERR_PEER},
                                                       {"error=1:3:2", PLAIT_ERR_PEER},
                                                       {"error=1:3:1", PLAIT_ERR_DEVICE},
                                                       {"error=1:3:3", PLAIT_ERR_INTERNAL}};
    for (const auto& [text, code] : errors) {
      CAPTURE(text);
      const Faults faults(text);
      const auto outcomes = run_group(plugin(), 2,
                                      [](Comm& comm) {
                                        Floats data(10, 1);
                                        Call call(comm, sum_of(data));
                                        call.run(), call.run();
                                      },
                                      {"data[0]", 10, 1});
      check_outcome(outcomes[1], code, {"[nccl] group 'data[0]' has failed: ", "(nccl"}, 3);
      check_outcome(outcomes[0], PLAIT_ERR_PEER, {"group 'data[0]'", "has not ended 1 s"}, 4);
      nothing_left();
    }
  }

  TEST_CASE("a rank that NCCL cannot connect, or that never comes") {
    {
      const Faults faults("init=1:2");
      const auto outcomes = run_group(plugin(), 2, [](Comm&) {}, {"data[0]", 1, 1});
      check_outcome(outcomes[1], PLAIT_ERR_IO,
                    {"cannot connect: unhandled system error (ncclSystemError)"}, 2);
      check_outcome(outcomes[0], PLAIT_ERR_PEER,
                    {"group 'data[0]' did not connect in time", "rank 1 (data 1)"}, 4);
      nothing_left();
    }
    const Faults faults("never=1");
    const auto outcomes = run_group(plugin(), 2, [](Comm&) {}, {"data[0]", 0.5, 1});
    for (const Outcome& outcome : outcomes)
      check_outcome(outcome, PLAIT_ERR_PEER, {"group 'data[0]' did not connect in time"}, 4);
    nothing_left();
  }

  TEST_CASE("a call released while it is under way fails the group") {
    const auto outcomes = run_group(plugin(), 2, [](Comm& comm) {
      Floats data(10, 1), late(10, 1);
      {
        Call call(comm, sum_of(data));
        call.start();
      }
      Call(comm, sum_of(late)).run();
    });
    for (const Outcome& outcome : outcomes)
      check_outcome(outcome, PLAIT_ERR_PEER,
                    {"all_reduce of 10 f32 (sum) was destroyed before it finished"}, 4);
    nothing_left();
  }

  TEST_CASE("a rank that is killed" * doctest::test_suite("forked")) {
    Processes processes(2, [](uint32_t rank, const plait_store* store) {
      Comm comm(plugin(), store, rank, 2, {"data[0]", 10, 1});
      Floats data(1000, 1);
      Call call(comm, sum_of(data));
      for (int step = 0;; ++step) {
        call.run();
        if (step == 0) mark(store, "runs." + std::to_string(rank));
      }
    });
    processes.wait_for_mark("runs.0");
    processes.wait_for_mark("runs.1");
    processes.signal(1, SIGKILL);
    const ProcessResult result = processes.wait(0, 10);
    CAPTURE(result.text);
    CHECK(result.code == PLAIT_ERR_PEER);
    CHECK(result.text.find("group 'data[0]': all_reduce of 1000 f32 (sum) has not ended 1 s") !=
          std::string::npos);
  }
}
