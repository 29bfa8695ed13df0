#include "tests/unit/cpu_map/map_case.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <plait/plugin.hpp>

#include "plugins/devices/cpu/map/expr.hpp"

namespace plait::cpu::testing {
namespace {

constexpr size_t kGuard = 96;
constexpr unsigned char kGuardByte = 0xa5;

double decode_16(uint16_t h, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int sign = h >> 15, e = (h >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int m = h & ((1 << mantissa_bits) - 1);
  double v;
  if (e == (1 << exponent_bits) - 1) {
    v = m ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (e == 0) {
    v = std::ldexp(m, 1 - bias - mantissa_bits);
  } else {
    v = std::ldexp((1 << mantissa_bits) + m, e - bias - mantissa_bits);
  }
  return sign ? -v : v;
}

// By search: slow, but certain to find the nearest value with ties to even.
uint16_t encode_16(double v, int exponent_bits) {
  if (std::isnan(v)) return static_cast<uint16_t>(0x7fff);
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  v = std::abs(v);
  const uint16_t infinity =
      static_cast<uint16_t>(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  uint16_t low = 0, high = infinity;  // low <= v
  while (high - low > 1) {
    const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (decode_16(middle, exponent_bits) <= v ? low : high) = middle;
  }
  const double below = decode_16(low, exponent_bits);
  // The next step up, also if that is infinity.
  const double step = low ? below - decode_16(static_cast<uint16_t>(low - 1), exponent_bits)
                          : decode_16(1, exponent_bits);
  const double above = high == infinity ? below + step : decode_16(high, exponent_bits);
  if (std::isinf(v)) return sign | infinity;
  const double middle = below / 2 + above / 2;
  const bool up = v > middle || (v == middle && (low & 1));
  return static_cast<uint16_t>(sign | (up ? high : low));
}

template <class T>
T read(const unsigned char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
void write(unsigned char* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

}  // namespace

uint32_t Exprs::op(uint32_t op, uint32_t a, uint32_t b, uint32_t c) {
  instrs_.push_back({op, a, b, c, 0.0});
  return n_inputs_ + static_cast<uint32_t>(instrs_.size()) - 1;
}

uint32_t Exprs::constant(double value) {
  const uint32_t r = op(PLAIT_MAP_CONST);
  instrs_.back().value = value;
  return r;
}

plait_map Exprs::map() const {
  plait_map m{};
  m.struct_size = sizeof m;
  m.n_inputs = n_inputs_;
  m.n_instrs = static_cast<uint32_t>(instrs_.size());
  m.n_outputs = static_cast<uint32_t>(outputs_.size());
  m.instrs = instrs_.data();
  m.outputs = outputs_.data();
  return m;
}

Tensor::Tensor(uint32_t dtype, const std::vector<int64_t>& dims, size_t shift_bytes)
    : shift(shift_bytes) {
  desc.dtype = dtype;
  desc.ndim = static_cast<int>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) desc.dims[d] = dims[d];
  memory.assign(64 + shift + count() * dtype_bytes(dtype) + kGuard, kGuardByte);
}

Tensor::Tensor(const Tensor& other)
    : Tensor(other.desc.dtype, {other.desc.dims, other.desc.dims + other.desc.ndim}, other.shift) {
  std::memcpy(data(), other.data(), count() * dtype_bytes(desc.dtype));
}

size_t Tensor::start() const {
  const size_t at = reinterpret_cast<uintptr_t>(memory.data());
  return (64 - at % 64) % 64 + shift;
}

int64_t Tensor::count() const {
  int64_t n = 1;
  for (int d = 0; d < desc.ndim; ++d) n *= desc.dims[d];
  return n;
}

double Tensor::get(int64_t i) const {
  const unsigned char* p = static_cast<const unsigned char*>(data()) + i * dtype_bytes(desc.dtype);
  switch (desc.dtype) {
    case PLAIT_F32:
      return read<float>(p);
    case PLAIT_F64:
      return read<double>(p);
    case PLAIT_BF16:
      return decode_16(read<uint16_t>(p), 8);
    case PLAIT_F16:
      return decode_16(read<uint16_t>(p), 5);
    case PLAIT_I32:
      return read<int32_t>(p);
    case PLAIT_I64:
      return static_cast<double>(read<int64_t>(p));
    default:
      return *p;
  }
}

void Tensor::set(int64_t i, double v) {
  unsigned char* p = static_cast<unsigned char*>(data()) + i * dtype_bytes(desc.dtype);
  switch (desc.dtype) {
    case PLAIT_F32:
      return write(p, static_cast<float>(v));
    case PLAIT_F64:
      return write(p, v);
    case PLAIT_BF16:
      return write(p, encode_16(v, 8));
    case PLAIT_F16:
      return write(p, encode_16(v, 5));
    case PLAIT_I32:
      return write(p, static_cast<int32_t>(v));
    case PLAIT_I64:
      return write(p, static_cast<int64_t>(v));
    case PLAIT_BOOL:
      return write(p, static_cast<uint8_t>(v != 0));
    default:
      return write(p, static_cast<uint8_t>(v));
  }
}

void Tensor::fill(const std::vector<double>& values) {
  for (int64_t i = 0; i < count(); ++i) set(i, values[i % values.size()]);
}

bool Tensor::guard_intact() const {
  const size_t begin = start(), end = begin + count() * dtype_bytes(desc.dtype);
  for (size_t i = 0; i < memory.size(); ++i)
    if ((i < begin || i >= end) && memory[i] != kGuardByte) return false;
  return true;
}

std::vector<std::string> kernels_for(const MapDesc& desc) {
  std::vector<std::string> names;
  for (const char* name : {"jit_avx512", "jit_avx2", "interpreter"}) {
    try {
      make_map(desc, name);
      names.push_back(name);
    } catch (const plait::Error& e) {
      REQUIRE_MESSAGE(e.code() == PLAIT_ERR_UNIMPLEMENTED, e.what());
    }
  }
  return names;
}

void run_map(const Exprs& e, const std::string& kernel, std::vector<Tensor*> inputs,
             std::vector<Tensor*> outputs, int threads) {
  const plait_map map = e.map();
  std::vector<MapTensor> in, out;
  std::vector<void*> operands;
  for (Tensor* t : inputs) in.push_back(t->desc), operands.push_back(t->data());
  for (Tensor* t : outputs) out.push_back(t->desc), operands.push_back(t->data());
  const auto made = make_map({&map, in, out, threads}, kernel);
  CHECK(made->name() == kernel);
  std::unique_ptr<void, void (*)(void*)> workspace(
      made->workspace_bytes() ? std::aligned_alloc(64, (made->workspace_bytes() + 63) / 64 * 64)
                              : nullptr,
      std::free);
  made->run(operands.data(), workspace.get());
  for (const auto& side : {inputs, outputs})
    for (const Tensor* t : side) CHECK(t->guard_intact());
}

bool close(double a, double b, double rel, double abs) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  return std::abs(a - b) <= std::max(abs, rel * std::max(std::abs(a), std::abs(b)));
}

double reference_op(uint32_t op, double a, double b, double c) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool any_nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case PLAIT_MAP_COPY:
      return a;
    case PLAIT_MAP_ADD:
      return a + b;
    case PLAIT_MAP_SUB:
      return a - b;
    case PLAIT_MAP_MUL:
      return a * b;
    case PLAIT_MAP_DIV:
      return a / b;
    case PLAIT_MAP_MAX:
      return any_nan ? nan : std::fmax(a, b);
    case PLAIT_MAP_MIN:
      return any_nan ? nan : std::fmin(a, b);
    case PLAIT_MAP_POW:
      return std::pow(a, b);
    case PLAIT_MAP_NEG:
      return -a;
    case PLAIT_MAP_ABS:
      return std::abs(a);
    case PLAIT_MAP_EXP:
      return std::exp(a);
    case PLAIT_MAP_LOG:
      return std::log(a);
    case PLAIT_MAP_SQRT:
      return std::sqrt(a);
    // With two roundings to f32, like both kernels.
    case PLAIT_MAP_RSQRT:
      return 1.0 / static_cast<float>(std::sqrt(a));
    case PLAIT_MAP_RECIP:
      return 1.0 / a;
    case PLAIT_MAP_TANH:
      return std::tanh(a);
    case PLAIT_MAP_SIGMOID:
      return a < 0 ? std::exp(a) / (1.0 + std::exp(a)) : 1.0 / (1.0 + std::exp(-a));
    case PLAIT_MAP_ERF:
      return std::erf(a);
    case PLAIT_MAP_RELU:
      return std::isnan(a) ? nan : a > 0 ? a : 0.0;
    case PLAIT_MAP_FLOOR:
      return std::floor(a);
    case PLAIT_MAP_SIGN:
      return std::isnan(a) ? nan : (a > 0) - (a < 0);
    case PLAIT_MAP_LT:
      return a < b;
    case PLAIT_MAP_LE:
      return a <= b;
    case PLAIT_MAP_EQ:
      return a == b;
    case PLAIT_MAP_SELECT:
      return a != 0 ? b : c;
    case PLAIT_MAP_FMA:
      return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
    case PLAIT_MAP_EXPM1:
      return std::expm1(a);
    case PLAIT_MAP_LOG1P:
      return std::log1p(a);
    case PLAIT_MAP_IS_FINITE:
      return std::isfinite(a);
    case PLAIT_MAP_AND:
      return a != 0 && b != 0;
    case PLAIT_MAP_OR:
      return a != 0 || b != 0;
    case PLAIT_MAP_NOT:
      return a == 0;
  }
  return nan;
}

std::vector<double> evaluate(const plait_map& map, const std::vector<double>& inputs) {
  std::vector<double> r = inputs;
  for (uint32_t i = 0; i < map.n_instrs; ++i) {
    const plait_map_instr& in = map.instrs[i];
    const int n = map_op_arity(in.op);
    const double v = in.op == PLAIT_MAP_CONST
                         ? in.value
                         : reference_op(in.op, r[in.a], n > 1 ? r[in.b] : 0, n > 2 ? r[in.c] : 0);
    r.push_back(static_cast<float>(v));
  }
  return r;
}

int64_t broadcast_index(const MapTensor& in, const MapTensor& out, int64_t i) {
  int64_t index = 0, step = 1;
  for (int d = out.ndim - 1; d >= 0; --d) {
    const int64_t at = i % out.dims[d];
    i /= out.dims[d];
    const int k = d - (out.ndim - in.ndim);
    if (k < 0) continue;
    if (in.dims[k] != 1) index += at * step;
    step *= in.dims[k];
  }
  return index;
}

}  // namespace plait::cpu::testing
