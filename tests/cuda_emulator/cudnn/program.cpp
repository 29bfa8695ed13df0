#include "tests/cuda_emulator/cudnn/program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kit/half.hpp"

namespace emulated_dnn {
namespace {

bool is_half(Data type) { return type == Data::f16 || type == Data::bf16; }

float rounded(float v, Data type) {
  using namespace plait::kit;
  if (type == Data::bf16) return from_bf16(to_bf16(v));
  return type == Data::f16 ? from_f16(to_f16(v)) : v;
}

float read(const void* data, Data type, int64_t i) {
  using namespace plait::kit;
  if (type == Data::bf16) return from_bf16(static_cast<const uint16_t*>(data)[i]);
  if (type == Data::f16) return from_f16(static_cast<const uint16_t*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

void write(void* data, Data type, int64_t i, float v) {
  using namespace plait::kit;
  if (type == Data::bf16)
    static_cast<uint16_t*>(data)[i] = to_bf16(v);
  else if (type == Data::f16)
    static_cast<uint16_t*>(data)[i] = to_f16(v);
  else
    static_cast<float*>(data)[i] = v;
}

using Index = std::array<int64_t, 4>;

template <class F>
void each(const Index& dims, F&& f) {
  Index i{};
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
}

int64_t at(const Index& i, const Index& strides) {
  return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
}

// Whether a tensor can be read as one of these dims: each of its own is that or 1.
bool broadcasts(const Tensor& t, const Index& dims) {
  for (size_t i = 0; i < 4; ++i)
    if (t.dims[i] != dims[i] && t.dims[i] != 1) return false;
  return true;
}

bool compares(Pointwise p) { return p == Pointwise::greater_or_equal; }
bool is_unary(Pointwise p) {
  return p == Pointwise::exp || p == Pointwise::log || p == Pointwise::index;
}

std::string fault_of_matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (!is_half(a.type) || a.type != b.type) return "a product of other types than f16 or bf16";
  const auto divides = [](int64_t of, int64_t n) { return of > 0 && n % of == 0; };
  const bool fits = a.dims[0] == c.dims[0] && a.dims[1] == c.dims[1] && b.dims[0] == c.dims[0] &&
                    divides(b.dims[1], c.dims[1]) && a.dims[2] == c.dims[2] &&
                    a.dims[3] == b.dims[2] && b.dims[3] == c.dims[3];
  return fits ? "" : "a product of shapes that do not fit";
}

std::string fault_of_pointwise(const Operation& o, const Program& p) {
  const Tensor& y = p.tensors.at(o.y);
  const bool select = o.mode == Pointwise::select;
  if ((o.b == 0) != is_unary(o.mode) || (o.t != 0) != select) return "operands of another mode";
  if ((o.axis >= 0) != (o.mode == Pointwise::index) || o.axis > 3) return "an axis";
  if ((y.type == Data::boolean) != compares(o.mode)) return "a comparison that is not boolean";
  if (o.precision != (compares(o.mode) ? Data::boolean : Data::f32))
    return "a precision other than f32, or boolean of a comparison";
  if ((y.type == Data::i32) != (o.mode == Pointwise::index)) return "an index that is not i32";
  if (select && p.tensors.at(o.t).type != Data::boolean) return "a choice that is not boolean";
  for (const int64_t id : {o.x, o.b, o.t})
    if (id && !broadcasts(p.tensors.at(id), y.dims)) return "element-wise shapes that do not fit";
  return "";
}

class Run {
 public:
  Run(const Program& p, const std::map<int64_t, void*>& pointers) : p_(p) {
    for (const auto& [id, t] : p.tensors) {
      std::vector<float>& v = values_[id];
      v.assign(static_cast<size_t>(t.count()), std::numeric_limits<float>::quiet_NaN());
      if (t.is_virtual) continue;
      size_t n = 0;
      each(t.dims,
           [&](const Index& i) { v[n++] = read(pointers.at(id), t.type, at(i, t.strides)); });
    }
    for (const Operation& o : p.operations) step(o);
    for (const Operation& o : p.operations) {
      const Tensor& t = p.tensors.at(o.y);
      if (t.is_virtual) continue;
      size_t n = 0;
      each(t.dims, [&](const Index& i) {
        write(pointers.at(o.y), t.type, at(i, t.strides), values_[o.y][n++]);
      });
    }
  }

 private:
  // The element of a tensor at an index of a larger one.
  float element(int64_t id, Index i) const {
    const Tensor& t = p_.tensors.at(id);
    for (size_t d = 0; d < 4; ++d)
      if (t.dims[d] == 1) i[d] = 0;
    return values_.at(
        id)[static_cast<size_t>(((i[0] * t.dims[1] + i[1]) * t.dims[2] + i[2]) * t.dims[3] + i[3])];
  }
  void step(const Operation& o) {
    const Tensor& y = p_.tensors.at(o.y);
    std::vector<float> out(static_cast<size_t>(y.count()));
    size_t n = 0;
    each(y.dims, [&](const Index& i) { out[n++] = rounded(value(o, i), y.type); });
    values_[o.y] = std::move(out);
  }
  float value(const Operation& o, const Index& i) const {
    if (o.kind == Operation::Kind::matmul) return product(o, i);
    if (o.kind == Operation::Kind::reduction) return reduced(o, i);
    const float x = element(o.x, i), b = o.b ? element(o.b, i) : 0;
    switch (o.mode) {
      case Pointwise::add:
        return x + b;
      case Pointwise::mul:
        return x * b;
      case Pointwise::div:
        return x / b;
      case Pointwise::sub:
        return x - b;
      case Pointwise::exp:
        return std::exp(x);
      case Pointwise::log:
        return std::log(x);
      case Pointwise::greater_or_equal:
        return x >= b ? 1.0F : 0.0F;
      case Pointwise::index:
        return static_cast<float>(i[static_cast<size_t>(o.axis)]);
      case Pointwise::select:
        return element(o.t, i) != 0 ? x : b;
    }
    return 0;
  }
  float product(const Operation& o, const Index& i) const {
    const Tensor &a = p_.tensors.at(o.x), &b = p_.tensors.at(o.b), &y = p_.tensors.at(o.y);
    const int64_t shared = y.dims[1] / b.dims[1];  // heads of a that read one of b
    float sum = 0;
    for (int64_t k = 0; k < a.dims[3]; ++k)
      sum += element(o.x, {i[0], i[1], i[2], k}) * element(o.b, {i[0], i[1] / shared, k, i[3]});
    return sum;
  }
  // Over the last axis.
  float reduced(const Operation& o, Index i) const {
    const bool max = o.reduction == Reduction::max;
    float all = max ? -std::numeric_limits<float>::infinity() : 0;
    for (i[3] = 0; i[3] < p_.tensors.at(o.x).dims[3]; ++i[3]) {
      const float v = element(o.x, i);
      all = max ? std::max(all, v) : all + v;
    }
    return all;
  }

  const Program& p_;
  std::map<int64_t, std::vector<float>> values_;
};

}  // namespace

std::string Program::fault() const {
  std::set<int64_t> written;
  for (const Operation& o : operations) {
    for (const int64_t id : {o.x, o.b, o.t})
      if (id && tensors.at(id).is_virtual && !written.contains(id))
        return "a tensor that is read before it is written";
    const Tensor &x = tensors.at(o.x), &y = tensors.at(o.y);
    if (y.by_value || !written.insert(o.y).second) return "a tensor that is written twice";
    std::string fault;
    if (o.kind == Operation::Kind::matmul) fault = fault_of_matmul(x, tensors.at(o.b), y);
    if (o.kind == Operation::Kind::pointwise) fault = fault_of_pointwise(o, *this);
    const Index row{x.dims[0], x.dims[1], x.dims[2], 1};
    if (o.kind == Operation::Kind::reduction && y.dims != row) fault = "a sum of another axis";
    if (!fault.empty()) return fault;
  }
  return "";
}

std::vector<int64_t> Program::operands() const {
  std::vector<int64_t> ids;
  for (const auto& [id, t] : tensors)
    if (!t.is_virtual) ids.push_back(id);
  return ids;
}

void execute(const Program& program, const std::map<int64_t, void*>& pointers) {
  Run(program, pointers);
}

}  // namespace emulated_dnn
