#include "plugins/devices/cuda/map/source.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "kit/dtype.hpp"
#include "kit/ops/map.hpp"
#include "plugins/devices/cuda/map/expression.hpp"
#include "plugins/devices/cuda/map/layout.hpp"
#include "plugins/devices/cuda/map/prelude.hpp"

namespace plait::cuda::map {
namespace {

using std::to_string;

// How an operand is read for WIDTH neighbouring elements of the output.
enum class Access {
  kScalar,  // one element for all of the output: read before the loop
  kVector,  // neighbours
  kRepeat,  // one element for all of the vector
  kEach,    // the vector crosses the end of a row: an address for each element
};

const char* type_name(uint32_t dtype) {
  switch (dtype) {
    case PLAIT_F32:
      return "float";
    case PLAIT_F64:
      return "double";
    case PLAIT_BF16:
      return "bf16";
    case PLAIT_F16:
      return "f16";
    case PLAIT_I32:
      return "int";
    case PLAIT_I64:
      return "long long";
    case PLAIT_U8:
      return "unsigned char";
    default:
      return "boolean";
  }
}

class Writer {
 public:
  explicit Writer(const plait_op_desc& d) : d_(d), layout_(make_layout(d)) {
    for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i) {
      types_.push_back(shape(i).dtype);
      wide_ |= types_.back() == PLAIT_F64;
    }
    width_ = choose_width();
    for (uint32_t i = 0; i < d.n_inputs; ++i) access_.push_back(access(i));
  }

  Source write() const;

 private:
  const plait_shape& shape(uint32_t operand) const {
    return operand < d_.n_inputs ? d_.inputs[operand] : d_.outputs[operand - d_.n_inputs];
  }
  bool all_zero(uint32_t input) const {
    const auto& s = layout_.strides[input];
    return std::all_of(s.begin(), s.begin() + layout_.ndim, [](int64_t step) { return step == 0; });
  }
  // As large as the output, in the same order.
  bool whole(uint32_t input) const;
  int64_t choose_width() const;
  Access access(uint32_t input) const;
  std::string pointer(uint32_t operand) const {
    return "static_cast<" + std::string(type_name(types_[operand])) + "*>(a.at[" +
           to_string(operand) + "])";
  }
  std::string coordinates(const char* element) const;
  std::string offset(uint32_t input) const;
  std::string evaluate() const;
  std::string call(bool vector) const;
  std::string vector_loop() const;
  std::string element_loop() const;
  std::string head() const;

