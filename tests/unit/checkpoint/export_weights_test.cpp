// Where the parameters of a checkpoint go in files of another library, by the map of a format.
#include "engine/checkpoint/export_weights.hpp"

#include <doctest/doctest.h>
#include <plait/tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/checkpoint/weights.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sample.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;

// "gpt.q", "gpt.k" and "gpt.wide" are matrices, "gpt.bias" a vector; "other.w" is of another model.
class Model {
 public:
  explicit Model(float first = 0) : values_(64) {
    std::iota(values_.begin(), values_.end(), first);
    const auto tensor = [&](const char* name, std::vector<int64_t> shape) {
      return SaveTensor{name, PLAIT_F32, std::move(shape), values_.data(), false};
    };
    SaveTensor momentum = tensor("gpt.q.momentum", {2, 3});
    momentum.optimizer = true;
    const std::vector<SaveTensor> all = {tensor("gpt.q", {2, 3}),    tensor("gpt.k", {4, 3}),
                                         tensor("gpt.wide", {4, 5}), tensor("gpt.bias", {6}),
                                         tensor("other.w", {7}),     tensor("scalars.a", {}),
                                         tensor("scalars.b", {}),    momentum};
    CheckpointWriter(files_, "ckpt", 0, lines_.log).save(Sample(1).state(), all);
    checkpoint_ = open_newest(files_, "ckpt", lines_.log);
    map.parameters = {{"q", {"qk", 0, 2}},
                      {"k", {"qk", 2, 0}},
                      {"wide", {"wide.weight", 0, 0, true}},
                      {"bias", {"bias", 0, 6}}};
  }
  std::vector<ExportTensor> made(const WrittenTypes& types = {}) const {
    return export_by_map(*checkpoint_, map, model, types);
  }
  void refuses(const std::string& text) const {
    const std::string error = error_of([&] { made(); }, PLAIT_ERR_PLUGIN);
    CAPTURE(error);
    CHECK(error.find("[export] the format's map of tensors " + text) == 0);
    CHECK(error.find("; tell its author") != std::string::npos);
  }
  SafetensorsFile written(const std::string& out = "out", const WrittenTypes& types = {}) {
    export_weights(files_, *checkpoint_, out, made(types), 0, {}, "own.safetensors");
    return SafetensorsFile(files_, out + "/own.safetensors");
  }
  TensorPlace& place(const std::string& name) { return map.parameters.find(name)->second; }

  TensorMap map;
  std::string model = "gpt";

 private:
  MemoryFiles files_;
  Lines lines_;
  std::vector<float> values_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

}  // namespace

TEST_CASE("parameters of a model stand below each other, transposed where the map says so") {
  const Model model;
  const auto tensors = model.made();
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "bias");
  CHECK(tensors[0].shape == std::vector<int64_t>{6});
  CHECK(tensors[1].name == "qk");
  CHECK(tensors[1].shape == std::vector<int64_t>{6, 3});
  REQUIRE(tensors[1].parts.size() == 2);
  CHECK(tensors[1].parts[0]->name == "gpt.q");
  CHECK(tensors[1].parts[1]->name == "gpt.k");
  CHECK(tensors[1].bytes() == 72);
  CHECK(tensors[1].slices == std::vector<int64_t>{-1, -1});
  CHECK(!tensors[1].transposed);
  CHECK(tensors[2].name == "wide.weight");
  CHECK(tensors[2].shape == std::vector<int64_t>{5, 4});
  CHECK(tensors[2].transposed);
  CHECK(Model().made({PLAIT_BF16})[1].bytes() == 36);
}

