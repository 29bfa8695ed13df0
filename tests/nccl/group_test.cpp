// NCCL's backend beyond what all backends do: captures, wire, how members meet.
#include <doctest/doctest.h>

#include <cstring>

#include "kit/half.hpp"
#include "tests/comm/processes.hpp"
#include "tests/comm/ranks.hpp"
#include "tests/cuda_emulator/interface.hpp"
#include "tests/nccl/device.hpp"

namespace {

using namespace comm_test;
using Floats = std::vector<float>;
using Halves = std::vector<uint16_t>;

const OnGpus& plugin() { return static_cast<const OnGpus&>(*plugins().front()); }

plait_comm_desc sum_of(Floats& in, Floats& out) {
  return desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, in.size(), in.data(), out.data(), PLAIT_COMM_SUM);
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Work of a rank's queue, recorded and launched.
class Graph {
 public:
  template <class Record>
  Graph(Comm& comm, Record&& record) : comm_(device_comm(comm.raw())), item_(comm_.device->item()) {
    check(item_.capture_begin(comm_.queue));
    record(comm_);
    check(item_.capture_end(comm_.queue, &graph_));
  }
  ~Graph() { item_.graph_close(graph_); }
  void launch() {
    check(item_.graph_launch(graph_, comm_.queue));
    check(item_.sync(comm_.queue));
    check(comm_.plugin->backend().status(comm_.inner));
  }

 private:
  DeviceComm& comm_;
  const plait_device_item& item_;
  plait_graph* graph_ = nullptr;
};

// A prepared call of the backend itself.
class Recorded {
 public:
  Recorded(Comm& comm, const plait_comm_desc& d)
      : comm_(device_comm(comm.raw())), item_(comm_.plugin->backend()) {
    check(item_.prepare(comm_.inner, &d, &call_));
  }
  ~Recorded() { item_.release(call_); }
  void start() { check(item_.start(call_, comm_.queue)); }
  void finish() { check(item_.finish(call_, comm_.queue)); }

 private:
  DeviceComm& comm_;
  const plait_comm_item& item_;
  plait_comm_call* call_ = nullptr;
};

}  // namespace

