// Properties of training that hold for every layout, through the C ABI.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

namespace {

void check_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i] == doctest::Approx(b[i]).epsilon(tolerance));
  }
}

}  // namespace

TEST_CASE("the same run twice is bit-identical, another seed is not") {
  const auto a = Run(small()).losses(30), b = Run(small()).losses(30);
  CHECK(a == b);
  CHECK(Run(small(), "", PLAIT_RESUME_NEVER, {"run.seed=4"}).losses(30) != a);
}

TEST_CASE("threads do not change a bit of small runs, and training learns") {
  const auto one =
      Run(small("", "", "global = 12"), "", PLAIT_RESUME_NEVER, {"run.threads=1"}).losses(40);
  const auto two =
      Run(small("", "", "global = 12"), "", PLAIT_RESUME_NEVER, {"run.threads=2"}).losses(40);
  CHECK(one == two);
  CHECK(one.back() < one.front());
}

TEST_CASE(
    "how a batch is split into micro-batches does not show: losses, norms, dropout, padding of the "
    "last batch") {
  const Run whole(small());
  std::vector<plait_step_result> expected;
  for (int i = 0; i < 50; ++i) expected.push_back(whole.step());
  for (const char* batch :
       {"global = 12\nmicro = 6", "global = 12\nmicro = 4", "global = 12\nmicro = 1"}) {
    CAPTURE(batch);
    const Run split(small("", "", batch));
    for (int i = 0; i < 50; ++i) {
      const auto r = split.step();
      CAPTURE(i);
      CHECK(r.loss == doctest::Approx(expected[static_cast<size_t>(i)].loss).epsilon(1e-5));
      CHECK(r.grad_norm ==
            doctest::Approx(expected[static_cast<size_t>(i)].grad_norm).epsilon(1e-4));
      CHECK(r.samples == expected[static_cast<size_t>(i)].samples);
      CHECK(r.epoch == expected[static_cast<size_t>(i)].epoch);
    }
    const auto a = whole.read("model.linear1.weight", 16 * 16),
               b = split.read("model.linear1.weight", 16 * 16);
    for (size_t i = 0; i < a.size(); ++i)
      CHECK(b[i] == doctest::Approx(a[i]).epsilon(1e-4).scale(0.1));
  }
}

TEST_CASE("the cpu device follows the reference device") {
  const auto fast = Run(small()).losses(30);
  const auto oracle = Run(small(), "", PLAIT_RESUME_NEVER, {"run.device=reference"}).losses(30);
  check_close(fast, oracle, 2e-5);
}

TEST_CASE("every optimizer lowers the loss and obeys accumulation") {
  for (const std::string type : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"}) {
    CAPTURE(type);
    const std::string rate = type == "sgd" || type == "adagrad" ? "0.05"
                             : type == "lion"                   ? "0.004"
                                                                : "0.005";
    const std::string o = "[optimizer]\ntype = \"" + type + "\"\nlearning_rate = " + rate + "\n";
    const auto whole = Run(small(o)).losses(60),
               split = Run(small(o, "", "global = 12\nmicro = 3")).losses(60);
    CHECK(whole.back() < 0.8 * whole.front());
    // Sign-like updates amplify rounding: only the first steps are compared closely.
    for (size_t i = 0; i < 10; ++i) CHECK(split[i] == doctest::Approx(whole[i]).epsilon(1e-4));
  }
}

TEST_CASE("parameter groups: own rates, frozen ones stay bit-identical") {
  const std::string o =
      "[optimizer]\ntype = \"sgd\"\nlearning_rate = 0.1\n[[optimizer.groups]]\nmatch = "
      "[\"model.linear1.*\"]\nfrozen = true\n"
      "[[optimizer.groups]]\nmatch = [\"*.linear2.bias\"]\nlearning_rate = 0.0\n";
  const Run run(small(o));
  const auto w = run.read("model.linear1.weight", 256), b = run.read("model.linear2.bias", 10),
             v = run.read("model.linear2.weight", 160);
  run.losses(5);
  CHECK(run.read("model.linear1.weight", 256) == w);
  CHECK(run.read("model.linear2.bias", 10) == b);
  CHECK(run.read("model.linear2.weight", 160) != v);
}

TEST_CASE("group patterns that match nothing, or twice, are errors that name the parameters") {
  auto text = [](const std::string& groups) {
    return host::failure_of(
               [&] { Run(small("[optimizer]\ntype = \"sgd\"\nlearning_rate = 0.1\n" + groups)); })
        .text;
  };
  const std::string none = text("[[optimizer.groups]]\nmatch = [\"model.conv*\"]\n");
  CHECK(none.find("pattern 'model.conv*' matches no parameter") != std::string::npos);
  CHECK(none.find("model.linear1.weight") != std::string::npos);
  const std::string twice = text(
      "[[optimizer.groups]]\nmatch = [\"*.bias\"]\n[[optimizer.groups]]\nmatch = "
      "[\"*linear1*\"]\n");
  CHECK(twice.find("matches parameters that belong to optimizer.groups[0]: ") != std::string::npos);
}

