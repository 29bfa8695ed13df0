// A map of tensors: an error, or a map that is written as it is read.
#include <cstdlib>

#include "engine/base/error.hpp"
#include "engine/checkpoint/tensor_map.hpp"

using namespace plait;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const checkpoint::TensorMap map = checkpoint::parse_tensor_map(
        parse_json({reinterpret_cast<const char*>(data), size}), "weights.map.json");
    for (const auto& [name, place] : map.parameters) {
      std::string fault;
      const int64_t tensor[] = {1024, 1024};
      const auto shape = checkpoint::shape_at(place, tensor, fault);
      if (fault.empty() && place.sliced() &&
          shape[0] != static_cast<int64_t>(place.all_tensors().size()))
        std::abort();
      const size_t dim = (place.sliced() ? 1 : 0) + (place.of_columns ? 1 : 0);
      const int64_t n = fault.empty() ? shape[dim] : 1;
      if (n < 1 || n > 1024 || (fault.empty() && place.row + n > 1024)) std::abort();
    }
    const std::string text = checkpoint::tensor_map_text(map);
    if (checkpoint::tensor_map_text(checkpoint::parse_tensor_map(parse_json(text), "again")) !=
        text)
      std::abort();
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) std::abort();
  }
  return 0;
}
