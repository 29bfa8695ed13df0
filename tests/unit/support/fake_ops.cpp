// The ops of the fake builder.
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "tests/unit/support/fake_builder.hpp"

namespace plait::fake {
namespace {

using In = std::vector<const Tensor*>;
using Dims = std::vector<int64_t>;

int64_t count(const Dims& d) {
  int64_t n = 1;
  for (const int64_t e : d) n *= e;
  return n;
}

bool is_float(uint32_t dtype) { return dtype >= PLAIT_F32 && dtype <= PLAIT_F16; }

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Index into an operand of dims `from` for element `i` of dims `to`, by broadcasting.
size_t source(const Dims& from, const Dims& to, int64_t i) {
  int64_t index = 0, stride = 1;
  for (size_t k = 0; k < to.size(); ++k) {
    const size_t axis = to.size() - 1 - k;
    const int64_t at = i % to[axis];
    i /= to[axis];
    if (k >= from.size()) continue;
    const int64_t extent = from[from.size() - 1 - k];
    if (extent != 1) index += at * stride;
    stride *= extent;
  }
  return static_cast<size_t>(index);
}

Dims broadcast(const In& in) {
  Dims out;
  for (const Tensor* t : in) {
    const Dims& d = t->dims;
    if (d.size() > out.size()) out.insert(out.begin(), d.size() - out.size(), 1);
    for (size_t k = 0; k < d.size(); ++k) {
      int64_t& to = out[out.size() - 1 - k];
      const int64_t from = d[d.size() - 1 - k];
      require(from == to || from == 1 || to == 1, "shapes do not broadcast");
      if (to == 1) to = from;
    }
  }
  return out;
}

using Function = std::function<double(const double*)>;

const std::map<std::string, std::pair<size_t, Function>>& elementwise() {
  static const std::map<std::string, std::pair<size_t, Function>> all = {
      {"add", {2, [](const double* x) { return x[0] + x[1]; }}},
      {"sub", {2, [](const double* x) { return x[0] - x[1]; }}},
      {"mul", {2, [](const double* x) { return x[0] * x[1]; }}},
      {"div", {2, [](const double* x) { return x[0] / x[1]; }}},
      {"pow", {2, [](const double* x) { return std::pow(x[0], x[1]); }}},
      {"max", {2, [](const double* x) { return x[0] > x[1] || std::isnan(x[0]) ? x[0] : x[1]; }}},
      {"min", {2, [](const double* x) { return x[0] < x[1] || std::isnan(x[0]) ? x[0] : x[1]; }}},
      {"lt", {2, [](const double* x) { return x[0] < x[1] ? 1.0 : 0.0; }}},
      {"le", {2, [](const double* x) { return x[0] <= x[1] ? 1.0 : 0.0; }}},
      {"eq", {2, [](const double* x) { return x[0] == x[1] ? 1.0 : 0.0; }}},
      {"select", {3, [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }}},
      {"neg", {1, [](const double* x) { return -x[0]; }}},
      {"abs", {1, [](const double* x) { return std::abs(x[0]); }}},
      {"exp", {1, [](const double* x) { return std::exp(x[0]); }}},
      {"log", {1, [](const double* x) { return std::log(x[0]); }}},
      {"sqrt", {1, [](const double* x) { return std::sqrt(x[0]); }}},
      {"rsqrt", {1, [](const double* x) { return 1 / std::sqrt(x[0]); }}},
      {"tanh", {1, [](const double* x) { return std::tanh(x[0]); }}},
      {"erf", {1, [](const double* x) { return std::erf(x[0]); }}},
      {"expm1", {1, [](const double* x) { return std::expm1(x[0]); }}},
      {"log1p", {1, [](const double* x) { return std::log1p(x[0]); }}},
      {"sigmoid", {1, [](const double* x) { return 1 / (1 + std::exp(-x[0])); }}},
      {"relu", {1, [](const double* x) { return x[0] <= 0 ? 0 : x[0]; }}},
      {"sign", {1, [](const double* x) { return static_cast<double>((x[0] > 0) - (x[0] < 0)); }}},
  };
  return all;
}

Tensor map(const Function& f, const In& in) {
  Tensor out;
  out.dims = broadcast(in);
  const int64_t n = count(out.dims);
  std::vector<double> x(in.size());
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < in.size(); ++k) x[k] = in[k]->v[source(in[k]->dims, out.dims, i)];
    out.v.push_back(f(x.data()));
  }
  return out;
}

