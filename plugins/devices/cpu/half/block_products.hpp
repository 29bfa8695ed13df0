// Products of small blocks of bf16 that add up in f32, for kernels that keep their operands in
// scratch (attention): with AMX, with AVX512_BF16, and widened to f32 for tests on machines that
// have neither.
#pragma once

#include <cstdint>

namespace plait::cpu {

// Rows of A are a multiple of kBlockRows, columns of B of kBlockColumns, the depth of kBlockDepth.
constexpr int64_t kBlockRows = 16, kBlockColumns = 32, kBlockDepth = 32;

// Blocks in memory; `row` is the distance of rows, in elements.
struct Block16 {
  uint16_t* at;
  int64_t row;
};
struct Block32 {
  float* at;
  int64_t row;
};

// C (rows, columns) = A B, or += with `add`. A (rows, depth) lies by rows. B (depth, columns) lies
// in pairs along the depth: element (k, j) is at[k / 2 * row + 2 * j + k % 2].
using BlockProduct = void (*)(const Block16& a, const Block16& b, const Block32& c, int64_t rows,
                              int64_t columns, int64_t depth, bool add);

struct BlockProducts {
  BlockProduct multiply = nullptr;  // null: the machine has no instructions for products of bf16
  // A thread calls begin() before its first product and end() behind its last one.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  const char* name = "";
  bool tiles = false;  // of AMX; begin() gives all eight the greatest size
};

// begin() and end() of a scope.
class InBlockProducts {
 public:
  explicit InBlockProducts(const BlockProducts& products) : products_(products) {
    products_.begin();
  }
  ~InBlockProducts() { products_.end(); }
  InBlockProducts(const InBlockProducts&) = delete;
  InBlockProducts& operator=(const InBlockProducts&) = delete;

 private:
  const BlockProducts& products_;
};

// The fastest of this machine. PLAIT_BF16_PRODUCTS acts as for matmul (matmul/isa.hpp).
const BlockProducts& block_products();

// Those that this machine can compute, the slow ones too: for tests. Ends with a null `multiply`.
const BlockProducts* all_block_products();

}  // namespace plait::cpu
