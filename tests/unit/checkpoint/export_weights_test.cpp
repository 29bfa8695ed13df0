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
  SafetensorsFile written() {
    export_weights(files_, *checkpoint_, "out", made(), 0, {}, "own.safetensors");
    return SafetensorsFile(files_, "out/own.safetensors");
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
