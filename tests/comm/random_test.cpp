// Random programs: the same calls started in the same order on every rank, over several groups, and
// finished whenever each rank likes. Nothing may lock up, and every value must be right.
#include <doctest/doctest.h>

#include <random>

#include "kit/dtype.hpp"
#include "tests/comm/cases.hpp"
#include "tests/comm/ranks.hpp"

namespace {

using namespace comm_test;

constexpr uint32_t kGroups = 3;

struct Step {
  uint32_t group;
  Case what;
};

std::vector<Step> program(uint32_t ranks, uint32_t seed) {
  std::mt19937 random(seed);
  const uint64_t sizes[] = {0, 1, 1000, 20000, 90000, 150000};
  std::vector<Step> steps;
  for (int i = 0; i < 40; ++i) {
    Case c{};
    c.kind = PLAIT_COMM_ALL_REDUCE + random() % 5;
    c.dtype = random() % 2 ? PLAIT_F32 : PLAIT_BF16;
    c.reduction = c.kind <= PLAIT_COMM_REDUCE_SCATTER ? PLAIT_COMM_SUM + random() % 3 : 0;
    c.root = c.kind == PLAIT_COMM_BROADCAST ? random() % ranks : 0;
    c.n = sizes[random() % std::size(sizes)];
    steps.push_back({static_cast<uint32_t>(random() % kGroups), c});
  }
  return steps;
}

// One call under way, with its memory.
class Started {
 public:
  Started(Comm& comm, const Case& what)
      : case_(what),
        comm_(comm),
        in_(input(what, comm.size(), comm.rank())),
        out_(out_elements(what, comm.size()) * plait::kit::dtype_bytes(what.dtype), 0xa5),
        call_(comm, desc(what.kind, what.dtype, what.n, in_.data(), out_.data(), what.reduction,
                         what.root)) {
    call_.start();
  }
  void finish() {
    call_.finish();
    const std::string wrong = fault(case_, comm_.size(), comm_.rank(), out_.data());
    require(wrong.empty(), case_.text() + ": " + wrong);
  }

 private:
  const Case case_;
  Comm& comm_;
  const Bytes in_;
  Bytes out_;
  Call call_;
};

void run(const Plugin& plugin, MemoryStore* stores, uint32_t rank, uint32_t ranks, uint32_t seed) {
  const char* const names[kGroups] = {"a", "b", "c"};
  std::vector<std::unique_ptr<Comm>> groups;
  for (uint32_t g = 0; g < kGroups; ++g)
    groups.push_back(std::make_unique<Comm>(plugin, stores[g].raw(), rank, ranks,
                                            GroupSettings{names[g], 20, 20}));
  std::mt19937 random(1000 * seed + rank);
  std::vector<std::unique_ptr<Started>> under_way;
  const auto finish_one = [&] {
    const size_t i = random() % under_way.size();
    under_way[i]->finish();
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (const Step& step : program(ranks, seed)) {
    under_way.push_back(std::make_unique<Started>(*groups[step.group], step.what));
    while (!under_way.empty() && random() % 3 == 0) finish_one();
  }
  while (!under_way.empty()) finish_one();
}

}  // namespace

TEST_SUITE("behaviour") {
  TEST_CASE("random programs over several groups") {
    for (const auto& plugin : plugins())
      for (const uint32_t ranks : {2u, 3u, 5u})
        for (uint32_t seed = 1; seed <= 2; ++seed) {
          CAPTURE(plugin->name());
          CAPTURE(ranks);
          CAPTURE(seed);
          MemoryStore stores[kGroups];
          CHECK_NOTHROW(expect_all_ok(
              each_rank(ranks, [&](uint32_t rank) { run(*plugin, stores, rank, ranks, seed); })));
          CHECK(live_errors() == 0);
        }
  }
}
