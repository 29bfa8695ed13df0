// When a collective really starts: a large one between ranks of one machine starts when its result
// is needed.
#include <plait/comm.h>

#include <doctest/doctest.h>

#include "engine/base/c_error.hpp"
#include "engine/runtime/communicators.hpp"
#include "tests/unit/runtime/control_ranks.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;

namespace {

thread_local std::string calls;  // the calls of a rank, which is a thread, to its backend

// A backend of that reach that transfers nothing.
template <uint32_t kReach>
const plait_comm_item& item() {
  static const plait_comm_item kItem = [] {
    static int something;
    plait_comm_item c{};
    c.struct_size = sizeof c;
    c.name = "noting";
    c.help = "";
    c.reach = kReach;
    c.open = [](const plait_host*, const plait_options*, const plait_comm_setup*,
                plait_comm** out) {
      *out = reinterpret_cast<plait_comm*>(&something);
      return static_cast<plait_error*>(nullptr);
    };
    c.prepare = [](plait_comm*, const plait_comm_desc*, plait_comm_call** out) {
      *out = reinterpret_cast<plait_comm_call*>(&something);
      return static_cast<plait_error*>(nullptr);
    };
    c.start = [](plait_comm_call*, plait_queue*) {
      calls += "start ";
      return static_cast<plait_error*>(nullptr);
    };
    c.finish = [](plait_comm_call*, plait_queue*) {
      calls += "finish ";
      return static_cast<plait_error*>(nullptr);
    };
    c.release = [](plait_comm_call*) {};
    c.abort = [](plait_comm*, const char*, uint64_t) {};
    c.close = [](plait_comm*) {};
    return c;
  }();
  return kItem;
}

template <uint32_t kReach>
plait_error* open_plugin(const plait_host* host, const char*, void**) {
  return host->add(host, PLAIT_KIND_COMM, &item<kReach>());
}

template <uint32_t kReach>
std::shared_ptr<plugin::Registry> registry() {
  static const plait_plugin kTable{
      sizeof(plait_plugin), PLAIT_ABI_VERSION,   0,           "comm-noting", "1.0.0", "Apache-2.0",
      "For tests",          open_plugin<kReach>, [](void*) {}};
  auto registry = test::load_plugins({});
  registry->load_static(kTable);
  return registry;
}

// The calls made when a collective of n f32 between two replicas starts, and by its end.
std::string calls_of(std::shared_ptr<plugin::Registry> (*backend)(), uint32_t kind, uint64_t n,
                     topology::Grid grid = topology::Grid(1, 2, 1)) {
  const Folder folder;
  const Setup setup = in_file(folder, 2);
  Lines lines;
  std::string of_rank[2];
  const auto failures = on_threads({0, 1}, [&](int rank) {
    auto plan = std::make_shared<plan::Plan>();
    plan->registry = backend();
    plan->grid = grid;
    plan->rank = rank;
    plan->at = plan->grid.at(rank);
    plan->backend = "noting";
    plan::Collective e;
    e.name = "something";
    e.kind = kind;
    e.dtype = PLAIT_F32;
    e.axis = grid.data() > 1 ? topology::Axis::kData : topology::Axis::kPipeline;
    e.n = n;
    e.peer = static_cast<uint32_t>(1 - rank);
    plan->collectives.push_back(e);
    Control control(setup.of(rank), lines.log());
    Communicators ends(plan, control, nullptr);
    static float memory[2];  // never read
    plait_kernel* const kernel = ends.prepare(0, 0, memory, memory + 1);
    calls.clear();
    for (int round = 0; round < 2; ++round)
      for (const plait_kernel_item* step :
           {&Communicators::start_item(), &Communicators::wait_item()}) {
        CHECK(step->run(kernel, nullptr, nullptr, nullptr) == nullptr);
        calls += "| ";
      }
    of_rank[rank] = calls;
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(of_rank[0] == of_rank[1]);
  return of_rank[0];
}

constexpr char kAtOnce[] = "start | finish | start | finish | ",
               kDeferred[] = "| start finish | | start finish | ";

}  // namespace

TEST_CASE("a large collective on one machine starts when its result is needed") {
  const auto host = registry<PLAIT_COMM_REACH_HOST>, network = registry<PLAIT_COMM_REACH_NETWORK>;
  constexpr uint64_t kMegabyte = 1 << 18;
  for (const uint32_t kind : {PLAIT_COMM_ALL_REDUCE, PLAIT_COMM_REDUCE_SCATTER,
                              PLAIT_COMM_ALL_GATHER, PLAIT_COMM_BROADCAST}) {
    CAPTURE(kind);
    CHECK(calls_of(host, kind, kMegabyte) == kDeferred);
    CHECK(calls_of(registry<PLAIT_COMM_REACH_PROCESS>, kind, kMegabyte) == kDeferred);
    CHECK(calls_of(host, kind, kMegabyte - 1) == kAtOnce);
    CHECK(calls_of(network, kind, kMegabyte) == kAtOnce);
    // In a pipeline ranks wait for each other in any case.
    CHECK(calls_of(host, kind, kMegabyte, topology::Grid(2, 1, 1)) == kAtOnce);
  }
  // The receiver of a message waits for the sender's start().
  CHECK(calls_of(host, PLAIT_COMM_SEND, kMegabyte) == kAtOnce);
  CHECK(calls_of(host, PLAIT_COMM_RECEIVE, kMegabyte) == kAtOnce);
}
