// Groups of ranks that do not start the same calls in the same order.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/runtime/communicators.hpp"
#include "engine/runtime/control/collective_order_check.hpp"
#include "tests/unit/runtime/control_ranks.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;

namespace {

constexpr uint64_t kN = 64;

// Two replicas with two collectives of n elements each.
std::shared_ptr<plan::Plan> plan_of(int rank, std::shared_ptr<plugin::Registry> registry,
                                    uint64_t n, const std::string& backend) {
  auto plan = std::make_shared<plan::Plan>();
  plan->registry = std::move(registry);
  plan->grid = topology::Grid(1, 2, 1);
  plan->rank = rank;
  plan->at = plan->grid.at(rank);
  plan->backend = backend;
  for (const uint32_t kind : {PLAIT_COMM_ALL_REDUCE, PLAIT_COMM_ALL_GATHER}) {
    plan::Collective e;
    e.name = kind == PLAIT_COMM_ALL_REDUCE ? "gradients" : "parameters";
    e.kind = kind;
    e.dtype = PLAIT_F32;
    e.reduction = kind == PLAIT_COMM_ALL_REDUCE ? PLAIT_COMM_SUM : 0;
    e.n = n;
    plan->collectives.push_back(e);
  }
  return plan;
}

// One rank's endpoint, and memory for both collectives.
class Rank {
 public:
  Rank(const Setup& setup, int rank, Log& log, uint64_t n = kN, const std::string& backend = "gloo")
      : control_(setup.of(rank), log),
        ends_(plan_of(rank, test::load_plugins({"comm-" + backend}), n, backend), control_,
              nullptr) {
    for (int32_t i = 0; i < 2; ++i)
      kernels_[i] = ends_.prepare(i, 0, memory_[i], i == 0 ? memory_[i] : memory_[i] + kN);
  }
  void exchange(int i) {
    for (const plait_kernel_item* item :
         {&Communicators::start_item(), &Communicators::wait_item()})
      if (plait_error* e = item->run(kernels_[i], nullptr, nullptr, nullptr)) throw from_c(e);
  }
  Control& control() { return control_; }

 private:
  Control control_;
  float memory_[2][3 * kN] = {};
  Communicators ends_;
  plait_kernel* kernels_[2] = {};
};

CollectiveLog& add(CollectiveLog& to, const CallDescription& call, uint64_t times = 1) {
  for (uint64_t i = 0; i < times; ++i) to.add(call);
  return to;
}

}  // namespace

