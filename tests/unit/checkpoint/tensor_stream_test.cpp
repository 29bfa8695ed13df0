// Tensors in pieces, whatever the blocks in which they were saved.
#include "engine/checkpoint/tensor_stream.hpp"

#include <doctest/doctest.h>
#include <plait/base.h>
#include <plait/tensor.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sample.hpp"
#include "tests/unit/checkpoint/streamed.hpp"

namespace {

using namespace plait::checkpoint;
using plait::topology::Box;

// Cuts a box in two along a random dimension, again and again.
std::vector<Box> random_tiling(const std::vector<int64_t>& shape, int cuts,
                               std::mt19937_64& random) {
  std::vector<Box> boxes{plait::topology::full_box(shape)};
  for (int i = 0; i < cuts && !shape.empty(); ++i) {
    Box& one = boxes[random() % boxes.size()];
    const size_t d = random() % shape.size();
    if (one.extent[d] < 2) continue;
    const auto at = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(one.extent[d] - 1));
    Box rest = one;
    rest.offset[d] += at;
    rest.extent[d] -= at;
    one.extent[d] = at;
    boxes.push_back(rest);
  }
  return boxes;
}

// Saves one i32 tensor, whose elements count from 0, in these boxes.
std::string save_boxes(MemoryFiles& files, Lines& lines, const std::vector<int64_t>& shape,
                       const std::vector<Box>& boxes) {
  std::vector<std::vector<int32_t>> parts;
  std::vector<SaveTensor> tensors;
  for (const Box& box : boxes) {
    std::vector<int32_t>& part = parts.emplace_back();
    plait::topology::for_each_run(shape, box, [&](int64_t global, int64_t, int64_t n) {
      for (int64_t i = 0; i < n; ++i) part.push_back(static_cast<int32_t>(global + i));
    });
  }
  for (size_t i = 0; i < boxes.size(); ++i)
    tensors.push_back(
        {"t", PLAIT_I32, shape, parts[i].data(), false, boxes[i].offset, boxes[i].extent});
  return CheckpointWriter(files, "ckpt", 0, lines.log).save(Sample(3).state(), tensors);
}

}  // namespace

TEST_CASE("a tensor is streamed in order, however it was divided") {
  std::mt19937_64 random(5);
  const std::vector<std::vector<int64_t>> shapes = {
      {},        {1},          {0},         {3, 0, 2},      {7},         {5, 6},
      {3, 4, 5}, {2, 3, 2, 5}, {700, 1000}, {2, 3, 131072}, {3, 524288}, {600000}};
  for (const std::vector<int64_t>& shape : shapes)
    for (const int cuts : {0, 1, 5, 20}) {
      CAPTURE(shape.size());
      CAPTURE(cuts);
      MemoryFiles files;
      Lines lines;
      const std::string path = save_boxes(files, lines, shape, random_tiling(shape, cuts, random));
      std::vector<int32_t> expected(static_cast<size_t>(plait::topology::elements(shape)));
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(streamed(Checkpoint(files, path), "t") == expected);
    }
}

TEST_CASE("a piece of a tensor has as many rows as fit, the same for each division") {
  const struct {
    std::vector<int64_t> shape;
    std::vector<size_t> pieces;  // elements
  } cases[] = {{{700, 1000}, {262000, 262000, 176000}},
               {{600000}, {262144, 262144, 75712}},
               {{2, 3, 131072}, {262144, 131072, 262144, 131072}},
               {{2, 2, 131072}, {262144, 262144}},
               {{2, 524288}, {262144, 262144, 262144, 262144}},
               {{3, 4, 5}, {60}},
               {{}, {1}}};
  std::mt19937_64 random(6);
  for (const auto& one : cases)
    for (const int cuts : {0, 5}) {
      MemoryFiles files;
      Lines lines;
      const Checkpoint c(
          files, save_boxes(files, lines, one.shape, random_tiling(one.shape, cuts, random)));
      TensorStream stream(c, *c.find("t"));
      std::vector<size_t> pieces;
      for (auto piece = stream.next(); !piece.empty(); piece = stream.next())
        pieces.push_back(piece.size() / sizeof(int32_t));
      CHECK(pieces == one.pieces);
    }
}