TEST_SUITE("nccl") {
  TEST_CASE("calls of all kinds in a graph, launched again and again") {
    CHECK_NOTHROW(expect_all_ok(run_group(plugin(), 3, [](Comm& comm) {
      const uint32_t rank = comm.rank();
      Floats sum(100), rows(30), row(10), all(30), cast(5), from(30), to(30), most(7);
      Halves half(50), half_sum(50);
      Recorded reduce(comm, sum_of(sum, sum));
      Recorded halves(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_BF16, 50, half.data(),
                                 half_sum.data(), PLAIT_COMM_SUM));
      Recorded largest(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 7, most.data(), most.data(),
                                  PLAIT_COMM_MAX));
      Recorded scatter(comm, desc(PLAIT_COMM_REDUCE_SCATTER, PLAIT_F32, 10, rows.data(), row.data(),
                                  PLAIT_COMM_SUM));
      Recorded gather(comm, desc(PLAIT_COMM_ALL_GATHER, PLAIT_F32, 10, row.data(), all.data()));
      Recorded broadcast(comm,
                         desc(PLAIT_COMM_BROADCAST, PLAIT_F32, 5, cast.data(), cast.data(), 0, 2));
      Recorded exchange(comm, desc(PLAIT_COMM_ALL_TO_ALL, PLAIT_F32, 10, from.data(), to.data()));
      Recorded barrier(comm, desc(PLAIT_COMM_BARRIER, 0, 0, nullptr, nullptr));
      Recorded nothing(comm,
                       desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 0, nullptr, nullptr, PLAIT_COMM_SUM));
      Graph graph(comm, [&](DeviceComm&) {
        scatter.start(), reduce.start(), halves.start();
        reduce.finish(), scatter.finish();
        gather.start(), broadcast.start(), largest.start(), exchange.start(), nothing.start();
        nothing.finish(), exchange.finish(), halves.finish(), gather.finish();
        largest.finish(), broadcast.finish();
        barrier.start();
        barrier.finish();
      });
      for (int launch = 0; launch < 5; ++launch) {
        const auto v = static_cast<float>(launch + 1), r = static_cast<float>(rank);
        sum.assign(100, v + r), rows.assign(30, v * r), cast.assign(5, r), from.assign(30, v + r);
        half.assign(50, plait::kit::to_bf16(v + r)), most.assign(7, -v - r);
        graph.launch();
        require(sum == Floats(100, 3 * v + 3) && row == Floats(10, 3 * v), "wrong sum");
        require(half_sum == Halves(50, plait::kit::to_bf16(3 * v + 3)), "wrong sum of bf16");
        require(most == Floats(7, -v), "wrong maximum");
        require(all == Floats(30, 3 * v) && cast == Floats(5, 2), "wrong copy");
        for (uint32_t s = 0; s < 3; ++s)
          require(to[10 * s] == v + static_cast<float>(s), "wrong row");
      }
      // The same call outside of a graph.
      sum.assign(100, 1);
      reduce.start();
      reduce.finish();
      require(sum == Floats(100, 3), "wrong sum outside of the graph");
    })));
    CHECK(std::string(emulator_live()) == "");
    CHECK(live_errors() == 0);
  }

  TEST_CASE("sums of bf16 are rounded once, unless the wire is native") {
    for (const char* wire : {"\"f32\"", "\"native\""}) {
      GroupSettings settings;
      settings.options = {{"wire", wire}, {"max_ctas", "4"}};
      emulator_configure(nullptr, 8);
      CHECK_NOTHROW(expect_all_ok(run_group(
          plugin(), 2,
          [](Comm& comm) {
            Halves in(9, plait::kit::to_bf16(1.5f)), out(9);
            Call(comm,
                 desc(PLAIT_COMM_ALL_REDUCE, PLAIT_BF16, 9, in.data(), out.data(), PLAIT_COMM_SUM))
                .run();
            require(out == Halves(9, plait::kit::to_bf16(3)), "wrong sum");
          },
          settings)));
      uint64_t launches = 0;
      emulator_calls(
          [](void* to, const char* name, uint64_t calls) {
            if (std::string(name) == "cuLaunchKernel") *static_cast<uint64_t*>(to) = calls;
          },
          &launches);
      // On each rank the two counts and, in f32, the conversions.
      CHECK(launches == (std::string(wire) == "\"native\"" ? 4 : 8));
    }
  }

  TEST_CASE("ranks as processes, each with a GPU of its own" * doctest::test_suite("forked")) {
    Processes processes(3, [](uint32_t rank, const plait_store* store) {
      Comm comm(plugin(), store, rank, 3);
      Floats in(200000, static_cast<float>(rank + 1)), out(200000);
      Call call(comm, sum_of(in, out));
      for (int step = 0; step < 5; ++step) call.run();
      require(out == Floats(200000, 6), "wrong sum");
    });
    for (uint32_t r = 0; r < 3; ++r) CHECK(processes.wait(r, 20).text == "");
  }

  TEST_CASE("two ranks on one GPU are refused on both") {
    plugin().gpu_of = [](uint32_t rank) { return rank == 2 ? 0 : rank; };
    const auto outcomes = run_group(plugin(), 3, [](Comm&) {});
    plugin().gpu_of = [](uint32_t rank) { return rank; };
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.code == PLAIT_ERR_CONFIG);
      CHECK(contains(outcome.text,
                     "[nccl] group 'test[0]': rank 0 (data 0) and rank 2 (data 2) are on "
                     "the same GPU, expected a GPU for each rank"));
    }
    CHECK(std::string(emulator_live()) == "");
  }

  TEST_CASE("members with different versions of NCCL are refused, whichever has the other one") {
    MemoryStore store(2);
    const std::string other = "22000 00112233445566778899aabbccddeeff 0";
    check(store.raw()->set(store.raw()->self, "nccl.hello.1", other.data(), other.size()));
    const auto outcomes = each_rank(1, [&](uint32_t) { Comm comm(plugin(), store.raw(), 0, 2); });
    CHECK(outcomes[0].code == PLAIT_ERR_CONFIG);
    CHECK(
        contains(outcomes[0].text, "rank 0 (data 0) has NCCL 2.28.9, rank 1 (data 1) has 2.20.0"));
    char answer[4096];
    uint64_t size = 0;
    check(store.raw()->get(store.raw()->self, "nccl.id", answer, sizeof answer, &size));
    CHECK(std::string(answer, size) == outcomes[0].text);
  }

  TEST_CASE("a member that does not come is named") {
    MemoryStore store(0.2);
    const auto outcomes = each_rank(2, [&](uint32_t rank) {
      if (rank == 0) Comm comm(plugin(), store.raw(), 0, 3, {"data[0]", 0.2, 1});
    });
    CHECK(outcomes[0].code == PLAIT_ERR_PEER);
    CHECK(contains(outcomes[0].text, "group 'data[0]' did not connect; missing: rank 1 (data 1)"));
    CHECK(live_errors() == 0);
    CHECK(std::string(emulator_live()) == "");
  }

  TEST_CASE("a group without a device is refused") {
    plait_comm* comm = nullptr;
    const char* name = "rank 0";
    const plait_comm_setup setup = {sizeof setup, "g", 0, 1, &name, &name, nullptr, 1, 1, nullptr};
    plugin().with_options({}, [&](const plait_options& options) {
      plait_error* e = plugin().backend().open(plugin().host(), &options, &setup, &comm);
      REQUIRE(e);
      CHECK(contains(abi_host::error_text(e), "was given no device"));
      abi_host::error_free(e);
    });
  }
}