  const plait_op_desc& d_;
  Layout layout_;
  std::vector<uint32_t> types_;
  bool wide_ = false;
  int64_t width_ = 2;
  std::vector<Access> access_;
};

bool Writer::whole(uint32_t input) const {
  int64_t step = 1;
  for (int j = layout_.ndim; j-- > 0; step *= layout_.dims[static_cast<size_t>(j)])
    if (layout_.strides[input][static_cast<size_t>(j)] != step) return false;
  return true;
}

// Elements of a vector: the smallest type that is accessed in vectors fills 16 bytes, up to 8
// elements; fewer where the operands would take more than 48 of a thread's registers, or the
// expression is long.
int64_t Writer::choose_width() const {
  uint64_t smallest = 8, bytes = 0;
  for (uint32_t i = 0; i < d_.n_inputs + d_.n_outputs; ++i) {
    const bool input = i < d_.n_inputs;
    if (input && all_zero(i)) continue;
    bytes += wide_ ? 8 : 4;
    if (!input || whole(i)) smallest = std::min(smallest, kit::dtype_bytes(types_[i]));
  }
  int64_t width = std::clamp<int64_t>(static_cast<int64_t>(16 / smallest), 2, 8);
  if (d_.map->n_instrs > 24) width = std::min<int64_t>(width, 4);
  while (width > 2 && static_cast<uint64_t>(width) * bytes > 192) width /= 2;
  return width;
}

Access Writer::access(uint32_t input) const {
  if (all_zero(input)) return Access::kScalar;
  if (whole(input)) return Access::kVector;
  if (layout_.inner() % width_ != 0) return Access::kEach;
  return layout_.strides[input][static_cast<size_t>(layout_.ndim - 1)] == 1 ? Access::kVector
                                                                            : Access::kRepeat;
}

// Defines the coordinates c0, c1, ... of an element, as far as an input needs them.
std::string Writer::coordinates(const char* element) const {
  bool needed[PLAIT_MAX_NDIM] = {};
  int first = layout_.ndim;  // the first dim of these
  for (uint32_t i = 0; i < d_.n_inputs; ++i) {
    if (access_[i] == Access::kScalar || whole(i)) continue;
    for (int j = layout_.ndim - 1; j >= 0; --j) {
      if (layout_.strides[i][static_cast<size_t>(j)] == 0) continue;
      needed[j] = true;
      first = std::min(first, j);
    }
  }
  std::string text, rest = element;
  for (int j = layout_.ndim - 1; j >= first; --j) {
    const std::string extent = to_string(layout_.dims[static_cast<size_t>(j)]) + "u";
    const std::string above = "e" + to_string(j), at = "    const Index c" + to_string(j) + " = ";
    if (j == 0) {
      text += at + rest + ";\n";
    } else if (j == first) {
      text += at + rest + " % " + extent + ";\n";
    } else {
      text += "    const Index " + above + " = " + rest + " / " + extent + ";\n";
      if (needed[j]) text += at + rest + " - " + above + " * " + extent + ";\n";
    }
    rest = above;
  }
  return text;
}

std::string Writer::offset(uint32_t input) const {
  if (whole(input)) return "e";
  std::string text;
  for (int j = 0; j < layout_.ndim; ++j) {
    const int64_t step = layout_.strides[input][static_cast<size_t>(j)];
    if (step == 0) continue;
    text += (text.empty() ? "" : " + ") + ("c" + to_string(j));
    if (step != 1) text += " * " + to_string(step) + "u";
  }
  return text.empty() ? "0u" : text;
}

std::string Writer::evaluate() const {
  std::string text = "MAP_INLINE void evaluate(";
  for (uint32_t i = 0; i < d_.n_inputs; ++i) text += "const real r" + to_string(i) + ", ";
  for (uint32_t i = 0; i < d_.n_outputs; ++i)
    text += "real& y" + to_string(i) + (i + 1 < d_.n_outputs ? ", " : ") {\n");
  return text + statements(*d_.map, wide_) + "}\n";
}

// One element: number k of the vectors, or a single one.
std::string Writer::call(bool vector) const {
  std::string text = "evaluate(";
  for (uint32_t i = 0; i < d_.n_inputs; ++i) {
    const bool many = vector && (access_[i] == Access::kVector || access_[i] == Access::kEach);
    text += "x" + to_string(i) + (many ? "[k], " : ", ");
  }
  for (uint32_t i = 0; i < d_.n_outputs; ++i)
    text += "y" + to_string(i) + (vector ? "[k]" : "") + (i + 1 < d_.n_outputs ? ", " : ");\n");
  return text;
}

std::string Writer::vector_loop() const {
  std::string text =
      "  for (Index i = first; i < static_cast<Index>(a.vectors); i += step) {\n"
      "    const Index e = i * WIDTH;\n";
  const bool each = std::find(access_.begin(), access_.end(), Access::kEach) != access_.end();
  if (!each) text += coordinates("e");
  for (uint32_t i = 0; i < d_.n_inputs; ++i) {
    const std::string x = "x" + to_string(i), p = "p" + to_string(i);
    if (access_[i] == Access::kVector)
      text += "    real " + x + "[WIDTH];\n    load(" + p + " + " + offset(i) + ", " + x + ");\n";
    if (access_[i] == Access::kRepeat)
      text += "    const real " + x + " = load(" + p + "[" + offset(i) + "]);\n";
    if (access_[i] == Access::kEach) text += "    real " + x + "[WIDTH];\n";
  }
  if (each) {
    text += "    MAP_UNROLL for (int k = 0; k < WIDTH; ++k) {\n    const Index f = e + k;\n";
    text += coordinates("f");
    for (uint32_t i = 0; i < d_.n_inputs; ++i)
      if (access_[i] == Access::kEach)
        text += "    x" + to_string(i) + "[k] = load(p" + to_string(i) + "[" + offset(i) + "]);\n";
    text += "    }\n";
  }
  for (uint32_t i = 0; i < d_.n_outputs; ++i) text += "    real y" + to_string(i) + "[WIDTH];\n";
  text += "    MAP_UNROLL for (int k = 0; k < WIDTH; ++k) " + call(true);
  for (uint32_t i = 0; i < d_.n_outputs; ++i)
    text += "    store(y" + to_string(i) + ", q" + to_string(i) + " + e);\n";
  return text + "  }\n";
}

std::string Writer::element_loop() const {
  std::string text =
      "  for (Index e = static_cast<Index>(a.vectors) * WIDTH + first;"
      " e < static_cast<Index>(a.count); e += step) {\n";
  text += coordinates("e");
  for (uint32_t i = 0; i < d_.n_inputs; ++i)
    if (access_[i] != Access::kScalar)
      text += "    const real x" + to_string(i) + " = load(p" + to_string(i) + "[" + offset(i) +
              "]);\n";
  text += "    real y0";
  for (uint32_t i = 1; i < d_.n_outputs; ++i) text += ", y" + to_string(i);
  text += ";\n    " + call(false);
  for (uint32_t i = 0; i < d_.n_outputs; ++i)
    text += "    store(y" + to_string(i) + ", q" + to_string(i) + "[e]);\n";
  return text + "  }\n";
}

std::string Writer::head() const {
  const bool narrow = layout_.count <= INT32_MAX;
  std::string text = "typedef " + std::string(wide_ ? "double" : "float") + " real;\ntypedef " +
                     (narrow ? "unsigned" : "unsigned long long") + " Index;\n";
  text += "#undef WIDE\n#undef WIDTH\n#define WIDE " + std::string(wide_ ? "1" : "0") +
          "\n#define WIDTH " + to_string(width_) + "\n";
  text += kPrelude;
  text += "\nstruct Arguments {\n  void* at[" + to_string(kMostOperands) +
          "];\n  long long count, vectors;\n};\n\n" + evaluate();
  return text;
}

Source Writer::write() const {
  Source to;
  to.call.operands = d_.n_inputs + d_.n_outputs;
  to.call.count = layout_.count;
  to.call.width = width_;
  const std::string top = head();
  std::string code;
  for (uint32_t i = 0; i < d_.n_inputs; ++i)
    code += "  const auto* p" + to_string(i) + " = " + pointer(i) + ";\n";
  for (uint32_t i = 0; i < d_.n_outputs; ++i)
    code += "  auto* q" + to_string(i) + " = " + pointer(d_.n_inputs + i) + ";\n";
  for (uint32_t i = 0; i < d_.n_inputs; ++i)
    if (access_[i] == Access::kScalar)
      code += "  const real x" + to_string(i) + " = load(p" + to_string(i) + "[0]);\n";
  code +=
      "  const Index first = static_cast<Index>(blockIdx.x) * 256u + threadIdx.x,\n"
      "              step = static_cast<Index>(gridDim.x) * 256u;\n";
  code += vector_loop() + element_loop() + "}\n";
  const std::string all = top + code;
  char digest[40];
  std::snprintf(digest, sizeof digest, "map_%016llx",
                static_cast<unsigned long long>(XXH3_64bits(all.data(), all.size())));
  to.name = digest;
  to.text = "// plait map\nnamespace " + to.name + " {\n" + top + "\nPLAIT_GLOBAL(" + to.name +
            ", Arguments, 256) {\n" + code + "}\n";
  for (uint32_t i = 0; i < d_.n_inputs; ++i)
    if (access_[i] == Access::kVector) to.call.vector.push_back(i);
  for (uint32_t i = 0; i < d_.n_outputs; ++i) to.call.vector.push_back(d_.n_inputs + i);
  return to;
}

}  // namespace