Tensor reduce_sum(const Tensor& x, const Attrs& a) {
  const bool squares = a.text("kind") == "sum_squares";
  require(squares || a.text("kind") == "sum", "the fake knows sums only");
  Dims kept = x.dims, left;
  for (const int64_t axis : a.ints("axes")) kept.at(static_cast<size_t>(axis)) = 1;
  for (size_t i = 0; i < kept.size(); ++i) {
    bool gone = false;
    for (const int64_t axis : a.ints("axes")) gone = gone || axis == static_cast<int64_t>(i);
    if (!gone) left.push_back(kept[i]);
  }
  Tensor out(kept, {0});
  for (int64_t i = 0; i < count(x.dims); ++i)
    out.v[source(kept, x.dims, i)] +=
        x.v[static_cast<size_t>(i)] * (squares ? x.v[static_cast<size_t>(i)] : 1);
  if (!a.flag("keep")) out.dims = left;
  return out;
}

// The last two axes.
Tensor transposed(const Tensor& x) {
  require(x.dims.size() >= 2, "the fake transposes matrices only");
  Tensor out = x;
  const size_t n = x.dims.size();
  std::swap(out.dims[n - 2], out.dims[n - 1]);
  const auto rows = static_cast<size_t>(x.dims[n - 2]),
             columns = static_cast<size_t>(x.dims[n - 1]);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t in = i % (rows * columns), matrix = i - in;
    out.v[matrix + in % columns * rows + in / columns] = x.v[i];
  }
  return out;
}

Tensor matmul(const In& in, const Attrs& a);

// (E,M,K)·(E,N,K)ᵀ
Tensor matmul_of_each(const Tensor& x, const Tensor& w, const Attrs& a) {
  require(x.dims.size() == 3 && x.dims[0] == w.dims[0], "matmul of stacks");
  const auto part = [](const Tensor& of, int64_t e) {
    const int64_t n = of.dims[1] * of.dims[2];
    return Tensor({of.dims[1], of.dims[2]}, {of.v.begin() + e * n, of.v.begin() + (e + 1) * n});
  };
  Tensor out({x.dims[0], x.dims[1], w.dims[1]}, {0});
  out.v.clear();
  for (int64_t e = 0; e < x.dims[0]; ++e) {
    const Tensor one = part(x, e), other = part(w, e), made = matmul({&one, &other}, a);
    out.v.insert(out.v.end(), made.v.begin(), made.v.end());
  }
  return out;
}

// (…,K)·(N,K)ᵀ [+ bias], (M,K)·(K,N), (E,M,K)·(E,N,K)ᵀ, (E,M,K)·(E,K,N)
Tensor matmul(const In& in, const Attrs& a) {
  if (!a.flag("transpose_b") && !a.flag("transpose_a")) {
    const Tensor b = transposed(*in.at(1));
    const plait_attr flag{"transpose_b", PLAIT_OPT_BOOL, 0, 1, 0, nullptr, nullptr};
    return matmul({in[0], &b}, Attrs(&flag, 1));
  }
  require(a.flag("transpose_b") && !a.flag("transpose_a"), "the fake knows x·Wᵀ only");
  const Tensor &x = *in.at(0), &w = *in.at(1);
  if (w.dims.size() == 3) return matmul_of_each(x, w, a);
  const int64_t k = x.dims.back(), n = w.dims[0], rows = count(x.dims) / k;
  require(w.dims.size() == 2 && w.dims[1] == k && in.size() == (a.flag("bias") ? 3u : 2u),
          "matmul shapes");
  Tensor out;
  out.dims = x.dims;
  out.dims.back() = n;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double sum = a.flag("bias") ? in[2]->v.at(static_cast<size_t>(c)) : 0;
      for (int64_t i = 0; i < k; ++i)
        sum += x.v[static_cast<size_t>(r * k + i)] * w.v[static_cast<size_t>(c * k + i)];
      out.v.push_back(sum);
    }
  return out;
}

// Calls f(row, width, out row) for each row of the last axis.
Tensor by_rows(const Tensor& x, const std::function<void(const double*, size_t, double*)>& f) {
  Tensor out(x.dims, {0});
  const auto width = static_cast<size_t>(x.dims.back());
  for (size_t at = 0; at < x.size(); at += width) f(x.v.data() + at, width, out.v.data() + at);
  return out;
}

