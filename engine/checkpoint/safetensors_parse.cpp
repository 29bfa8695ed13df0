// The header parser: kit's reader, with Plait's types.
#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

namespace {

const kit::SafetensorsType* type_of(uint32_t dtype) {
  for (const kit::SafetensorsType& t : kit::safetensors_types())
    if (dtype != 0 && t.dtype == dtype) return &t;
  return nullptr;
}

}  // namespace

const char* dtype_name(uint32_t dtype) {
  const kit::SafetensorsType* type = type_of(dtype);
  return type ? type->name.data() : "";
}

int dtype_order(uint32_t dtype) {
  const kit::SafetensorsType* type = type_of(dtype);
  return type ? static_cast<int>(type - kit::safetensors_types().data()) : -1;
}

uint32_t dtype_from_name(std::string_view name) {
  const kit::SafetensorsType* type = kit::safetensors_type(name);
  return type ? type->dtype : 0;
}

uint64_t dtype_bytes(uint32_t dtype) {
  const kit::SafetensorsType* type = type_of(dtype);
  return type ? type->bits / 8 : 0;
}

SafetensorsHeader parse_safetensors(std::string_view bytes, uint64_t file_size,
                                    const std::string& where) {
  kit::SafetensorsHeader read;
  try {
    read = kit::read_safetensors_header(bytes, file_size, "[safetensors] " + where);
  } catch (const kit::Damaged& e) {
    fail_data(e.what());
  }
  SafetensorsHeader header;
  header.metadata = std::move(read.metadata);
  header.data_start = read.data_start;
  header.tensors.reserve(read.entries.size());
  for (kit::SafetensorsEntry& e : read.entries) {
    const uint32_t dtype = dtype_from_name(e.dtype);
    header.tensors.push_back(
        {std::move(e.name), std::move(e.dtype), dtype, std::move(e.shape), e.begin, e.end});
  }
  header.by_name = std::move(read.by_name);
  return header;
}

const TensorEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [this](uint32_t i, std::string_view n) { return tensors[i].name < n; });
  return at != by_name.end() && tensors[*at].name == name ? &tensors[*at] : nullptr;
}

}  // namespace plait::checkpoint
