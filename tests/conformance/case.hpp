// A case is data: an op on given shapes with given attributes and inputs. Everything else (against the reference, over threads,
// captured, in place) is the same for all.
#pragma once

#include <cstdint>
#include <string>
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

// How one input is filled: uniform in [low, high), whole numbers where the type is whole; then single elements set.
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
  // Error allowed of an f32 output, times max(scale, |expected|). Other types get theirs in proportion to their precision.
  double tolerance = 4e-6;
  double scale = 1;
  // Output `i` may lie on input in_place[i]; -1: not.
  std::vector<int32_t> in_place = {};
  // Any number of threads gives the same bits. A product may be cut into other blocks for more threads, all else may not.
  bool same_over_threads = true;
  // The aliases are part of the op, not only allowed (matmul that accumulates).
  bool must_alias = false;
};

plait_shape shape(uint32_t dtype, const std::vector<int64_t>& dims);
inline plait_shape f32(const std::vector<int64_t>& dims) { return shape(PLAIT_F32, dims); }
uint64_t bytes_of(const plait_shape& s);

// The case's inputs, the same for every run.
std::vector<std::vector<unsigned char>> fill(const Case& c);

// All cases, by family.
std::vector<Case> all_cases();
void add_matmul_cases(std::vector<Case>& out);
void add_map_cases(std::vector<Case>& out);
void add_reduce_cases(std::vector<Case>& out);
void add_row_cases(std::vector<Case>& out);
void add_layout_cases(std::vector<Case>& out);
void add_random_cases(std::vector<Case>& out);

}  // namespace conformance
