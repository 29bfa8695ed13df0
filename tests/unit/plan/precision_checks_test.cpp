// Settings of [precision] that do not go together: what is said, and what is planned on with, so
// that one mistake is one problem.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/config/problem.hpp"
#include "engine/plan/check.hpp"

namespace {

using namespace plait;

struct Checked {
  std::vector<std::string> problems;  // "path message"
  config::PrecisionConfig left;
};

template <class Set>
Checked checked(Set set) {
  config::Experiment e;
  set(e.precision);
  config::Problems problems;
  plan::check_master(e, problems);
  plan::check_split_master(e, problems);
  plan::check_states(e, problems);
  plan::check_frozen(e, problems);
  plan::check_products(e, problems);
  Checked done;
  for (const config::Problem& p : problems.sorted())
    done.problems.push_back(p.path + " " + p.message);
  done.left = e.precision;
  return done;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("weights without copies in f32 are for bf16") {
  const auto without = [](const char* compute) {
    return checked([&](config::PrecisionConfig& p) {
      p.compute = compute;
      p.master = false;
    });
  };
  CHECK(without("bf16").problems.empty());
  CHECK_FALSE(without("bf16").left.master);
  const Checked f16 = without("f16"), f32 = without("f32");
  CHECK(f16.problems ==
        Texts{"precision.master is false with compute = \"f16\", expected true: weights of f16 "
              "alone lose what is below 6e-8 and overflow beyond 65504"});
  CHECK(f32.problems ==
        Texts{"precision.master is false with compute = \"f32\", expected true: the weights have "
              "the type of compute, there are no copies to do without"});
  CHECK(f16.left.master);
  CHECK(f32.left.master);
}

TEST_CASE("split weights are for bf16 with its copies") {
  const auto split = [](const char* compute, bool master) {
    return checked([&](config::PrecisionConfig& p) {
      p.compute = compute;
      p.master = master;
      p.split_master = true;
    });
  };
  CHECK(split("bf16", true).problems.empty());
  CHECK(split("bf16", true).left.split_master);
  const Checked alone = split("bf16", false), f16 = split("f16", true), f32 = split("f32", true);
  CHECK(alone.problems ==
        Texts{"precision.split_master is true with master = false, expected master = true: the "
              "weights are bf16 alone, there is nothing to split"});
  CHECK(f16.problems ==
        Texts{"precision.split_master is true with compute = \"f16\", expected \"bf16\": the bits "
              "of an f16 are not the first of an f32"});
  CHECK(f32.problems ==
        Texts{"precision.split_master is true with compute = \"f32\", expected \"bf16\": the "
              "weights have no copies of 16 bits"});
  for (const Checked* c : {&alone, &f16, &f32}) CHECK_FALSE(c->left.split_master);
}

TEST_CASE("f64 goes with nothing that rounds") {
  const Checked both = checked([](config::PrecisionConfig& p) {
    p.compute = "f64";
    p.states = "bf16";
    p.products = "fp8";
  });
  CHECK(
      both.problems ==
      Texts{"precision.states is \"bf16\" with compute = \"f64\", expected \"f32\", which then "
            "stands for f64: f64 is for results without rounding",
            "precision.products is \"fp8\" with compute = \"f64\", expected \"compute\": products "
            "of 8-bit floats leave nothing of f64"});
  CHECK(both.left.states == "f32");
  CHECK(both.left.products == "compute");
  const Checked low = checked([](config::PrecisionConfig& p) {
    p.compute = "bf16";
    p.states = "bf16";
    p.products = "fp8";
  });
  CHECK(low.problems.empty());
  CHECK(low.left.states == "bf16");
  CHECK(low.left.products == "fp8");
}

TEST_CASE("products of 8-bit floats read no numbers with scales") {
  for (const char* frozen : {"int8", "nf4", "master", "compute"}) {
    CAPTURE(frozen);
    const Checked c = checked([&](config::PrecisionConfig& p) {
      p.products = "fp8";
      p.frozen = frozen;
    });
    const bool numbers = std::string(frozen) == "int8" || std::string(frozen) == "nf4";
    CHECK(c.problems.size() == (numbers ? 1 : 0));
    CHECK(c.left.frozen == (numbers ? "master" : frozen));
  }
}