TEST_CASE(
    "each parameter may be written in a type of its own; joined ones have one that holds both") {
  const auto types_of = [](const WrittenTypes& types) {
    std::vector<uint32_t> all;
    for (const ExportTensor& t : Model().made(types)) all.push_back(t.dtype);
    return all;
  };
  const std::map<std::string, uint32_t> each = {{"gpt.q", PLAIT_BF16},
                                                {"gpt.k", PLAIT_BF16},
                                                {"gpt.wide", PLAIT_F16},
                                                {"other.w", PLAIT_F64}};
  CHECK(types_of({0, each}) == std::vector<uint32_t>{PLAIT_F32, PLAIT_BF16, PLAIT_F16});
  CHECK(types_of({PLAIT_F64, each}) == std::vector<uint32_t>{PLAIT_F64, PLAIT_F64, PLAIT_F64});
  CHECK(types_of({0, {{"gpt.q", PLAIT_BF16}, {"gpt.k", PLAIT_F16}}})[1] == PLAIT_F32);
  CHECK(types_of({0, {{"gpt.q", PLAIT_BF16}, {"gpt.k", PLAIT_F64}}})[1] == PLAIT_F64);
  CHECK(types_of({0, {{"gpt.q", PLAIT_BF16}}})[1] == PLAIT_F32);  // k stays f32
}

TEST_CASE("blocks of a matrix that is 0 elsewhere, a column, a row, and what is left out") {
  Model model;
  model.map.parameters.erase("q");
  model.map.parameters.erase("k");
  model.map.ignored = {"wi*"};
  model.map.blocks = {{"q", {"b", 5, 3, 7, 6}}, {"k", {"b", 0, 0, 7, 6}}};
  model.place("bias").column = true;
  const auto tensors = model.made();
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].shape == std::vector<int64_t>{7, 6});
  CHECK(tensors[1].shape == std::vector<int64_t>{6, 1});
  model.place("bias").transposed = true;
  CHECK(model.made()[1].shape == std::vector<int64_t>{1, 6});
  CHECK(!model.made()[1].transposed);

  const SafetensorsFile file = model.written();
  const TensorEntry* b = file.header().find("b");
  REQUIRE(b);
  std::vector<float> values(42), expected(42, 0.0f);
  file.read(*b, 0, values.data(), sizeof(float) * values.size());
  for (size_t i = 0; i < 6; ++i) expected[(5 + i / 3) * 6 + 3 + i % 3] = static_cast<float>(i);
  for (size_t i = 0; i < 12; ++i) expected[i / 3 * 6 + i % 3] = static_cast<float>(i);
  CHECK(values == expected);

  model.map.blocks["q"].row = 6;
  model.refuses("has a block 'gpt.q' that does not fit 'b'");
  model.map.blocks["q"] = {"b", 5, 3, 8, 6};
  model.refuses("has a block 'gpt.q' that does not fit 'b'");
  model.map.blocks["q"] = {"b", 3, 2, 7, 6};  // k has rows 0 to 3, columns 0 to 2
  model.refuses("puts 'gpt.q' over 'gpt.k' in 'b'");
  model.map.blocks["q"] = {"b", 3, 3, 7, 6};
  CHECK(model.made().size() == 2);

  // A vector; and columns, which are read alone.
  model.map.parameters.erase("bias");
  model.map.blocks["bias"] = {"v", 2, 0, 9, 0};
  const SafetensorsFile of_vector = model.written("vector");
  const TensorEntry* v = of_vector.header().find("v");
  REQUIRE(v);
  CHECK(v->shape == std::vector<int64_t>{9});
  std::vector<float> vector(9);
  of_vector.read(*v, 0, vector.data(), sizeof(float) * vector.size());
  CHECK(vector == std::vector<float>{0, 0, 0, 1, 2, 3, 4, 5, 0});
  model.map.blocks["bias"] = {"v", 4, 0, 9, 0};
  model.refuses("has a block 'gpt.bias' that does not fit 'v'");
  model.map.blocks["bias"] = {"v", 2, 1, 9, 0};
  model.refuses("has a block 'gpt.bias' that does not fit 'v'");
  model.map.blocks.erase("bias");
  model.map.parameters["bias"] = {"v", 0, 6, false, false, true};
  model.refuses("writes columns of 'v' without a block");
}

