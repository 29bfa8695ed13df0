// Arbitrary text as a CSV file; its first byte selects the requested columns: tables of the
// promised size, or an error about the data or the column names.
#include <cmath>
#include <cstdlib>

#include "plugins/data/csv/csv_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using namespace plait::data;
  csv::Request request;
  const bool named = data[0] & 1;
  request.header = static_cast<csv::Header>(named ? 1 : data[0] & 64 ? 0 : 2);
  if (data[0] & 2) request.target_type = csv::TargetType::kClass;
  if (data[0] & 4) request.target = {std::string(1, named ? 'y' : '1')};
  if (data[0] & 8) request.weight = std::string(1, named ? 'w' : '2');
  if (data[0] & 16) request.separator = 0;
  if (data[0] & 32) request.missing = csv::Missing::kMean;
  if (data[0] & 128) request.categories = {std::string(1, named ? 'c' : '0')};
  request.missing_texts = {"", "?"};
  try {
    csv::Table t = csv::parse({"fuzz", "path", "x"},
                              {reinterpret_cast<const char*>(data) + 1, size - 1}, request);
    const auto rows = static_cast<size_t>(t.rows);
    if (t.input.size() != rows * t.inputs * 4 || t.target.size() != rows * t.targets * 4) abort();
    if (t.weight.size() != (request.weight.empty() ? 0 : rows * 4)) abort();
    for (size_t i = 0; i < rows * t.inputs; ++i)
      if (!std::isfinite(t.input.as<float>()[i])) abort();
    const auto classes = static_cast<int32_t>(t.fit.classes.size());
    for (size_t i = 0; request.target_type == csv::TargetType::kClass && i < rows * t.targets; ++i)
      if (const int32_t id = t.target.as<int32_t>()[i]; id < 0 || id >= classes) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_CONFIG) abort();
  }
  return 0;
}
