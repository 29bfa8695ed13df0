// Arbitrary text as a CSV file; its first byte selects the requested columns: tables of the
// promised size, or an error about the data or the column names.
#include <cmath>
#include <cstdlib>

#include "plugins/data/csv/csv_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using namespace plait::data;
  csv::Request request;
  request.header = data[0] & 1;
  request.integer_target = data[0] & 2;
  if (data[0] & 4) request.target = {std::string(1, request.header ? 'y' : '1')};
  if (data[0] & 8) request.weight = std::string(1, request.header ? 'w' : '2');
  if (data[0] & 16) request.separator = ';';
  try {
    csv::Table t = csv::parse({"fuzz", "path", "x"},
                              {reinterpret_cast<const char*>(data) + 1, size - 1}, request);
    const auto rows = static_cast<size_t>(t.rows);
    if (t.input.size() != rows * t.inputs * 4 || t.target.size() != rows * t.targets * 4) abort();
    if (t.weight.size() != (request.weight.empty() ? 0 : rows * 4)) abort();
    for (size_t i = 0; i < rows * t.inputs; ++i)
      if (!std::isfinite(t.input.as<float>()[i])) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_CONFIG) abort();
  }
  return 0;
}