TEST_CASE("columns of a matrix, and parts of it that overlap where it is ignored") {
  MemoryFiles files;
  const std::vector<int64_t> shape{3, 5};
  std::vector<float> values(15);
  std::iota(values.begin(), values.end(), 0.0f);
  write_safetensors(files, "w.safetensors",
                    std::vector<TensorSource>{{"t", PLAIT_F32, shape, values.data()}});
  TensorMap map;
  map.parameters["a"] = {"t", 0, 2, false, false, true};
  map.parameters["b"] = {"t", 2, 3, false, false, true};
  const auto open = [&] { return Weights(files, "w.safetensors", map, "m.json"); };
  const auto read = [&](const char* name, plait::topology::Box box) {
    std::vector<float> out(static_cast<size_t>(box.extent[0] * box.extent[1]));
    Weights::read(open().find(name), box, PLAIT_F32, reinterpret_cast<std::byte*>(out.data()));
    return out;
  };
  CHECK(open().find("b").shape == std::vector<int64_t>{3, 3});
  CHECK(read("b", {{0, 0}, {3, 3}}) == std::vector<float>{2, 3, 4, 7, 8, 9, 12, 13, 14});
  CHECK(read("b", {{1, 1}, {2, 1}}) == std::vector<float>{8, 13});
  map.parameters["b"].row = 1;
  const auto fault = [&] { return error_of([&] { open(); }, PLAIT_ERR_DATA); };
  CHECK(fault().find("'a' and 'b' overlap in its columns; correct 'm.json'") != std::string::npos);
  map.ignored = {"t"};
  CHECK(read("b", {{0, 0}, {1, 3}}) == std::vector<float>{1, 2, 3});
  map.ignored.clear();
  map.parameters.erase("b");
  CHECK(fault().find("no parameter has its column 2 of 5") != std::string::npos);
}

TEST_CASE("a parameter of several tensors is read slice by slice") {
  MemoryFiles files;
  const std::vector<int64_t> shape{2, 3}, other{3, 2};
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::vector<uint16_t> halves(6);
  write_safetensors(files, "w.safetensors",
                    std::vector<TensorSource>{{"t0", PLAIT_F32, shape, values.data()},
                                              {"t1", PLAIT_F32, shape, values.data() + 6},
                                              {"t2", PLAIT_F32, shape, values.data() + 12},
                                              {"wide", PLAIT_F32, other, values.data() + 18},
                                              {"half", PLAIT_F16, shape, halves.data()}});
  TensorMap map;
  map.ignored = {"wide", "half"};
  map.parameters["a"] = {"", 0, 0, false, false, false, {"t0", "t1", "t2"}};
  const auto open = [&] { return Weights(files, "w.safetensors", map, "m.json"); };
  const auto read = [&](const char* name, plait::topology::Box box) {
    std::vector<float> out(static_cast<size_t>(plait::topology::elements(box)));
    Weights::read(open().find(name), box, PLAIT_F32, reinterpret_cast<std::byte*>(out.data()));
    return out;
  };
  using Floats = std::vector<float>;
  CHECK(open().find("a").shape == std::vector<int64_t>{3, 2, 3});
  CHECK(open().find("a").entry->dtype == PLAIT_F32);
  CHECK(read("a", {{0, 0, 0}, {3, 2, 3}}) == Floats(values.begin(), values.begin() + 18));
  CHECK(read("a", {{1, 0, 0}, {2, 1, 3}}) == Floats{6, 7, 8, 12, 13, 14});
  CHECK(read("a", {{2, 1, 1}, {1, 1, 2}}) == Floats{16, 17});
  CHECK(read("a", {{2, 1, 1}, {0, 1, 2}}).empty());
  map.parameters["a"].transposed = true;
  CHECK(open().find("a").shape == std::vector<int64_t>{3, 3, 2});
  CHECK(read("a", {{1, 1, 0}, {1, 2, 2}}) == Floats{7, 10, 8, 11});
  // Rows of each.
  map.parameters["a"] = {"", 0, 1, false, false, false, {"t0", "t1", "t2"}};
  map.parameters["b"] = {"", 1, 1, false, false, false, {"t2", "t1", "t0"}};
  CHECK(read("b", {{0, 0, 0}, {3, 1, 3}}) == Floats{15, 16, 17, 9, 10, 11, 3, 4, 5});

  const auto fault = [&](const char* text) {
    const std::string found = error_of([&] { open(); }, PLAIT_ERR_DATA);
    CAPTURE(found);
    CHECK(found.find(text) != std::string::npos);
  };
  map.parameters.erase("b");
  fault("tensor 't0' of 'w.safetensors': no parameter has its row 1 of 2; correct 'm.json'");
  map.parameters["a"] = {"", 0, 0, false, false, false, {"t0", "t1"}};
  fault("has the tensor 't2', for which 'm.json' has no parameter");
  map.parameters["a"].tensors = {"t0", "t1", "t2", "t9"};
  fault(
      "'w.safetensors' has no tensor 't9' (did you mean 't0'?), where 'm.json' puts slice 3 of 4 "
      "of 'a'");
  map.parameters["a"].tensors = {"t0", "wide", "t1", "t2"};
  fault(
      "tensor 'wide' of 'w.safetensors' does not fit slice 1 of 4 of 'a' of 'm.json': it is F32 "
      "(3, 2), and 't0' F32 (2, 3); slices of a parameter are alike");
  map.parameters["a"].tensors = {"t0", "t1", "half", "t2"};
  fault("does not fit slice 2 of 4 of 'a' of 'm.json': it is F16 (2, 3), and 't0' F32 (2, 3)");
  map.parameters["a"] = {"", 1, 2, false, false, false, {"t0", "t1", "t2"}};
  fault("does not fit slice 0 of 3 of 'a' of 'm.json': it has 2 rows, the map takes rows 1 to 3");
}

