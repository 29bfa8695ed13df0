// A case is data: an op on given shapes with given attributes and inputs. The checks (against the
// reference, over threads, captured, in place) are the same for all cases.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <plait/plugin.hpp>

namespace conformance {

// An attribute that owns its values.
struct Attr {
  std::string name;
  uint32_t type = 0;
  int64_t i = 0;
  double f = 0;
  std::string text;
  std::vector<int64_t> ints;
};
Attr flag(const char* name, bool v);
Attr number(const char* name, int64_t v);
Attr real(const char* name, double v);
Attr text(const char* name, const char* v);
Attr list(const char* name, std::vector<int64_t> v);

// An expression that owns its instructions.
struct Expression {
  std::vector<plait_map_instr> instrs;
  std::vector<uint32_t> outputs;
};

// How one input is filled: uniform in [low, high), whole numbers if the type is an integer; then
// single elements are set.
struct Input {
  plait_shape shape;
  double low = -2, high = 2;
  std::vector<std::pair<int64_t, double>> set = {};
};

struct Case {
  std::string name;
  std::string op;
  std::vector<Input> inputs;
  std::vector<plait_shape> outputs;
  std::vector<Attr> attrs = {};
  Expression map = {};
  // Tolerance of an f32 output, as a factor of max(scale, |expected|). The tolerances of other
  // types are in proportion to their precision.
  double tolerance = 4e-6;
  double scale = 1;
  // Output `i` may alias input in_place[i]; -1: it may not.
  std::vector<int32_t> in_place = {};
  // Any number of threads gives the same bits. Only a product may be split into other blocks for
  // more threads.
  bool same_over_threads = true;
  // The aliases are part of the op, not only allowed (matmul that accumulates).
  bool must_alias = false;
  // Attributes that permit a coarser result, within the tolerance. The reference computes without
  // them, and a device may have no kernel for them.
  std::vector<Attr> permits = {};
  // Its size is for the caches of a processor. No edge of a kernel: emulated GPUs leave it out.
  bool large = false;
};

plait_shape shape(uint32_t dtype, const std::vector<int64_t>& dims);
inline plait_shape f32(const std::vector<int64_t>& dims) { return shape(PLAIT_F32, dims); }
uint64_t bytes_of(const plait_shape& s);

// The case's inputs, the same for every run.
std::vector<std::vector<unsigned char>> fill(const Case& c);

// All cases, by family; of the chosen ops alone, if some are.
std::vector<Case> all_cases();
// list: "matmul,softmax", these alone; "-matmul,-softmax", all others.
void choose_ops(std::string_view list);
bool is_chosen(const std::string& op);
void leave_out_large();
void add_matmul_cases(std::vector<Case>& out);
void add_map_cases(std::vector<Case>& out);
void add_reduce_cases(std::vector<Case>& out);
void add_row_cases(std::vector<Case>& out);
void add_statistics_cases(std::vector<Case>& out);
void add_layout_cases(std::vector<Case>& out);
void add_random_cases(std::vector<Case>& out);
void add_attention_cases(std::vector<Case>& out);
void add_attention_cached_cases(std::vector<Case>& out);
void add_quantized_cases(std::vector<Case>& out);
void add_float8_cases(std::vector<Case>& out);
void add_halves_cases(std::vector<Case>& out);
void add_grouped_cases(std::vector<Case>& out);
void add_draw_cases(std::vector<Case>& out);

}  // namespace conformance
