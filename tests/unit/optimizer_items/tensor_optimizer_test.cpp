// Optimizers that see whole tensors, in double: shapes that tests/golden does not have, and which
// rule a parameter gets.
#include <doctest/doctest.h>

#include <cmath>
#include <plait/plugin.hpp>

#include "tests/unit/support/golden.hpp"

using namespace plait;
using fake::Tensor;

namespace {

struct Item {
  explicit Item(const std::string& name, const fake::Options::Given& given = {}) {
    host.load("optimizer-" + name);
    item = &host.item<plait_optimizer_item>(PLAIT_KIND_OPTIMIZER, name);
    options = fake::options_of(*item, given);
  }
  // The scope of a parameter; throws fake::Failure.
  uint32_t scope(std::vector<int64_t> dims, uint32_t flags = 0) {
    const plait_parameter_info info{sizeof info, "model.it", Shape(std::move(dims)).raw(), flags,
                                    0};
    uint32_t scope = 99;
    fake::check(item->scope(host.raw(), options->raw(), &info, &scope));
    return scope;
  }
  double rate = 0.1, decay = 0;
  uint32_t flags = 0;  // PLAIT_PARAMETER_* of what is updated
  // One update of p with gradient g.
  Tensor update(const Tensor& p, const Tensor& g, int64_t step) {
    fake::Builder b;
    b.states = states;
    b.state_like = p;
    const plait_parameter_info info{sizeof info, "model.it", Shape(p.dims).raw(), flags, 0};
    const auto number = [&](double v) { return b.input(Tensor({}, {v})); };
    const plait_update update{sizeof(plait_update),
                              b.input(p),
                              b.input(g),
                              number(rate),
                              number(1),
                              number(static_cast<double>(step)),
                              number(decay),
                              PLAIT_SCOPE_TENSOR,
                              0,
                              &info};
    plait_value out = 0;
    fake::check(item->build(b.raw(), options->raw(), &update, &out));
    states = b.new_states;
    return b.at(out);
  }

