// plait/plugin/build.hpp - writing ops: values with arithmetic, shapes, and the builder.
#pragma once

#include <plait/build.h>
#include <plait/plugin/error.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plait {
inline namespace authoring {

// A value of the program under construction, with arithmetic. Valid within the build call that
// created it.
struct Value {
  plait_builder* b = nullptr;
  plait_value id = 0;
  explicit operator bool() const { return id != 0; }
};

// Attributes of an op. Texts and lists are borrowed until the op is written.
inline plait_attr attr(const char* name, bool v) {
  return {name, PLAIT_OPT_BOOL, 0, v, 0, nullptr, nullptr};
}
inline plait_attr attr(const char* name, int64_t v) {
  return {name, PLAIT_OPT_INT, 0, v, 0, nullptr, nullptr};
}
inline plait_attr attr(const char* name, int v) { return attr(name, static_cast<int64_t>(v)); }
inline plait_attr attr(const char* name, double v) {
  return {name, PLAIT_OPT_REAL, 0, 0, v, nullptr, nullptr};
}
inline plait_attr attr(const char* name, const char* v) {
  return {name, PLAIT_OPT_TEXT, 0, 0, 0, v, nullptr};
}
inline plait_attr attr(const char* name, std::span<const int64_t> v) {
  return {name, PLAIT_OPT_INTS, static_cast<uint32_t>(v.size()), 0, 0, nullptr, v.data()};
}

constexpr const char* type_name(uint32_t dtype) {
  constexpr const char* kNames[] = {"?",   "f32", "f64",  "bf16",   "f16",   "i32",
                                    "i64", "u8",  "bool", "f8e4m3", "f8e5m2"};
  return dtype < std::size(kNames) ? kNames[dtype] : "?";
}

// Element type and extents of a value.
struct Shape {
  uint32_t dtype = PLAIT_F32;
  std::vector<int64_t> dims;
  Shape() = default;
  explicit Shape(std::vector<int64_t> d, uint32_t type = PLAIT_F32)
      : dtype(type), dims(std::move(d)) {}
  explicit Shape(std::initializer_list<int64_t> d, uint32_t type = PLAIT_F32)
      : dtype(type), dims(d) {}
  explicit Shape(const plait_shape& s) : dtype(s.dtype), dims(s.dims, s.dims + s.ndim) {}
  size_t ndim() const { return dims.size(); }
  int64_t last() const { return dims.empty() ? 1 : dims.back(); }
  // Product of the extents from axis `first` on.
  int64_t count(size_t first = 0) const {
    int64_t n = 1;
    for (size_t i = first; i < dims.size(); ++i) n *= dims[i];
    return n;
  }
  bool is_float() const { return dtype >= PLAIT_F32 && dtype <= PLAIT_F16; }
  bool is_integer() const { return dtype == PLAIT_I32 || dtype == PLAIT_I64 || dtype == PLAIT_U8; }
  plait_shape raw() const {
    if (dims.size() > PLAIT_MAX_NDIM) fail(PLAIT_ERR_INVALID, "[shape] more than 8 dimensions");
    plait_shape s{dtype, static_cast<uint32_t>(dims.size()), {}};
    for (size_t i = 0; i < dims.size(); ++i) s.dims[i] = dims[i];
    return s;
  }
  // "(32, 10)"; typed_text() adds the type: "f32 (32, 10)".
  std::string text() const {
    std::string t = "(";
    for (size_t i = 0; i < dims.size(); ++i) t += (i ? ", " : "") + std::to_string(dims[i]);
    return t + ")";
  }
  std::string typed_text() const { return std::string(type_name(dtype)) + " " + text(); }
};

// How a parameter is initialised; see PLAIT_INIT_*.
struct Init {
  uint32_t kind = PLAIT_INIT_CONSTANT;
  double a = 0, b = 0;
  static Init constant(double v) { return {PLAIT_INIT_CONSTANT, v, 0}; }
  static Init uniform(double low, double high) { return {PLAIT_INIT_UNIFORM, low, high}; }
  static Init normal(double mean, double deviation) { return {PLAIT_INIT_NORMAL, mean, deviation}; }
};

// The context of one build call. Its functions throw plait::Error; build.h lists the codes.
class Builder {
 public:
  explicit Builder(plait_builder* b) : b_(b) {}
  plait_builder* raw() const { return b_; }

  std::vector<Value> ops(const char* name, std::initializer_list<Value> in,
                         std::initializer_list<plait_attr> attrs, uint32_t n_out) const {
    return ops(name, std::span(in.begin(), in.size()), std::span(attrs.begin(), attrs.size()),
               n_out);
  }
  std::vector<Value> ops(const char* name, std::span<const Value> in,
                         std::span<const plait_attr> attrs, uint32_t n_out) const {
    std::vector<plait_value> ids(in.size()), outs(n_out);
    for (size_t i = 0; i < in.size(); ++i) ids[i] = in[i].id;
    check(b_->table->op(b_, name, ids.data(), static_cast<uint32_t>(ids.size()), attrs.data(),
                        static_cast<uint32_t>(attrs.size()), outs.data(), n_out));
    std::vector<Value> values;
    for (plait_value v : outs) values.push_back({b_, v});
    return values;
  }
  Value op(const char* name, std::initializer_list<Value> in,
           std::initializer_list<plait_attr> attrs = {}) const {
    return ops(name, in, attrs, 1)[0];
  }

  // A scalar; element-wise ops take it in the type of their other floats.
  Value constant(double v) const {
    Value out{b_, 0};
    check(b_->table->constant(b_, v, &out.id));
    return out;
  }
  Shape shape(Value v) const {
    plait_shape s{};
    check(b_->table->shape(b_, v.id, &s));
    return Shape(s);
  }
  // `shard_dim`: the dimension that tensor parallelism may shard; -1: replicated. `shard_unit`:
  // indices along it that stay together; if the ranks do not divide their number, it is replicated.
  // `flags`: sum of PLAIT_REQUEST_*.
  Value parameter(const char* name, const Shape& shape, Init init, int32_t shard_dim = -1,
                  int64_t shard_unit = 1, uint32_t flags = 0) const {
    plait_parameter p{sizeof(plait_parameter),
                      name,
                      shape.raw(),
                      init.kind,
                      shard_dim,
                      init.a,
                      init.b,
                      shard_unit,
                      flags,
                      0};
    Value out{b_, 0};
    check(b_->table->parameter(b_, &p, &out.id));
    return out;
  }
  Value named(const char* name) const {
    Value out{b_, 0};
    check(b_->table->named(b_, name, &out.id));
    return out;
  }
  Value state(const char* name, double initial = 0) const {
    Value out{b_, 0};
    check(b_->table->state(b_, name, initial, &out.id));
    return out;
  }
  // The state of one parameter with a shape of its own, for an optimizer with PLAIT_SCOPE_TENSOR.
  // parameter_dims: for each dimension of `shape` the dimension of the parameter that it runs
  // along, or -1.
  Value tensor_state(const char* name, const Shape& shape, std::span<const int32_t> parameter_dims,
                     double initial = 0) const {
    if (parameter_dims.size() != shape.ndim())
      fail(PLAIT_ERR_INVALID, std::string("[state] '") + name + "' has " +
                                  std::to_string(shape.ndim()) + " dimensions and " +
                                  std::to_string(parameter_dims.size()) + " parameter_dims");
    if (b_->table->struct_size < offsetof(plait_build_table, tensor_state) + sizeof(void*))
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[state] this engine is older than states with a shape of their own; use a newer one");
    plait_state s{sizeof(plait_state), name, shape.raw(), initial, {}};
    for (size_t i = 0; i < parameter_dims.size(); ++i) s.parameter_dims[i] = parameter_dims[i];
    Value out{b_, 0};
    check(b_->table->tensor_state(b_, &s, &out.id));
    return out;
  }
  // Adds factor * sum / weight to the loss: see plait_build_table.add_loss.
  void add_loss(const char* name, double factor, Value sum, Value weight) const {
    if (b_->table->struct_size < offsetof(plait_build_table, add_loss) + sizeof(void*))
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[add_loss] this engine is older than terms of the loss; use a newer one");
    check(b_->table->add_loss(b_, name, factor, sum.id, weight.id));
  }
  void set_state(const char* name, Value v) const { check(b_->table->set_state(b_, name, v.id)); }
  bool training() const { return b_->table->training(b_) != 0; }
  std::string scope() const { return b_->table->scope(b_); }

  // Sum over the listed axes; they remain with extent 1 unless `keep` is false.
  Value sum(Value x, std::vector<int64_t> axes, bool keep = true) const {
    return op(
        "reduce", {x},
        {attr("kind", "sum"), attr("axes", std::span<const int64_t>(axes)), attr("keep", keep)});
  }
  // Sum over all axes: a scalar.
  Value sum(Value x) const {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < shape(x).ndim(); ++i) axes.push_back(static_cast<int64_t>(i));
    return axes.empty() ? x : sum(x, axes, false);
  }
  // Sum of the squares of all elements: a scalar.
  Value sum_squares(Value x) const {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < shape(x).ndim(); ++i) axes.push_back(static_cast<int64_t>(i));
    return op("reduce", {x},
              {attr("kind", "sum_squares"), attr("axes", std::span<const int64_t>(axes)),
               attr("keep", false)});
  }
  // The product of two matrices, either of which may be stored transposed.
  Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false) const {
    return op("matmul", {a, b},
              {attr("transpose_a", transpose_a), attr("transpose_b", transpose_b)});
  }
  Value transpose(Value x, std::vector<int64_t> perm) const {
    return op("transpose", {x}, {attr("perm", std::span<const int64_t>(perm))});
  }
  Value reshape(Value x, std::vector<int64_t> dims) const {
    return op("reshape", {x}, {attr("shape", std::span<const int64_t>(dims))});
  }
  Value concat(std::span<const Value> parts, int64_t axis) const {
    const plait_attr a = attr("axis", axis);
    return ops("concat", parts, std::span(&a, 1), 1)[0];
  }
  Value cast(Value x, uint32_t dtype) const {
    return op("cast", {x}, {attr("dtype", static_cast<int64_t>(dtype))});
  }
  // Casts x, or returns x itself if it already has that type.
  Value as(Value x, uint32_t dtype) const { return shape(x).dtype == dtype ? x : cast(x, dtype); }
  Value select(Value condition, Value yes, Value no) const {
    return op("select", {condition, yes, no});
  }

 private:
  plait_builder* b_;
};