double log_sum_exp(const double* x, size_t n) {
  double top = x[0], sum = 0;
  for (size_t i = 0; i < n; ++i) top = std::max(top, x[i]);
  for (size_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

Tensor norm(const In& in, double eps, bool centre) {
  return by_rows(*in[0], [&](const double* x, size_t n, double* y) {
    double mean = 0, square = 0;
    for (size_t i = 0; centre && i < n; ++i) mean += x[i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) / std::sqrt(square + eps) * in.at(1)->v.at(i) +
             (centre ? in.at(2)->v.at(i) : 0);
  });
}

Tensor cross_entropy(const Tensor& x, const Tensor& label, double smoothing) {
  require(!is_float(label.dtype) && Dims(x.dims.begin(), x.dims.end() - 1) == label.dims,
          "label shape or type");
  const auto width = static_cast<size_t>(x.dims.back());
  Tensor out(label.dims, {0});
  for (size_t r = 0; r < label.size(); ++r) {
    const double* row = x.v.data() + r * width;
    double mean = 0;
    for (size_t i = 0; i < width; ++i) mean += row[i] / static_cast<double>(width);
    const double l = label.v[r], lse = log_sum_exp(row, width);
    if (l < 0) continue;
    out.v[r] = l < static_cast<double>(width)
                   ? lse - (1 - smoothing) * row[static_cast<size_t>(l)] - smoothing * mean
                   : std::numeric_limits<double>::quiet_NaN();
  }
  return out;
}

// Rows of `table`, or of the identity matrix if there is none.
Tensor rows_of(const Tensor* table, const Tensor& index, int64_t width) {
  require(!is_float(index.dtype), "index type");
  Tensor out;
  out.dims = index.dims;
  out.dims.push_back(width);
  for (const double i : index.v)
    for (int64_t c = 0; c < width; ++c)
      out.v.push_back(table ? table->v.at(static_cast<size_t>(i) * static_cast<size_t>(width) +
                                          static_cast<size_t>(c))
                            : i == static_cast<double>(c));
  return out;
}

// The range [start, stop) of an axis; `extent` and `inner` describe the axis in `x`.
Tensor slice(const Tensor& x, size_t axis, int64_t start, int64_t stop) {
  require(axis < x.dims.size() && 0 <= start && start <= stop && stop <= x.dims[axis],
          "slice range");
  Tensor out;
  out.dims = x.dims;
  out.dims[axis] = stop - start;
  const int64_t inner =
      count(Dims(x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end()));
  for (int64_t i = 0; i < count(x.dims); ++i) {
    const int64_t at = i / inner % x.dims[axis];
    if (at >= start && at < stop) out.v.push_back(x.v[static_cast<size_t>(i)]);
  }
  return out;
}

Tensor concat(const In& in, size_t axis) {
  Tensor out;
  out.dims = in.at(0)->dims;
  out.dims.at(axis) = 0;
  for (const Tensor* t : in) out.dims[axis] += t->dims[axis];
  const int64_t outer =
      count(Dims(out.dims.begin(), out.dims.begin() + static_cast<std::ptrdiff_t>(axis)));
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor* t : in) {
      const auto n = static_cast<std::ptrdiff_t>(count(t->dims) / outer);
      out.v.insert(out.v.end(), t->v.begin() + o * n, t->v.begin() + (o + 1) * n);
    }
  return out;
}

Tensor recast(const Tensor& x, Dims dims, uint32_t dtype) {
  require(count(dims) == count(x.dims), "reshape to another size");
  return Tensor(std::move(dims), x.v, dtype);
}

}  // namespace

bool run(const std::string& op, const In& in, const Attrs& a, const std::vector<double>& uniform,
         std::vector<Tensor>& out) {
  if (const auto e = elementwise().find(op); e != elementwise().end()) {
    require(in.size() == e->second.first, "number of operands");
    out = {map(e->second.second, in)};
  } else if (op == "reduce") {
    out = {reduce_sum(*in.at(0), a)};
  } else if (op == "reshape") {
    out = {recast(*in.at(0), a.ints("shape"), in[0]->dtype)};
  } else if (op == "cast") {
    out = {recast(*in.at(0), in[0]->dims, static_cast<uint32_t>(a.integer("dtype")))};
  } else if (op == "transpose") {
    out = {transposed(*in.at(0))};
  } else if (op == "matmul") {
    out = {matmul(in, a)};
  } else if (op == "softmax") {
    out = {by_rows(*in.at(0), [](const double* x, size_t n, double* y) {
      for (size_t i = 0; i < n; ++i) y[i] = std::exp(x[i] - log_sum_exp(x, n));
    })};
  } else if (op == "layer_norm" || op == "rms_norm") {
    out = {norm(in, a.real("eps"), op == "layer_norm")};
  } else if (op == "cross_entropy") {
    out = {cross_entropy(*in.at(0), *in.at(1), a.real("label_smoothing"))};
  } else if (op == "one_hot") {
    out = {rows_of(nullptr, *in.at(0), a.integer("depth"))};
  } else if (op == "gather") {
    out = {rows_of(in.at(0), *in.at(1), in[0]->dims.at(1))};
  } else if (op == "slice") {
    out = {slice(*in.at(0), static_cast<size_t>(a.integer("axis")), a.integer("start"),
                 a.integer("stop"))};
  } else if (op == "concat") {
    out = {concat(in, static_cast<size_t>(a.integer("axis")))};
  } else if (op == "random_uniform") {
    out = {Tensor(in.at(0)->dims, {0})};
    for (size_t i = 0; i < out[0].size(); ++i) out[0].v[i] = uniform.at(i % uniform.size());
  } else {
    return false;
  }
  return true;
}

}  // namespace plait::fake