std::string refusal(const plait_op_desc& d) {
  kit::check_map(d);
  const uint64_t operands = uint64_t{d.n_inputs} + d.n_outputs;
  if (operands > kMostOperands)
    return to_string(operands) + " operands; generated code takes at most " +
           to_string(kMostOperands);
  if (d.map->n_instrs > kMostInstructions)
    return to_string(d.map->n_instrs) + " instructions; generated code takes at most " +
           to_string(kMostInstructions);
  return "";
}

Arguments Call::arguments(void* const* operands_of_call) const {
  Arguments a{};
  std::copy_n(operands_of_call, operands, a.at);
  a.count = count;
  uintptr_t bits = 0;
  for (const uint32_t i : vector) bits |= reinterpret_cast<uintptr_t>(a.at[i]);
  a.vectors = bits % 16 == 0 ? count / width : 0;
  return a;
}

// Blocks of a larger grid would handle one vector a thread; of this, threads walk on and keep what
// all elements share.
unsigned Call::blocks(const Arguments& a) const {
  constexpr int64_t kMost = 1 << 16;
  const int64_t items = std::max(a.vectors, count - a.vectors * width);
  return static_cast<unsigned>(std::min((items + kBlock - 1) / kBlock, kMost));
}

Source generate(const plait_op_desc& d) { return Writer(d).write(); }

}  // namespace plait::cuda::map