namespace detail {
inline Value call(const char* op, std::initializer_list<Value> in) {
  return Builder(in.begin()->b).op(op, in);
}
inline Value lift(Value like, double v) { return Builder(like.b).constant(v); }
}  // namespace detail

#define PLAIT_BINARY(name, op)                                                               \
  inline Value name(Value a, Value b) { return detail::call(op, {a, b}); }                   \
  inline Value name(Value a, double b) { return detail::call(op, {a, detail::lift(a, b)}); } \
  inline Value name(double a, Value b) { return detail::call(op, {detail::lift(b, a), b}); }
PLAIT_BINARY(operator+, "add")
PLAIT_BINARY(operator-, "sub")
PLAIT_BINARY(operator*, "mul")
PLAIT_BINARY(operator/, "div")
PLAIT_BINARY(operator<, "lt")
PLAIT_BINARY(operator<=, "le")
PLAIT_BINARY(eq, "eq")
PLAIT_BINARY(max, "max")
PLAIT_BINARY(min, "min")
PLAIT_BINARY(pow, "pow")
#undef PLAIT_BINARY
inline Value operator>(Value a, Value b) { return b < a; }
inline Value operator>(Value a, double b) { return b < a; }
inline Value operator>=(Value a, Value b) { return b <= a; }
inline Value operator>=(Value a, double b) { return b <= a; }
inline Value operator-(Value a) { return detail::call("neg", {a}); }
inline Value select(Value condition, Value yes, Value no) {
  return detail::call("select", {condition, yes, no});
}
#define PLAIT_UNARY(name) \
  inline Value name(Value a) { return detail::call(#name, {a}); }
PLAIT_UNARY(abs)
PLAIT_UNARY(exp)
PLAIT_UNARY(log)
PLAIT_UNARY(sqrt)
PLAIT_UNARY(rsqrt)
PLAIT_UNARY(recip)
PLAIT_UNARY(tanh)
PLAIT_UNARY(sigmoid)
PLAIT_UNARY(erf)
PLAIT_UNARY(relu)
PLAIT_UNARY(floor)
PLAIT_UNARY(sign)
PLAIT_UNARY(expm1)
PLAIT_UNARY(log1p)
PLAIT_UNARY(is_finite)
#undef PLAIT_UNARY

}  // namespace authoring
}  // namespace plait
