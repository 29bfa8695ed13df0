#include "engine/data/column_statistics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/base/error.hpp"

namespace {

using plait::data::column_statistics;

// Samples of one field, kept as bytes.
struct Rows {
  plait_field field;
  std::vector<char> bytes;
  int64_t n;

  template <class T>
  Rows(uint32_t dtype, std::vector<int64_t> dims, const std::vector<T>& values)
      : field{"x", PLAIT_FIELD_INPUT, 0, {dtype, static_cast<uint32_t>(dims.size()), {}}},
        bytes(values.size() * sizeof(T)) {
    int64_t each = 1;
    for (size_t d = 0; d < dims.size(); ++d) each *= field.shape.dims[d] = dims[d];
    n = static_cast<int64_t>(values.size()) / each;
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  size_t sample_bytes() const { return bytes.size() / static_cast<size_t>(n); }
};

plait_error* info(const void* dataset, plait_dataset_info* out) {
  const auto* d = static_cast<const Rows*>(dataset);
  out->n_samples = d->n;
  out->fields = &d->field;
  out->n_fields = 1;
  return nullptr;
}
plait_error* read(const void* dataset, const int64_t* indices, uint64_t n, void* const* outs) {
  const auto* d = static_cast<const Rows*>(dataset);
  for (uint64_t i = 0; i < n; ++i)
    std::memcpy(static_cast<char*>(outs[0]) + i * d->sample_bytes(),
                d->bytes.data() + static_cast<size_t>(indices[i]) * d->sample_bytes(),
                d->sample_bytes());
  return nullptr;
}
const plait_dataset_item kRows = {sizeof(plait_dataset_item),
                                  "rows",
                                  "",
                                  nullptr,
                                  0,
                                  0,
                                  nullptr,
                                  info,
                                  read,
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  nullptr};

plait::data::ColumnStatistics of(const Rows& rows, bool by_column, int64_t limit = 0) {
  return column_statistics({&kRows, &rows, "train"}, "x", by_column, limit);
}
using Reals = std::vector<double>;

}  // namespace

TEST_CASE("mean and deviation of each column, and of all values together") {
  const Rows rows(PLAIT_F32, {2}, std::vector<float>{1, 10, 3, 10, 5, 10});
  const auto columns = of(rows, true);
  CHECK(columns.mean == Reals{3, 10});
  CHECK(columns.deviation[0] == doctest::Approx(std::sqrt(8.0 / 3)));
  CHECK(columns.deviation[1] == 0);
  CHECK(columns.samples == 3);
  CHECK(of(rows, true, 2).mean == Reals{2, 10});
  const auto all = of(rows, false);
  CHECK(all.mean[0] == doctest::Approx(6.5));
  CHECK(all.deviation[0] == doctest::Approx(std::sqrt((30.25 + 12.25 + 2.25 + 3 * 12.25) / 6)));
}

TEST_CASE("a large mean leaves the deviation its digits, over many batches") {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(1e9 + (i % 2 ? 0.25 : -0.25));
  const auto found = of(Rows(PLAIT_F64, {}, values), true);
  CHECK(found.mean == Reals{1e9});
  CHECK(found.deviation[0] == doctest::Approx(0.25).epsilon(1e-9));
}

TEST_CASE("bytes and 16-bit floats are numbers, too") {
  CHECK(of(Rows(PLAIT_U8, {2, 2}, std::vector<uint8_t>{0, 255, 255, 0}), false).mean ==
        Reals{127.5});
  CHECK(of(Rows(PLAIT_BF16, {1}, std::vector<uint16_t>{0x3f80, 0x4040}), true).mean == Reals{2});
  CHECK(of(Rows(PLAIT_F16, {1}, std::vector<uint16_t>{0x3c00, 0x4200}), true).mean == Reals{2});
}

TEST_CASE("a number that is not finite is named") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  try {
    of(Rows(PLAIT_F32, {3}, std::vector<float>{1, 2, 3, 4, 5, nan}), true);
    FAIL("expected an error");
  } catch (const plait::Error& e) {
    CHECK(e.code() == PLAIT_ERR_DATA);
    CHECK(e.text().find("[data.train]: element 2 of field 'x' of sample 1 is nan") !=
          std::string::npos);
  }
}
