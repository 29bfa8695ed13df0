// The frequencies of rotary positions under every scaling against Hugging Face's library
// (tests/golden/golden_families.py), pair by pair.
#include <plait/op.h>

#include "kit/ops/rope.hpp"
#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

namespace {

plait_attr integer(const char* name, int64_t v) {
  return {name, PLAIT_OPT_INT, 0, v, 0, nullptr, nullptr};
}
plait_attr real(const char* name, double v) {
  return {name, PLAIT_OPT_REAL, 0, 0, v, nullptr, nullptr};
}
plait_attr text(const char* name, const char* v) {
  return {name, PLAIT_OPT_TEXT, 0, 0, 0, v, nullptr};
}

struct Scaling {
  const char* name;
  double theta;
  std::vector<plait_attr> attrs;
};

plait::kit::RopeTable table(const Scaling& s, int64_t length = 4,
                            const std::vector<plait_shape>& inputs = {}) {
  std::vector<plait_attr> attrs{integer("channels", 16), integer("length", length),
                                real("theta", s.theta)};
  attrs.insert(attrs.end(), s.attrs.begin(), s.attrs.end());
  plait_op_desc d{};
  d.struct_size = sizeof d;
  d.op = "rope_table";
  d.n_inputs = static_cast<uint32_t>(inputs.size());
  d.inputs = inputs.data();
  d.n_outputs = 2;
  d.n_attrs = static_cast<uint32_t>(attrs.size());
  d.attrs = attrs.data();
  return plait::kit::parse_rope_table(d);
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("frequencies and amplitudes of every scaling are the library's") {
  const plait::test::GoldenFile golden("families.safetensors");
  const plait_attr four = real("factor", 4), original = integer("original", 64);
  const Scaling scalings[] = {
      {"none", 500, {}},
      {"linear", 500, {text("scaling", "linear"), four}},
      {"llama3", 500, {text("scaling", "llama3"), real("factor", 8), original}},
      {"yarn", 10000, {text("scaling", "yarn"), four, original}},
      {"yarn_mscale",
       10000,
       {text("scaling", "yarn"), four, original, real("beta_fast", 16), real("beta_slow", 2),
        real("mscale", 0.7), real("mscale_all_dim", 1.3)}},
      {"longrope_short",
       500,
       {text("scaling", "longrope"), four, original,
        text("factors", "1,1.125,1.25,1.375,1.5,1.625,1.75,1.875")}},
      {"longrope_long",
       500,
       {text("scaling", "longrope"), four, original,
        text("factors", "1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5")}},
  };
  for (const Scaling& s : scalings) {
    const std::string name = s.name;
    CAPTURE(name);
    const auto frequency = golden.values("rope." + name + "/frequency");
    const auto found = table(s);
    REQUIRE(found.frequency.size() == frequency.size());
    constexpr double kUlps = 2 * 0x1p-23;  // the library's pow is off by one unit at times
    for (size_t j = 0; j < frequency.size(); ++j) {
      CAPTURE(j);
      CHECK(double{found.frequency[j]} == doctest::Approx(frequency[j]).epsilon(kUlps));
    }
    CHECK(double{found.amplitude} ==
          doctest::Approx(golden.values("rope." + name + "/amplitude")[0]).epsilon(kUlps));
  }
}

TEST_CASE("longrope: the length of a sample chooses its divisors, whose numbers are checked") {
  const plait::test::GoldenFile golden("families.safetensors");
  const auto shorter = golden.values("rope.longrope_short/frequency"),
             longer = golden.values("rope.longrope_long/frequency");
  const auto is = [](const std::vector<float>& found, const std::vector<double>& expected) {
    return std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                      [](float a, double b) { return std::abs(a - b) <= 0x1p-22 * b; });
  };
  const Scaling both{"",
                     500,
                     {text("scaling", "longrope"), real("factor", 4), integer("original", 64),
                      text("factors", "1,1.125,1.25,1.375,1.5,1.625,1.75,1.875"),
                      text("long_factors", "1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5")}};
  CHECK(is(table(both, 64).frequency, shorter));
  CHECK(is(table(both, 65).frequency, longer));

  const plait_shape positions{PLAIT_I32, 2, {3, 5}}, lengths{PLAIT_I32, 1, {3}};
  const plait::kit::RopeTable each = table(both, 0, {positions, lengths});
  CHECK(each.sample == 5);
  CHECK(is(each.frequency_of(64), shorter));
  CHECK(is(each.frequency_of(65), longer));

  const auto refusal = [&](Scaling s, int64_t length, std::vector<plait_shape> inputs = {}) {
    try {
      table(s, length, inputs);
    } catch (const plait::kit::Invalid& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refusal(both, 0, {positions, {PLAIT_I32, 1, {2}}}).find("one length for each sample") !=
        std::string::npos);
  Scaling fewer = both;
  fewer.attrs.back() = text("long_factors", "1, 2");
  CHECK(refusal(fewer, 4).find("has 2 numbers in `long_factors`, expected 8") != std::string::npos);
  fewer.attrs.pop_back();
  CHECK(refusal(fewer, 64) == "");
  CHECK(refusal(fewer, 65).find("has 0 numbers in `long_factors`") != std::string::npos);
}

TEST_SUITE_END();
