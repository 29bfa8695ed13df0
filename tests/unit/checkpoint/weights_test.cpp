// Weights that another library wrote: names of parameters in them, messages, and reading of blocks.
#include "engine/checkpoint/weights.hpp"

#include <doctest/doctest.h>
#include <plait/base.h>
#include <plait/tensor.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a parameter is looked for by its whole name, without the model's, or as a rule says") {
  CHECK(names_in_file("gpt.h.q", "gpt", {}) == Names{"gpt.h.q", "h.q"});
  CHECK(names_in_file("gpt.h.q", "gpt", {"gpt.h.*=body.*"}) == Names{"body.q"});
  CHECK(names_in_file("gpt.h.q", "gpt", {"h.*=own.*"}) == Names{"own.q"});
  CHECK(names_in_file("gpt.h.q", "gpt", {"x.*=own.*"}) == Names{"gpt.h.q", "h.q"});
}

TEST_CASE("an index that is no JSON is named") {
  MemoryFiles files;
  files.replace("w.index.json", "{\"weight_map\" {}}");
  CHECK(error_of([&] { Weights(files, "w.index.json"); }, PLAIT_ERR_DATA)
            .starts_with("[weights] 'w.index.json' "));
}

TEST_CASE("an index says which tensors there are, and the files how many bytes") {
  MemoryFiles files;
  const std::vector<float> values(6, 1.0f);
  const auto write = [&](const char* file, std::vector<TensorSource> tensors) {
    write_safetensors(files, file, tensors);
  };
  write("1.safetensors", {{"a", PLAIT_F32, {2, 3}, values.data()}});
  write("2.safetensors",
        {{"b", PLAIT_BF16, {3}, values.data()}, {"x", PLAIT_U8, {5}, values.data()}});
  files.replace("w.index.json",
                weights_index_text({{"a", "1.safetensors"}, {"b", "2.safetensors"}}, 30));
  const Weights weights(files, "w.index.json");
  CHECK(weights.names() == Names{"a", "b"});
  CHECK(weights.bytes() == 24 + 6 + 5);
  Names open;
  for (const SafetensorsFile* file : weights.open_files()) open.push_back(file->path());
  CHECK(open == Names{"./1.safetensors", "./2.safetensors"});
  CHECK(weights.find("b").shape == std::vector<int64_t>{3});
  CHECK(weights.find("b").file->path() == "./2.safetensors");
  CHECK(!weights.find("x").entry);
  CHECK(!weights.is_mapped());
}

TEST_CASE("a block is read without a touch of the memory behind it") {
  MemoryFiles files;
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), 0.0f);
  write_safetensors(files, "w.safetensors",
                    std::vector<TensorSource>{{"t", PLAIT_F32, {3, 4}, values.data()}});
  const struct {
    TensorPlace place;
    plait::topology::Box box;
    std::vector<float> read;
  } cases[] = {{{"t"}, {{1, 1}, {2, 2}}, {5, 6, 9, 10}},
               {{"t", 0, 0, true}, {{1, 1}, {2, 2}}, {5, 9, 6, 10}},
               {{"t", 1, 3, true}, {{0, 0}, {3, 2}}, {1, 5, 2, 6, 3, 7}},
               {{"t", 1, 3, false, false, true}, {{1, 1}, {2, 2}}, {6, 7, 10, 11}}};
  for (const auto& one : cases) {
    TensorMap map;
    map.ignored = {"t"};
    map.parameters["p"] = one.place;
    const Weights weights(files, "w.safetensors", map, "m.json");
    std::vector<float> out(one.read.size() + 4, -1), expected = one.read;
    expected.resize(out.size(), -1);
    Weights::read(weights.find("p"), one.box, PLAIT_F32, reinterpret_cast<std::byte*>(out.data()));
    CHECK(out == expected);
  }
}