TEST_CASE("clipping bounds the update, the reported norm is the one before") {
  const std::string plain = "[optimizer]\ntype = \"sgd\"\nlearning_rate = 1.0\n";
  const Run run(small(plain + "clip_grad_norm = 0.001\n"));
  const auto before = run.read("model.linear2.weight", 160);
  const auto r = run.step();
  CHECK(r.grad_norm > 0.01);
  const auto after = run.read("model.linear2.weight", 160);
  double squares = 0;
  for (size_t i = 0; i < 160; ++i) squares += std::pow(after[i] - before[i], 2);
  CHECK(std::sqrt(squares) <= 0.001 * 1.001);
}

TEST_CASE("a parameter shared by two layers is one parameter") {
  const std::string layers =
      "[[model.layers]]\ntype = \"flatten\"\n[[model.layers]]\ntype = \"linear\"\nname = "
      "\"a\"\nout = 16\n[[model.layers]]\n"
      "type = \"tanh\"\n[[model.layers]]\ntype = \"linear\"\nname = \"b\"\nout = 16\ntie = {weight "
      "= \"model.a.weight\"}\n"
      "[[model.layers]]\ntype = \"linear\"\nname = \"c\"\nout = 10\n";
  const Run run(small("", layers));
  plait_text* t = nullptr;
  host::check(plait_session_describe(run.session(), &t));
  const std::string json = host::take(t);
  CHECK(json.find("model.a.weight") != std::string::npos);
  CHECK(json.find("model.b.weight") == std::string::npos);
  const auto whole = run.losses(20);
  check_close(Run(small("", layers, "global = 12\nmicro = 2")).losses(20), whole, 1e-5);
}

TEST_CASE(
    "a frozen teacher beside a student: named values cross models, the teacher never changes") {
  const std::string toml =
      "[run]\nsteps = 10\n[batch]\nglobal = 8\n[data.train]\ntype = \"synthetic\"\nsamples = 64\n"
      "[models.teacher]\nfrozen = true\n[[models.teacher.layers]]\ntype = "
      "\"flatten\"\n[[models.teacher.layers]]\ntype = \"linear\"\n"
      "out = 4\n[[models.student.layers]]\ntype = \"flatten\"\n[[models.student.layers]]\ntype = "
      "\"linear\"\nout = 4\n"
      "[models.student.loss]\ntype = \"mse\"\nfrom = [\"output\", \"teacher.output\"]\n"
      "[models.student.optimizer]\ntype = \"adam\"\nlearning_rate = 0.02\n";
  const Run run(toml);
  const auto teacher = run.read("teacher.linear1.weight", 64);
  const auto losses = run.losses(200);
  CHECK(losses.back() < 0.05 * losses.front());
  CHECK(run.read("teacher.linear1.weight", 64) == teacher);
}

TEST_CASE("steps that are not finite are skipped, and a row of them stops the run naming the op") {
  const Run run(small(), "", PLAIT_RESUME_NEVER, {"guard.nonfinite_limit=3"});
  run.losses(2);
  const auto good = run.read("model.linear2.weight", 160);
  auto bad = run.read("model.linear1.weight", 256);
  bad[5] = std::numeric_limits<float>::quiet_NaN();
  host::check(plait_session_write(run.session(), "model.linear1.weight", bad.data(), 1024));
  const auto r = run.step();
  CHECK(r.skipped == 1);
  CHECK(r.step == 3);
  CHECK(run.read("model.linear2.weight", 160) == good);
  const auto f = host::failure_of([&] { run.losses(5); });
  CHECK(f.code == PLAIT_ERR_NUMERIC);
  CHECK(f.text.find("3 steps in a row") != std::string::npos);
  CHECK(f.text.find("model.linear1 (op matmul") != std::string::npos);
  CHECK(run.read("model.linear2.weight", 160) == good);
}

TEST_CASE("the planned arena is the used one, to the byte") {
  const Run run(small());
  plait_text* t = nullptr;
  host::check(plait_plan_describe(run.plan(), &t));
  const std::string plan = host::take(t);
  host::check(plait_session_describe(run.session(), &t));
  const std::string session = host::take(t);
  auto number = [](const std::string& json, const std::string& key) {
    const size_t at = json.find("\"" + key + "\"");
    REQUIRE(at != std::string::npos);
    return std::stoll(json.substr(json.find(':', at) + 1));
  };
  CHECK(number(plan, "arena") == number(session, "arena_bytes"));
}
