// Algorithms that ranks choose by measuring: which rank measures, and that all adopt the same.
#include "engine/runtime/tune.hpp"

#include <doctest/doctest.h>

#include <barrier>
#include <thread>

#include "engine/base/error.hpp"

using namespace plait;
using runtime::KernelCache;

namespace {

// What a plait_kernel * of these tests points to. Every rank measures something else.
struct Kernel {
  uint64_t rank = 0;
  int measured = 0;
  plait_algorithm adopted{};
};
Kernel& of(plait_kernel* k) { return *reinterpret_cast<Kernel*>(k); }

constexpr size_t kChannel = 64 * 1024;        // what the control channel carries at once
constexpr uint64_t kTop = uint64_t{1} << 63;  // every bit reaches the other ranks

plait_kernel_item make_item() {
  plait_kernel_item item{};
  item.struct_size = sizeof item;
  item.name = "any";
  item.tune = [](plait_device*, const plait_kernel* k, plait_algorithm* out) -> plait_error* {
    Kernel& kernel = of(const_cast<plait_kernel*>(k));
    ++kernel.measured;
    for (uint64_t i = 0; i < 8; ++i) out->words[i] = kTop + 10 * kernel.rank + i;
    return nullptr;
  };
  item.adopt = [](plait_kernel* k, const plait_algorithm* algorithm) -> plait_error* {
    of(k).adopted = *algorithm;
    return nullptr;
  };
  return item;
}

// Ranks as threads. keys: of the kernels of each rank. Returns these kernels.
std::vector<std::vector<Kernel>> tune(const std::vector<std::vector<std::string>>& keys) {
  static const plait_kernel_item item = make_item();
  const auto ranks = static_cast<std::ptrdiff_t>(keys.size());
  std::vector<std::vector<Kernel>> kernels(keys.size());
  std::vector<std::string> texts(keys.size());
  std::barrier meet(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < keys.size(); ++rank)
    threads.emplace_back([&, rank] {
      kernels[rank].resize(keys[rank].size());
      std::vector<KernelCache::Tunable> tunables;
      for (size_t i = 0; i < keys[rank].size(); ++i) {
        kernels[rank][i].rank = rank;
        auto* const k = reinterpret_cast<plait_kernel*>(&kernels[rank][i]);
        tunables.push_back({&item, k, "plugin", "a product", keys[rank][i]});
      }
      runtime::tune(tunables, nullptr, static_cast<int32_t>(rank), [&](const std::string& text) {
        CHECK(text.size() <= kChannel);
        texts[rank] = text;
        meet.arrive_and_wait();
        const std::vector<std::string> all = texts;
        meet.arrive_and_wait();
        return all;
      });
    });
  for (std::thread& t : threads) t.join();
  return kernels;
}

bool adopted(const Kernel& kernel, uint64_t from) {
  bool all = true;
  for (uint64_t i = 0; i < 8; ++i) all = all && kernel.adopted.words[i] == kTop + 10 * from + i;
  return all;
}

}  // namespace

TEST_CASE("the first rank that has a kernel measures it, and all adopt what that found") {
  const auto ranks = tune({{"a", "b"}, {"b", "c"}, {"c", "a"}});
  const std::vector<std::vector<int>> measured = {{1, 1}, {0, 1}, {0, 0}};
  const std::vector<std::vector<uint64_t>> from = {{0, 0}, {0, 1}, {1, 0}};
  for (size_t r = 0; r < ranks.size(); ++r)
    for (size_t i = 0; i < ranks[r].size(); ++i) {
      CAPTURE(r);
      CAPTURE(i);
      CHECK(ranks[r][i].measured == measured[r][i]);
      CHECK(adopted(ranks[r][i], from[r][i]));
    }
}

TEST_CASE("kernels with one key are measured once; ranks may have none") {
  const auto ranks = tune({{}, {"a", "a"}, {}});
  CHECK(ranks[1][0].measured + ranks[1][1].measured == 1);
  CHECK(adopted(ranks[1][0], 1));
  CHECK(adopted(ranks[1][1], 1));
}

TEST_CASE("keys and results may be longer than the control channel carries at once") {
  const auto key = [](char of, size_t length) { return std::string(length, of); };
  std::vector<std::string> many;
  for (char c = 'a'; c <= 'z'; ++c) many.push_back(key(c, 9000));
  // Whole pieces, one piece, and nothing.
  const auto ranks = tune({{key('A', 96 * 1024)}, many, {key('B', 48 * 1024)}, {}, {many[25]}});
  CHECK(ranks[0][0].measured == 1);
  CHECK(adopted(ranks[0][0], 0));
  for (const Kernel& k : ranks[1]) {
    CHECK(k.measured == 1);
    CHECK(adopted(k, 1));
  }
  CHECK(adopted(ranks[2][0], 2));
  CHECK(ranks[4][0].measured == 0);
  CHECK(adopted(ranks[4][0], 1));
}

TEST_CASE("what another rank sends is checked") {
  static const plait_kernel_item item = make_item();
  Kernel kernel;
  const KernelCache::Tunable t{&item, reinterpret_cast<plait_kernel*>(&kernel), "", "", "a"};
  const auto all_gather = [](const std::string&) {
    return std::vector<std::string>{"a 1,2,3", ""};
  };
  CHECK_THROWS_WITH_AS(runtime::tune({t}, nullptr, 1, all_gather),
                       doctest::Contains("sent '1,2,3' as an algorithm"), Error);
}
