// What an adapter remembers of the weights that it was made beside: it must differ wherever a
// parameter would have other values.
#include "engine/checkpoint/weights_hash.hpp"

#include <doctest/doctest.h>
#include <plait/tensor.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine/checkpoint/weights.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"

using namespace plait::checkpoint;

TEST_CASE("weights read in another manner have another hash") {
  MemoryFiles files;
  const std::vector<int64_t> shape{2, 2};
  std::vector<float> values(4);
  std::iota(values.begin(), values.end(), 0.0f);
  const auto write = [&](const char* file) {
    write_safetensors(files, file,
                      std::vector<TensorSource>{{"t", PLAIT_F32, shape, values.data()}});
  };
  write("w.safetensors");
  const auto hash = [&](const TensorPlace& place, const std::vector<std::string>& rules = {},
                        const char* file = "w.safetensors") {
    TensorMap map;
    map.ignored = {"t"};
    map.parameters["a"] = place;
    return hash_of_files(Weights(files, file, map, "m.json"), rules).hex();
  };
  const std::vector<TensorPlace> places = {
      {"t"},
      {"t", 0, 1},
      {"t", 1, 1},
      {"t", 0, 0, true},
      {"t", 0, 1, false, false, true},
      {"", 0, 0, false, false, false, {"t"}},
      {"", 0, 0, false, false, false, {"t", "t"}},
  };
  std::set<std::string> all;
  for (const TensorPlace& place : places) all.insert(hash(place));
  all.insert(hash(places[0], {"a=b"}));
  values[3] = 9;
  write("other.safetensors");
  all.insert(hash(places[0], {}, "other.safetensors"));
  CHECK(all.size() == places.size() + 2);
  CHECK(hash(places[0]) == hash(places[0]));
}
