// Layers: values compared with the golden files, shapes, parameters, and refused inputs.
#include <cmath>

#include "tests/unit/layer_items/layer_bench.hpp"

using namespace plait;
using fake::Bench;
using fake::error_of;
using fake::Tensor;
using Dims = std::vector<int64_t>;

TEST_CASE("activations give the golden values, in the middle and in the tails") {
  const auto golden = fake::read_golden("ops");
  for (const char* name :
       {"relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "leaky_relu", "softplus"})
    for (const char* variant : {"5x7", "wide"}) {
      CAPTURE(name);
      const std::string prefix = std::string(name) + "." + variant;
      Bench bench;
      CHECK(
          fake::close(bench.layer(name, {}, {golden.at(prefix + "/x")}), golden.at(prefix + "/y")));
    }
  Bench bench;
  CHECK(fake::close(bench.layer("softmax", {}, {golden.at("softmax.2x3x5/x")}),
                    golden.at("softmax.2x3x5/y")));
}

TEST_CASE("softplus and leaky_relu follow their options") {
  Bench bench;
  const Tensor y = bench.layer("softplus", {{"beta", "2.0"}}, {Tensor({2}, {0.5, -400})});
  CHECK(y.v[0] == doctest::Approx(std::log1p(std::exp(1.0)) / 2));
  CHECK(y.v[1] == doctest::Approx(0));
  CHECK(bench.layer("leaky_relu", {{"slope", "0.5"}}, {Tensor({2}, {-2, 3})}).v ==
        std::vector<double>{-1, 3});
}

TEST_CASE("linear gives the golden values and declares PyTorch's parameters") {
  const auto golden = fake::read_golden("ops");
  Bench bench;
  bench.b.given = {{"weight", golden.at("linear.none/w")}, {"bias", golden.at("linear.none/b")}};
  CHECK(fake::close(bench.layer("linear", {{"out", "9"}}, {golden.at("linear.none/x")}),
                    golden.at("linear.none/y")));
  CHECK(bench.b.ops == std::vector<std::string>{"matmul"});
  const plait_parameter& w = bench.b.parameters.at("weight").declared;
  CHECK(w.init == PLAIT_INIT_UNIFORM);
  CHECK(w.init_b == doctest::Approx(1 / std::sqrt(13.0)));
  CHECK(w.init_a == -w.init_b);
  CHECK(w.shard_dim == -1);
  const plait_parameter& b = bench.b.parameters.at("bias").declared;
  CHECK(b.init == PLAIT_INIT_UNIFORM);
  CHECK(b.init_b == doctest::Approx(1 / std::sqrt(13.0)));
}

TEST_CASE("linear works on the last axis, without bias, on bytes, and starts as told") {
  Bench bench;
  const Tensor y = bench.layer(
      "linear", {{"out", "4"}, {"bias", "false"}, {"init", "\"normal\""}, {"parallel", "\"row\""}},
      {Tensor({2, 3, 5}, {1}, PLAIT_U8)});
  CHECK(y.dims == Dims{2, 3, 4});
  CHECK(y.v[0] == 5);
  CHECK(bench.b.parameters.count("bias") == 0);
  const plait_parameter& w = bench.b.parameters.at("weight").declared;
  CHECK(w.init == PLAIT_INIT_NORMAL);
  CHECK(w.init_b == 0.02);
  CHECK(w.shard_dim == 1);

  Bench column;
  column.layer("linear", {{"out", "6"}, {"init", "\"xavier_uniform\""}, {"parallel", "\"column\""}},
               {Tensor({2, 6}, {1})});
  CHECK(column.b.parameters.at("weight").declared.init_b == doctest::Approx(std::sqrt(0.5)));
  CHECK(column.b.parameters.at("weight").declared.shard_dim == 0);
  CHECK(column.b.parameters.at("bias").declared.init == PLAIT_INIT_CONSTANT);
  CHECK(column.b.parameters.at("bias").declared.shard_dim == 0);

  Bench normal;
  normal.layer("linear", {{"out", "2"}, {"init", "\"xavier_normal\""}}, {Tensor({2, 6}, {1})});
  CHECK(normal.b.parameters.at("weight").declared.init_b == doctest::Approx(0.5));
  Bench zeros;
  CHECK_NOTHROW(
      zeros.layer("linear", {{"out", "2"}, {"init", "\"zeros\""}}, {Tensor({2, 6}, {1})}));
  CHECK(zeros.b.parameters.at("weight").declared.init_a == 0);
}

TEST_CASE("linear refuses inputs without features, and ids") {
  Bench bench;
  CHECK(error_of([&] {
          bench.layer("linear", {{"out", "4"}}, {Tensor({7}, {1})});
        }) ==
        "[linear] layer 'model.it': the input is f32 (7), expected (samples, …, features): a "
        "sample is a single number "
        "here; give each sample at least one feature, e.g. with reshape = [1]");
  CHECK(error_of([&] {
          bench.layer("linear", {{"out", "4"}}, {Tensor({7, 2}, {1}, PLAIT_I64)});
        }) ==
        "[linear] layer 'model.it': the input is i64 (7, 2), expected real numbers; token ids go "
        "through an `embedding` "
        "layer first");
  CHECK(error_of([&] {
          bench.layer("linear", {{"out", "4"}}, {Tensor({7, 0}, {})});
        }).find("at least one feature") != std::string::npos);
  CHECK_THROWS_AS(bench.layer("linear", {{"out", "0"}}, {Tensor({7, 2}, {1})}),
                  std::invalid_argument);
}

TEST_CASE("flatten, reshape, slice, concat, add and mul give the right shapes and values") {
  Bench bench;
  const Tensor x({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(bench.layer("flatten", {}, {x}).dims == Dims{2, 6});
  CHECK(bench.layer("flatten", {}, {Tensor({4}, {1})}).dims == Dims{4, 1});
  CHECK(bench.layer("reshape", {{"shape", "[3, 2]"}}, {x}).dims == Dims{2, 3, 2});
  CHECK(bench.layer("reshape", {{"shape", "[-1, 3, 1]"}}, {x}).dims == Dims{2, 2, 3, 1});
  CHECK(bench.layer("reshape", {{"shape", "[]"}}, {Tensor({4, 1}, {1})}).dims == Dims{4});
  const Tensor cut = bench.layer("slice", {{"axis", "-1"}, {"start", "1"}, {"stop", "-1"}}, {x});
  CHECK(cut.dims == Dims{2, 2, 1});
  CHECK(cut.v == std::vector<double>{1, 4, 7, 10});
  const Tensor joined = bench.layer("concat", {}, {x, cut});
  CHECK(joined.dims == Dims{2, 2, 4});
  CHECK(joined.v[3] == 1);
  CHECK(bench.layer("concat", {{"axis", "1"}}, {x, x, x}).dims == Dims{2, 6, 3});
  CHECK(bench.layer("add", {}, {x, x, x}).v[5] == 15);
  CHECK(bench.layer("mul", {}, {x, cut}).v[2] == 2);
}

TEST_CASE("shape layers name the found shape and the shapes that would fit") {
  Bench bench;
  const Tensor x({2, 4, 3}, {1});
  CHECK(error_of([&] {
          bench.layer("reshape", {{"shape", "[5, 2]"}}, {x});
        }) ==
        "[reshape] layer 'model.it': a sample has 12 values (shape (2, 4, 3) with the samples), "
        "`shape` is (5, 2); their "
        "products must be equal, and one extent may be -1; set at experiment.toml:7:1");
  for (const char* shape :
       {"[-1, -1]", "[-1, 5]", "[0, -1]", "[4611686018427387904, 4, 12]", "[]"}) {
    CAPTURE(shape);
    CHECK(error_of([&] {
            bench.layer("reshape", {{"shape", shape}}, {x});
          }).find("[reshape]") == 0);
  }
  CHECK(error_of([&] {
          bench.layer("concat", {{"axis", "0"}}, {x, x});
        }) ==
        "[concat] layer 'model.it': axis is 0 for an input of shape (2, 4, 3), expected 1 to 2 or "
        "the same counted from "
        "the end (axis 0 is the samples); set at experiment.toml:7:1");
  CHECK(error_of([&] {
          bench.layer("concat", {}, {x, Tensor({2, 5, 3}, {1})});
        }) ==
        "[concat] layer 'model.it': input 1 has shape (2, 4, 3) and input 2 (2, 5, 3), expected "
        "the same but along axis 2");
  CHECK(error_of([&] {
          bench.layer("concat", {}, {x, Tensor({2, 4}, {1})});
        }).find("input 2 (2, 4)") != std::string::npos);
  CHECK(error_of([&] {
          bench.layer("slice", {{"start", "2"}, {"stop", "9"}}, {x});
        }) ==
        "[slice] layer 'model.it': start 2 and stop 9 select an empty or invalid range of "
        "axis 2 with extent 3 "
        "(shape (2, 4, 3)); set at experiment.toml:7:1");
  CHECK(error_of([&] {
          bench.layer("slice", {{"axis", "7"}, {"stop", "1"}}, {x});
        }).find("axis is 7") != std::string::npos);
}

TEST_CASE("norms give the golden values; gain starts at 1, bias at 0") {
  const auto golden = fake::read_golden("ops");
  for (const char* variant : {"5x7", "3x17", "2x3x5", "constant_row"})
    for (const char* name : {"layer_norm", "rms_norm"}) {
      const std::string prefix = std::string(name) + "." + variant;
      CAPTURE(prefix);
      Bench bench;
      bench.b.given["gain"] = golden.at(prefix + "/gain");
      if (golden.count(prefix + "/bias")) bench.b.given["bias"] = golden.at(prefix + "/bias");
      CHECK(
          fake::close(bench.layer(name, {}, {golden.at(prefix + "/x")}), golden.at(prefix + "/y")));
      CHECK(bench.b.parameters.at("gain").declared.init_a == 1);
    }
  Bench bench;
  CHECK(error_of([&] { bench.layer("rms_norm", {}, {Tensor({7}, {1})}); }) ==
        "[rms_norm] layer 'model.it': the input is f32 (7), expected real numbers of shape "
        "(samples, …, features)");
}

TEST_CASE("dropout masks and scales in training, and is the identity otherwise") {
  Bench bench;
  bench.b.uniform = {0.1, 0.25, 0.9};
  const Tensor x({3}, {4, 4, 4});
  CHECK(bench.layer("dropout", {{"p", "0.25"}}, {x}).v ==
        std::vector<double>{0, 4 / 0.75, 4 / 0.75});
  bench.b.ops.clear();
  CHECK(bench.layer("dropout", {{"p", "0.0"}}, {x}).v == x.v);
  bench.b.training = false;
  CHECK(bench.layer("dropout", {{"p", "0.5"}}, {x}).v == x.v);
  CHECK(bench.b.ops.empty());
  CHECK_THROWS_AS(bench.layer("dropout", {{"p", "1.0"}}, {x}), std::invalid_argument);
}

TEST_CASE("embedding looks rows up and refuses real numbers") {
  const auto golden = fake::read_golden("ops");
  for (const char* variant : {"5", "4x5"}) {
    const std::string prefix = std::string("embedding.") + variant;
    Bench bench;
    bench.b.given["weight"] = golden.at(prefix + "/table");
    CHECK(fake::close(bench.layer("embedding", {{"vocabulary", "11"}, {"width", "6"}},
                                  {golden.at(prefix + "/ids")}),
                      golden.at(prefix + "/y")));
    CHECK(bench.b.parameters.at("weight").declared.init == PLAIT_INIT_NORMAL);
    CHECK(bench.b.parameters.at("weight").declared.init_b == 1);
    CHECK(bench.b.parameters.at("weight").declared.shard_dim == 0);
  }
  Bench bench;
  CHECK(
      error_of([&] {
        bench.layer("embedding", {{"vocabulary", "11"}, {"width", "6"}}, {Tensor({7}, {1})});
      }) ==
      "[embedding] layer 'model.it': the input is f32 (7), expected integer ids (u8, i32 or i64)");
}
