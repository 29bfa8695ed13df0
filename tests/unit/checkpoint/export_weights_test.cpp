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
  Model() : values_(64) {
    std::iota(values_.begin(), values_.end(), 0.0f);
    const auto tensor = [&](const char* name, std::vector<int64_t> shape) {
      return SaveTensor{name, PLAIT_F32, std::move(shape), values_.data(), false};
    };
    SaveTensor momentum = tensor("gpt.q.momentum", {2, 3});
    momentum.optimizer = true;
    const std::vector<SaveTensor> all = {tensor("gpt.q", {2, 3}),    tensor("gpt.k", {4, 3}),
                                         tensor("gpt.wide", {4, 5}), tensor("gpt.bias", {6}),
                                         tensor("other.w", {7}),     momentum};
    CheckpointWriter(files_, "ckpt", 0, lines_.log).save(Sample(1).state(), all);
    checkpoint_ = open_newest(files_, "ckpt", lines_.log);
    map.parameters = {{"q", {"qk", 0, 2}},
                      {"k", {"qk", 2, 0}},
                      {"wide", {"wide.weight", 0, 0, true}},
                      {"bias", {"bias", 0, 6}}};
  }
  std::vector<ExportTensor> made(const WrittenTypes& types = {}) const {
    return export_by_map(*checkpoint_, map, "gpt", types);
  }
  void refuses(const std::string& text) const {
    const std::string error = error_of([&] { made(); }, PLAIT_ERR_PLUGIN);
    CAPTURE(error);
    CHECK(error.find("[export] the format's map of tensors " + text) == 0);
    CHECK(error.find("; tell its author") != std::string::npos);
  }
  SafetensorsFile written(const std::string& out = "out") {
    export_weights(files_, *checkpoint_, out, made(), 0, {}, "own.safetensors");
    return SafetensorsFile(files_, out + "/own.safetensors");
  }
  TensorPlace& place(const std::string& name) { return map.parameters.find(name)->second; }

  TensorMap map;

 private:
  MemoryFiles files_;
  Lines lines_;
  std::vector<float> values_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

}  // namespace

TEST_CASE("parameters of a model stand below each other, transposed where the map says so") {
  const auto tensors = Model().made();
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "bias");
  CHECK(tensors[0].shape == std::vector<int64_t>{6});
  CHECK(tensors[1].name == "qk");
  CHECK(tensors[1].shape == std::vector<int64_t>{6, 3});
  REQUIRE(tensors[1].parts.size() == 2);
  CHECK(tensors[1].parts[0]->name == "gpt.q");
  CHECK(tensors[1].parts[1]->name == "gpt.k");
  CHECK(tensors[1].bytes() == 72);
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
