// Generated sources, compiled for the host: their results.
#include <doctest/doctest.h>

#include <cmath>

#include "kit/dtype.hpp"
#include "plugins/support/elements.hpp"
#include "tests/cuda_map/host_code.hpp"

namespace cuda_map {
namespace {

// Elements whose bits differ, NaN of any bits aside.
int64_t differences(const Case& c, const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  int64_t n = 0;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const uint32_t type = c.outputs[i].dtype;
    const size_t size = plait::kit::dtype_bytes(type);
    for (size_t at = 0; at < a[i].size(); at += size) {
      const auto element = static_cast<int64_t>(at / size);
      const bool same = std::equal(a[i].begin() + static_cast<ptrdiff_t>(at),
                                   a[i].begin() + static_cast<ptrdiff_t>(at + size),
                                   b[i].begin() + static_cast<ptrdiff_t>(at));
      n += !same && !(std::isnan(plait::support::read_element(type, a[i].data(), element)) &&
                      std::isnan(plait::support::read_element(type, b[i].data(), element)));
    }
  }
  return n;
}

// Calls each(source, library) for all, in groups that are compiled together.
template <class Each>
void on_host(const std::vector<Generated>& all, Each each) {
  constexpr size_t kGroup = 50;
  const TemporaryFolder folder;
  for (size_t first = 0; first < all.size(); first += kGroup) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(first);
    const std::vector<Generated> group(
        begin, begin + static_cast<ptrdiff_t>(std::min(kGroup, all.size() - first)));
    const HostCode code(folder, "group" + std::to_string(first), group);
    for (const Generated& g : group) each(g, code);
  }
}

// All ways to call a kernel give the same bits.
void check_ways(const Generated& g, const HostCode& code, const std::vector<Bytes>& usual) {
  CHECK_MESSAGE(differences(g.c, code.run(g, 8), usual) == 0, "not aligned, the result differs");
  if (!g.c.in_place.empty())
    CHECK_MESSAGE(differences(g.c, code.run(g, 0, g.c.in_place), usual) == 0,
                  "in place, the result differs");
}

}  // namespace

TEST_CASE("conformance cases of map agree with their definition") {
  const auto cases = conformance_cases();
  REQUIRE(cases.size() > 200);
  // Cases of one text differ in the number of elements, so each is run.
  std::vector<Generated> all;
  for (const Case& c : cases) {
    const conformance::Desc d(c, 1);
    all.push_back({c, plait::cuda::map::generate(d.get())});
  }
  const TemporaryFolder folder;
  const HostCode code(folder, "conformance", generate(cases));
  for (const Generated& g : all) {
    CAPTURE(g.c.name);
    const auto found = code.run(g);
    const std::string differs = conformance::difference(g.c, found, evaluate(g.c));
    CHECK_MESSAGE(differs == "", differs);
    check_ways(g, code, found);
  }
}

TEST_CASE("random expressions of exact operations agree to the bit") {
  std::vector<Case> cases;
  for (uint32_t seed = 1; seed <= kRandomCases; ++seed) cases.push_back(random_case(seed));
  const auto all = generate(cases);
  REQUIRE(all.size() > kRandomCases * 9 / 10);
  on_host(all, [](const Generated& g, const HostCode& code) {
    CAPTURE(g.c.name);
    CAPTURE(g.source.text.substr(g.source.text.find("void evaluate")));
    const auto found = code.run(g);
    CHECK(differences(g.c, found, evaluate(g.c)) == 0);
    check_ways(g, code, found);
  });
}

TEST_CASE("the number of elements is no part of a source, the length of a row is") {
  const auto text = [](const std::vector<int64_t>& y, const std::vector<int64_t>& x) {
    Case c{"", "map", {{conformance::f32(y)}, {conformance::f32(x)}}, {conformance::f32(y)}};
    c.map = {{{PLAIT_MAP_ADD, 0, 1, 0, 0}}, {2}};
    const conformance::Desc d(c, 1);
    return plait::cuda::map::generate(d.get()).text;
  };
  CHECK(text({100}, {100}) == text({7, 3}, {7, 3}));
  CHECK(text({100}, {}) == text({7, 3}, {1, 1}));
  CHECK(text({100, 8}, {8}) == text({5, 3, 8}, {8}));
  CHECK(text({100, 8}, {8}) != text({100, 9}, {9}));
  CHECK(text({100, 8}, {8}) != text({100, 8}, {100, 1}));
  const int64_t many = int64_t{1} << 31;
  CHECK(text({many - 1}, {}) == text({100}, {}));
  CHECK(text({many}, {}) != text({100}, {}));
}

TEST_CASE("calls that generated code does not take are refused with the reason") {
  Case c{"", "map", {{conformance::f32({4})}}, {conformance::f32({4})}};
  c.map = {{{PLAIT_MAP_NEG, 0, 0, 0, 0}}, {1}};
  CHECK(plait::cuda::map::refusal(conformance::Desc(c, 1).get()) == "");
  c.map.instrs.resize(97, c.map.instrs[0]);
  CHECK(plait::cuda::map::refusal(conformance::Desc(c, 1).get()) ==
        "97 instructions; generated code takes at most 96");
  c.map.instrs.resize(1);
  c.inputs.resize(20, c.inputs[0]);
  CHECK(plait::cuda::map::refusal(conformance::Desc(c, 1).get()) ==
        "21 operands; generated code takes at most 20");
}

}  // namespace cuda_map
