#include "engine/topology/box.hpp"

#include <algorithm>

#include "engine/base/checked.hpp"

namespace plait::topology {

int64_t elements(const Extent& extent) {
  int64_t product = 1;
  for (const int64_t size : extent) {
    if (size < 0)
      fail_invalid("[topology] an extent of " + std::to_string(size) + "; expected 0 or more");
    product = checked_mul(product, size, "elements of a tensor");
  }
  return product;
}

Box full_box(const Extent& extent) { return {std::vector<int64_t>(extent.size(), 0), extent}; }

bool intersect(const Box& a, const Box& b, Box& both) {
  both = a;
  for (size_t d = 0; d < a.extent.size(); ++d) {
    const Range r = intersect(Range{a.offset[d], a.offset[d] + a.extent[d]},
                              Range{b.offset[d], b.offset[d] + b.extent[d]});
    if (r.empty()) return false;
    both.offset[d] = r.begin;
    both.extent[d] = r.size();
  }
  return true;
}

namespace {

// `at` is fixed in the dimensions before d; `range` counts inside the remaining dimensions.
void cut_flat(const Box& box, Box at, size_t d, Range range, std::vector<Box>& out) {
  if (range.empty()) return;
  if (d == box.extent.size()) return out.push_back(std::move(at));
  int64_t row = 1;  // elements of one index of dimension d
  for (size_t i = d + 1; i < box.extent.size(); ++i) row *= box.extent[i];
  const auto part_of_row = [&](int64_t index, Range inside) {
    at.offset[d] = box.offset[d] + index;
    at.extent[d] = 1;
    cut_flat(box, at, d + 1, inside, out);
  };
  const int64_t first = range.begin / row, last = (range.end - 1) / row;
  const Range head{range.begin - first * row, std::min(row, range.end - first * row)};
  const bool head_full = head.size() == row;
  const bool tail_full = range.end == (last + 1) * row;
  if (first == last && !head_full) return part_of_row(first, head);
  if (!head_full) part_of_row(first, head);
  const int64_t full_begin = first + !head_full, full_end = last + tail_full;
  if (full_begin < full_end) {
    Box middle = at;
    middle.offset[d] = box.offset[d] + full_begin;
    middle.extent[d] = full_end - full_begin;
    for (size_t i = d + 1; i < box.extent.size(); ++i) {
      middle.offset[i] = box.offset[i];
      middle.extent[i] = box.extent[i];
    }
    out.push_back(std::move(middle));
  }
  if (!tail_full) part_of_row(last, {0, range.end - last * row});
}

}  // namespace

void for_each_run(const Extent& dims, const Box& box,
                  const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  if (elements(box) == 0) return;
  // Trailing dimensions that the block spans fully make one run with the dimension before them.
  size_t inner = dims.size();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= box.extent[inner];
    if (box.extent[inner] != dims[inner]) break;
  }
  std::vector<int64_t> at(box.offset);
  for (int64_t first = 0; first < elements(box); first += run) {
    int64_t flat = 0;
    for (size_t d = 0; d < dims.size(); ++d) flat = flat * dims[d] + at[d];
    visit(flat, first, run);
    for (size_t d = inner; d-- > 0;) {
      if (++at[d] < box.offset[d] + box.extent[d]) break;
      at[d] = box.offset[d];
    }
  }
}

std::vector<Box> flat_boxes(const Box& box, const Range& range) {
  std::vector<Box> out;
  cut_flat(box, box, 0, intersect(range, {0, elements(box)}), out);
  return out;
}

}  // namespace plait::topology