TEST_CASE("slices of parameters are tensors of their own, beside each other or transposed") {
  Model model;
  model.map.parameters["k"] = {"", 0, 0, false, false, false, {"e0", "e1", "e2", "e3"}};
  model.place("wide") = {"", 0, 0, false, true, false, {"w0", "w1", "w2", "w3"}};
  model.place("q") = {"q", 0, 0};
  const auto tensors = model.made();
  REQUIRE(tensors.size() == 10);
  CHECK(tensors[1].name == "e0");
  CHECK(tensors[1].shape == std::vector<int64_t>{3});
  CHECK(tensors[1].bytes() == 12);
  CHECK(tensors[7].shape == std::vector<int64_t>{5, 1});
  const SafetensorsFile file = model.written();
  const auto values_of = [&](const char* name, size_t n) {
    std::vector<float> values(n);
    file.read(*file.header().find(name), 0, values.data(), sizeof(float) * n);
    return values;
  };
  CHECK(values_of("e2", 3) == std::vector<float>{6, 7, 8});
  CHECK(values_of("w0", 5) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(values_of("w3", 5) == std::vector<float>{15, 16, 17, 18, 19});

  // Two parameters in each tensor: rows of the one, then of the other.
  model.place("k") = {"", 0, 3, false, false, false, {"e0", "e1", "e2", "e3"}};
  model.place("wide") = {"", 3, 5, false, false, false, {"e3", "e2", "e1", "e0"}};
  CHECK(model.made()[1].shape == std::vector<int64_t>{8});
  const SafetensorsFile joined = model.written("joined");
  std::vector<float> both(8);
  joined.read(*joined.header().find("e1"), 0, both.data(), sizeof(float) * both.size());
  CHECK(both == std::vector<float>{3, 4, 5, 10, 11, 12, 13, 14});

  model.place("k").tensors.pop_back();
  model.refuses("gives 'gpt.k' 3 tensors, it has the shape (4, 3)");
  model.place("k") = {"", 0, 0, false, false, false, {"e0", "e1", "e2", "e2"}};
  model.place("wide") = {"wide", 0, 0};
  model.refuses("is wrong for 'e2': slices of 'gpt.k' share its rows");
  model.place("k") = {"", 0, 2, false, false, false, {"e0", "e1", "e2", "e3"}};
  model.refuses("gives 'gpt.k' 2 rows, it has 3");
}

TEST_CASE("a map that does not fit the model is the fault of the format") {
  const auto refuses = [](const std::function<void(Model&)>& change, const std::string& text) {
    Model model;
    change(model);
    model.refuses(text);
  };
  refuses([](Model& m) { m.map.parameters.erase("k"); }, "has no place for 'gpt.k'");
  refuses([](Model& m) { m.place("q").n_rows = 3; }, "gives 'gpt.q' 3 rows, it has 2");
  refuses([](Model& m) { m.place("bias").n_rows = 5; }, "gives 'gpt.bias' 5 rows, it has 6");
  refuses([](Model& m) { m.place("q").transposed = true; }, "transposes parts of 'qk' only");
  refuses([](Model& m) { m.place("k").row = 1; },
          "is wrong for 'qk': 'gpt.q' and 'gpt.k' overlap in its rows");
  refuses([](Model& m) { m.place("k").row = 3; }, "is wrong for 'qk': no parameter has its row 2");
  refuses(
      [](Model& m) {
        m.place("wide") = {"qk", 6, 0};
      },
      "joins 'gpt.q' and 'gpt.wide', which are of different widths or types");
  refuses([](Model& m) { m.place("bias").transposed = true; }, "transposes 'bias'");
  refuses([](Model& m) { m.place("wide").column = true; }, "makes a column of 'gpt.wide'");
}

TEST_CASE("single numbers have no rows to stand below each other") {
  Model model;
  model.model = "scalars";
  model.map.parameters = {{"a", {"both", 0, 0}}, {"b", {"other", 0, 0}}};
  REQUIRE(model.made().size() == 2);
  CHECK(model.made()[0].shape.empty());
  model.place("b") = {"both", 1, 0};
  model.refuses("joins 'scalars.a' and 'scalars.b', which are single numbers without rows");
}

TEST_CASE("tensors are written as floats, and none beyond the range of its type") {
  const std::string text = error_of([] { Model().made({PLAIT_I32}); }, PLAIT_ERR_INVALID);
  CHECK(text == "[export] the dtype of the tensors is " + std::to_string(PLAIT_I32) +
                    ", expected f32, bf16, f16 or f64");
  Model model(65501);  // in "wide" up to 65520, the first number that rounds beyond f16
  CHECK(model.written("f32", {PLAIT_F32}).header().tensors.size() == 3);
  CHECK(model.written("bf16", {PLAIT_BF16}).header().tensors.size() == 3);
  const std::string error = error_of([&] { model.written("f16", {PLAIT_F16}); }, PLAIT_ERR_DATA);
  CAPTURE(error);
  CHECK(
      error.ends_with("[export] tensor 'wide.weight' contains 65520, beyond the range of f16; "
                      "write it as f32 or bf16 (plait export --dtype)"));
  Model most(0x1.fffffep127F);  // which rounds beyond bf16, too
  using Type = std::pair<const char*, uint32_t>;
  for (const auto& [name, type] : {Type("f16", PLAIT_F16), Type("bf16", PLAIT_BF16)}) {
    const std::string of_f32 = error_of([&] { most.written(name, {type}); }, PLAIT_ERR_DATA);
    CAPTURE(of_f32);
    CHECK(of_f32.ends_with(std::string("beyond the range of ") + name +
                           "; write it as f32 (plait export --dtype)"));
  }
  CHECK(Model(65500).written("f16", {PLAIT_F16}).header().tensors.size() == 3);
}