TEST_CASE("a rank that starts another call than its group: both are named, though nothing waits") {
  const Folder folder;
  const Setup setup = in_file(folder, 2);
  Lines lines;
  const auto start = std::chrono::steady_clock::now();
  const auto failures = on_threads({0, 1}, [&](int rank) {
    Rank one(setup, rank, lines.log());
    for (int i = 0; i < 5; ++i) one.exchange(0);
    try {
      one.exchange(rank == 0 ? 0 : 1);
    } catch (const Error&) {
      // At the latest when the job ends; Gloo may also match one collective with the other.
    }
    CHECK(wait_for_end(one.control(), 30) != "");
    const std::string reason = one.control().end_reason();
    CHECK(has(reason, "the ranks of group 'data.0' started different collectives: as call 6 "));
    CHECK(has(reason, "rank 0 (data 0) started 'all_reduce of 64 f32 (sum), gradients'"));
    CHECK(has(reason, "rank 1 (data 1) 'all_gather of 64 f32, parameters'"));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  // A call that waits for a missing one would end with the time-out, a minute.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("a rank whose call has another size than that of its group") {
  const Folder folder;
  const Setup setup = in_file(folder, 2);
  Lines lines;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    Rank one(setup, rank, lines.log(), rank == 0 ? kN : kN / 2);
    try {
      one.exchange(0);
    } catch (const Error&) {
      // Gloo waits for the missing data until the job ends; the rank that sends less may also
      // succeed.
    }
    CHECK(wait_for_end(one.control(), 30) != "");
    const std::string reason = one.control().end_reason();
    CAPTURE(reason);
    CHECK(has(reason, "as call 1 rank 0 (data 0) started 'all_reduce of 64 f32 (sum), gradients'"));
    CHECK(has(reason, "rank 1 (data 1) 'all_reduce of 32 f32 (sum), gradients'"));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("ranks that start the same calls are not disturbed") {
  for (const std::string backend : {"threads", "gloo"}) {
    CAPTURE(backend);
    const Folder folder;
    const Setup setup = in_file(folder, 2, {.timeout = 2});  // two heartbeats a second
    Lines lines;
    const auto failures = on_threads({0, 1}, [&](int rank) {
      Rank one(setup, rank, lines.log(), kN, backend);
      for (int i = 0; i < 200; ++i) one.exchange(i % 2);
      CHECK(one.control().end_reason() == "");
    });
    for (const std::string& failure : failures) CHECK(failure == "");
  }
}

TEST_CASE("a collective log remembers its last calls, and some earlier ones") {
  const CallDescription a("a"), b("b");
  CollectiveLog sequence;
  CHECK(sequence.prefix_hashes().empty());
  add(sequence, a, 5000);
  add(sequence, b);
  const auto prefix_hashes = sequence.prefix_hashes();
  REQUIRE(prefix_hashes.size() == 16 + 2);  // 4096, and only once: 4992
  CHECK(prefix_hashes[0].number == 4096);
  CHECK(prefix_hashes[1].number == 4864);
  CHECK(prefix_hashes.back().number == 5001);
  CHECK(sequence.text(5001) == "'b'");
  CHECK(sequence.text(5000) == "'a'");
  CHECK(sequence.text(4096) == "a different call, or an earlier one (call 5001 is 'b')");

  const auto recent = sequence.recent();
  REQUIRE(recent.size() == 16);
  CHECK(recent.front().number == 4986);
  CHECK(recent.front().text == "a");
  CHECK(recent.back().number == 5001);
  CHECK(recent.back().text == "b");
  CHECK(CollectiveLog().recent().empty());

  CollectiveLog same;
  add(add(same, a, 5000), b);
  CHECK(same.prefix_hashes() == prefix_hashes);
  CollectiveLog other;
  add(add(add(other, a, 4999), b), a);
  CHECK(other.prefix_hashes().back().number == 5001);
  CHECK(other.prefix_hashes().back().hash != prefix_hashes.back().hash);
}

TEST_CASE(
    "collective order check: differences are found at numbers that two ranks have in common") {
  using control::CollectiveOrderCheck;
  const CallDescription a("a"), b("b");
  CollectiveLog one, two, three;
  add(one, a, 7);
  add(add(two, a, 6), b);
  add(add(three, a, 6), b);
  SUBCASE("at the same number") {}
  SUBCASE("one is a call further") { add(two, a); }
  SUBCASE("one is ten calls further") { add(two, a, 10); }
  CollectiveOrderCheck orders(2);
  CHECK(!orders.add(4, {"data.0", one.prefix_hashes()}));
  CHECK(!orders.add(4, {"data.0", one.prefix_hashes()}));
  CHECK(!orders.add(3, {"data.1", two.prefix_hashes()}));
  const auto found = orders.add(3, {"data.0", two.prefix_hashes()});
  REQUIRE(found);
  CHECK(found->group == "data.0");
  CHECK(found->number == 7);
  CHECK(found->ranks[0] == 3);
  CHECK(found->ranks[1] == 4);
  CHECK(!orders.add(5, {"data.1", three.prefix_hashes()}));
  CHECK_THROWS_AS(orders.add(0, {"data.2", {}}), Error);
}

TEST_CASE("collective order check: ranks that are far apart are compared, too") {
  const CallDescription a("a"), b("b");
  CollectiveLog one, two;
  add(one, a, 100000);
  add(add(two, b), a, 104000);
  control::CollectiveOrderCheck orders(1);
  CHECK(!orders.add(0, {"world.0", one.prefix_hashes()}));
  const auto found = orders.add(1, {"world.0", two.prefix_hashes()});
  REQUIRE(found);
  CHECK(found->number == 65536);
}

TEST_CASE("collective order check: the report of a rank is bounded") {
  control::CollectiveOrderCheck orders(1);
  for (uint64_t i = 0; i < 100000; ++i) {
    control::GroupProgress position{"data.0", {{i + 1, i}}};
    const std::string bytes = encode(position);
    control::FrameReader reader(control::kMaxPayload);
    reader.add(bytes);
    CHECK(!orders.add(0, control::decode_progress(*reader.next())));
  }
  CHECK(!orders.add(1, {"data.0", {{1, 99}}}));  // forgotten
  CHECK(orders.add(1, {"data.0", {{99999, 99}}}));
  control::FrameReader reader(control::kMaxPayload);
  reader.add(encode(control::GroupProgress{"data.0", std::vector<PrefixHash>(65)}));
  CHECK_THROWS_AS(control::decode_progress(*reader.next()), Error);
}