  fake::Host host;
  const plait_optimizer_item* item = nullptr;
  std::unique_ptr<fake::Options> options;
  std::map<std::string, Tensor> states;
};

Tensor noise(std::vector<int64_t> dims, double phase) {
  Tensor t(std::move(dims), {0});
  for (size_t i = 0; i < t.size(); ++i) t.v[i] = std::sin(1.3 * static_cast<double>(i * i) + phase);
  return t;
}

Tensor transposed(const Tensor& x) {
  Tensor t({x.dims[1], x.dims[0]}, {0});
  const auto rows = static_cast<size_t>(x.dims[0]), columns = static_cast<size_t>(x.dims[1]);
  for (size_t i = 0; i < x.size(); ++i) t.v[i % columns * rows + i / columns] = x.v[i];
  return t;
}

void check_near(const Tensor& a, const Tensor& b) {
  REQUIRE(a.dims == b.dims);
  for (size_t i = 0; i < a.size(); ++i) CHECK(a.v[i] == doctest::Approx(b.v[i]).epsilon(1e-12));
}

double norm(const Tensor& x) {
  double sum = 0;
  for (const double v : x.v) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("muon: the step of a tall matrix is that of the wide one, turned, and longer") {
  Item tall("muon"), wide("muon"), plain("muon", {{"scale", "\"none\""}});
  Tensor p({6, 3}, {0}), q({3, 6}, {0}), r({6, 3}, {0});
  for (int64_t step = 1; step <= 4; ++step) {
    const Tensor g = noise({6, 3}, static_cast<double>(step));
    p = tall.update(p, g, step);
    q = wide.update(q, transposed(g), step);
    r = plain.update(r, g, step);
  }
  Tensor scaled = r;
  for (double& v : scaled.v) v *= std::sqrt(6.0 / 3.0);
  check_near(p, scaled);
  check_near(transposed(q), r);
}

TEST_CASE("muon: singular values become about 1, whatever the gradient's size") {
  for (const double size : {1e-4, 1.0, 1e6}) {
    Item item("muon", {{"nesterov", "false"}});
    Tensor g({4, 4}, {0});  // diagonal: its singular values are 1 to 4 times `size`
    for (size_t i = 0; i < 4; ++i) g.v[i * 5] = size * static_cast<double>(i + 1);
    const Tensor p = item.update(Tensor({4, 4}, {0}), g, 1);
    for (size_t i = 0; i < 16; ++i) {
      CAPTURE(i);
      if (i % 5 != 0) CHECK(std::abs(p.v[i]) < 1e-12);
      if (i % 5 == 0) CHECK(-p.v[i] / 0.1 == doctest::Approx(0.95).epsilon(0.3));
    }
  }
}

TEST_CASE("muon: a filter is a matrix of its outputs' rows") {
  Item filter("muon"), matrix("muon");
  const Tensor g = noise({4, 3, 2}, 1);
  Tensor flat = g;
  flat.dims = {4, 6};
  Tensor p = filter.update(Tensor({4, 3, 2}, {0}), g, 1);
  p.dims = {4, 6};
  check_near(p, matrix.update(Tensor({4, 6}, {0}), flat, 1));
}

TEST_CASE("muon: which parameters AdamW updates") {
  Item item("muon"), head("muon", {{"head", "true"}});
  CHECK(item.scope({4, 5}) == PLAIT_SCOPE_TENSOR);
  CHECK(item.scope({4, 5, 3}) == PLAIT_SCOPE_TENSOR);
  CHECK(item.scope({4}) == PLAIT_SCOPE_ELEMENT);
  CHECK(item.scope({4, 5, 3}, PLAIT_PARAMETER_GROUPED) == PLAIT_SCOPE_TENSOR);
  CHECK(item.scope({4, 5}, PLAIT_PARAMETER_GROUPED) == PLAIT_SCOPE_ELEMENT);  // vectors
  for (const uint32_t flag :
       {PLAIT_PARAMETER_TABLE, PLAIT_PARAMETER_OUTPUT, PLAIT_PARAMETER_ELEMENTWISE})
    CHECK(item.scope({4, 5}, flag) == PLAIT_SCOPE_ELEMENT);
  CHECK(head.scope({4, 5}, PLAIT_PARAMETER_OUTPUT) == PLAIT_SCOPE_TENSOR);
  CHECK(head.scope({4, 5}, PLAIT_PARAMETER_TABLE) == PLAIT_SCOPE_ELEMENT);
}

TEST_CASE("muon: coefficients that are not three are refused where they stand") {
  Item item("muon", {{"coefficients", "[1.0, 2.0]"}});
  try {
    item.update(noise({2, 2}, 0), noise({2, 2}, 1), 1);
    FAIL("it was built");
  } catch (const fake::Failure& e) {
    CHECK(e.code == PLAIT_ERR_CONFIG);
    CHECK(std::string(e.what()) ==
          "[muon] coefficients has 2 numbers, expected 3: a, b, c; at experiment.toml:7:1");
  }
}

TEST_CASE("lamb: the step has the parameter's norm; a parameter or update of 0 is not scaled") {
  Item item("lamb");
  const Tensor p = noise({3, 4}, 2), g = noise({3, 4}, 1);
  const Tensor q = item.update(p, g, 1);
  Tensor step = p;
  for (size_t i = 0; i < p.size(); ++i) step.v[i] -= q.v[i];
  CHECK(norm(step) == doctest::Approx(0.1 * norm(p)));
  Item zero("lamb");
  const Tensor from_zero = zero.update(Tensor({2}, {0}), Tensor({2}, {5}), 1);
  CHECK(from_zero.v[0] == doctest::Approx(-0.1).epsilon(1e-5));
  Item still("lamb");
  check_near(still.update(p, Tensor({3, 4}, {0}), 1), p);
  Item matrices("lamb", {{"adapt_vectors", "false"}});
  CHECK(matrices.scope({4}) == PLAIT_SCOPE_ELEMENT);
  CHECK(matrices.scope({4, 2}) == PLAIT_SCOPE_TENSOR);
  CHECK(item.scope({4}) == PLAIT_SCOPE_TENSOR);
  CHECK(item.scope({4, 2}, PLAIT_PARAMETER_ELEMENTWISE) == PLAIT_SCOPE_ELEMENT);
}

TEST_CASE("adafactor: a stack of matrices has rows and columns of each") {
  Item stack("adafactor", {{"clip_threshold", "1000.0"}, {"eps2", "1.0"}});
  const Tensor g = noise({2, 3, 4}, 1);
  const Tensor p = stack.update(Tensor({2, 3, 4}, {0}), g, 1);
  CHECK(stack.states.at("rows").dims == std::vector<int64_t>{2, 3});
  CHECK(stack.states.at("columns").dims == std::vector<int64_t>{2, 4});
  for (size_t k = 0; k < 2; ++k) {
    Item one("adafactor", {{"clip_threshold", "1000.0"}, {"eps2", "1.0"}});
    Tensor part({3, 4}, {0}), expected({3, 4}, {0});
    for (size_t i = 0; i < 12; ++i) {
      part.v[i] = g.v[k * 12 + i];
      expected.v[i] = p.v[k * 12 + i];
    }
    check_near(one.update(Tensor({3, 4}, {0}), part, 1), expected);
  }
}

TEST_CASE("experts: each matrix as the optimizer updates it alone") {
  const auto golden = fake::read_golden("groups");
  for (const std::string name : {"muon", "adafactor", "lamb"})
    for (const std::string shape : {"tall", "wide"}) {
      CAPTURE(name);
      CAPTURE(shape);
      const auto at = [&](const char* tensor) {
        return golden.at("groups." + name + "." + shape + "/" + tensor);
      };
      Item item(name, name == "adafactor" ? fake::Options::Given{{"eps1", "1e-7"}}
                                          : fake::Options::Given{});
      item.flags = PLAIT_PARAMETER_GROUPED;
      item.rate = 0.02;
      item.decay = 0.1;
      Tensor p = at("p");
      const Tensor all = at("g");
      for (int64_t step = 1; step <= all.dims[0]; ++step) {
        Tensor g = p;
        const auto begin = all.v.begin() + (step - 1) * static_cast<int64_t>(p.size());
        g.v.assign(begin, begin + static_cast<int64_t>(p.size()));
        p = item.update(p, g, step);
      }
      CHECK(fake::close(p, at("final"), 1e-11));
    }
}

TEST_CASE("adafactor has no element-wise rule and says so") {
  Item item("adafactor");
  CHECK(item.scope({4}) == PLAIT_SCOPE_TENSOR);
  try {
    item.scope({4, 5}, PLAIT_PARAMETER_ELEMENTWISE);
    FAIL("it has one");
  } catch (const fake::Failure& e) {
    CHECK(e.code == PLAIT_ERR_CONFIG);
    CHECK(std::string(e.what()).find("remove elementwise = true") != std::string::npos);
  }
}
