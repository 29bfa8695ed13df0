// What the kernels of a core op need to know of its shapes, read from a desc and checked once for all kernels.
//
// Each parse_* throws plait::Error (PLAIT_ERR_INVALID) "[op] found, expected" when the desc breaks the op's contract; a
// kernel's select() lets it pass, which refuses the desc with that text. Strides are in elements. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <plait/plugin.hpp>

namespace plait::support {

// Overflow-checked number of elements and bytes.
int64_t elements(const plait_shape& s);
uint64_t bytes(const plait_shape& s);
std::string text(const plait_shape& s);  // "f32 (32, 120)"
bool flag_attr(const plait_op_desc& d, const char* name, bool fallback);

// Throws "[op] what" unless ok.
void need(bool ok, const plait_op_desc& d, const std::string& what);
void need_operands(const plait_op_desc& d, uint32_t inputs, uint32_t outputs);

// R rows of C elements: the last axis, and all before it.
struct Rows {
  int64_t rows = 0, cols = 0;
};
Rows rows_of(const plait_shape& s);

// softmax, log_softmax (one input) and their gradients (two); all operands have one shape and type.
Rows parse_softmax(const plait_op_desc& d, uint32_t inputs);

struct CrossEntropy {
  Rows x;
  uint32_t dtype = 0, label = 0;  // of logits and labels
  double smoothing = 0;
  // Of a part of the classes: its first one, and those of all parts. The columns behind the last class are padding.
  bool part = false;
  int64_t first = 0, total = 0;
  int64_t valid = 0;  // columns that are classes
};
CrossEntropy parse_cross_entropy(const plait_op_desc& d, bool grad);

// layer_norm and rms_norm, forward and gradient. `stats`: operands per row (mean and rstd, or rstd).
struct Norm {
  Rows x;
  double eps = 0;
};
Norm parse_norm(const plait_op_desc& d, bool layer, bool grad);

enum class ReduceKind { sum, max, sum_squares };
// The input's dims without those of extent 1, neighbours that are all kept or all reduced merged into one.
struct Reduce {
  ReduceKind kind = ReduceKind::sum;
  struct Dim {
    int64_t extent, stride;
  };
  std::vector<Dim> dims;         // (ndim <= 8), outermost first
  std::vector<bool> reduced;     // of each dim; alternates
  int64_t kept = 1, summed = 1;  // elements of the output; of each sum
};
Reduce parse_reduce(const plait_op_desc& d);

struct Gather {
  int64_t rows = 0, width = 0, count = 0;  // V rows of the table, elements per row, indices
  uint32_t index = 0;                      // type of the indices
  int64_t first = 0, total = 0;            // of a part of a table: its first row, rows of all parts
  bool known(int64_t id) const { return id >= 0 && id < total; }
};
// Where an id lies in a part of a table that begins at row `first`; -1: before it. Any id.
inline int64_t local_row(int64_t id, int64_t first) { return id < first ? -1 : id - first; }
Gather parse_gather(const plait_op_desc& d);
Gather parse_scatter_add(const plait_op_desc& d);
Gather parse_one_hot(const plait_op_desc& d);  // width: depth; rows: unused

// slice, pad, concat: copies of whole blocks. Input i fills, in each of `outer` outer steps, `length` elements of y
// from `to`, read from `from`; `from_step` and `to_step` are the elements of one outer step.
struct BlockCopy {
  int64_t from = 0, from_step = 0, to = 0, length = 0;
};
struct Blocks {
  int64_t outer = 0, to_step = 0;
  bool zero = false;  // y has elements that no input fills
  std::vector<BlockCopy> copies;
};
Blocks parse_slice(const plait_op_desc& d);
Blocks parse_pad(const plait_op_desc& d);
Blocks parse_concat(const plait_op_desc& d);

// y's dims, each with the stride in x that it walks; neighbours that x holds together are merged, extents of 1 dropped.
struct Transpose {
  std::vector<int64_t> extents, strides;
};
Transpose parse_transpose(const plait_op_desc& d);

struct Matmul {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t stride_a = 0, stride_b = 0;  // between products; stride_b is 0 where b is shared
  bool transpose_a = false, transpose_b = false, bias = false, accumulate = false, squares = false;
  std::string activation;  // "none", "relu", ...
};
Matmul parse_matmul(const plait_op_desc& d);

struct Random {
  bool normal = false;
  bool by_sample = false;  // the counter is (step, first sample), else (step)
  int64_t samples = 1, per_sample = 0;
  uint32_t key0 = 0, key1 = 0, stream = 0;
};
Random parse_random(const plait_op_desc& d);

// Operands of an instruction: 0 to 3.
int map_arity(uint32_t op);
// Checks the expression and that the inputs broadcast to the outputs' common dims.
void check_map(const plait_op_desc& d);

}  // namespace plait::support
