#include "engine/checkpoint/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "engine/base/error.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/tensor_stream.hpp"
#include "engine/checkpoint/weights.hpp"
#include "kit/dtype.hpp"
#include "kit/half.hpp"

namespace plait::checkpoint {
namespace {

// Numbers of one type, from bytes.
struct F64 {
  static constexpr size_t kBytes = 8;
  static double load(const std::byte* p) {
    double v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
};
struct F32 {
  static constexpr size_t kBytes = 4;
  static double load(const std::byte* p) {
    float v;
    std::memcpy(&v, p, sizeof v);
    return static_cast<double>(v);
  }
};
template <float (*From)(uint16_t)>
struct Half {
  static constexpr size_t kBytes = 2;
  static double load(const std::byte* p) {
    uint16_t v;
    std::memcpy(&v, p, sizeof v);
    return static_cast<double>(From(v));
  }
};
using Bf16 = Half<kit::from_bf16>;
using F16 = Half<kit::from_f16>;
template <class T>
struct Whole {
  static constexpr size_t kBytes = sizeof(T);
  static double load(const std::byte* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return static_cast<double>(v);
  }
};

// Adds the differences of n elements, the first of which has index `first`.
template <class A, class B>
void compare_piece(const std::byte* a, const std::byte* b, int64_t first, int64_t n,
                   ChangedTensor& to) {
  constexpr bool kSame = std::is_same_v<A, B>;
  if (kSame && std::memcmp(a, b, A::kBytes * static_cast<size_t>(n)) == 0) return;
  for (int64_t i = 0; i < n; ++i, a += A::kBytes, b += B::kBytes) {
    if (kSame && std::memcmp(a, b, A::kBytes) == 0) continue;
    const double x = A::load(a), y = B::load(b);
    if (!kSame && (x == y || (std::isnan(x) && std::isnan(y)))) continue;
    ++to.different;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      ++to.not_finite;
      continue;
    }
    const double absolute = std::abs(x - y), larger = std::max(std::abs(x), std::abs(y));
    if (to.at < 0 || absolute > to.max_abs) to.at = first + i;
    to.max_abs = std::max(to.max_abs, absolute);
    if (larger > 0) to.max_rel = std::max(to.max_rel, absolute / larger);
  }
}

using ComparePiece = void (*)(const std::byte*, const std::byte*, int64_t, int64_t, ChangedTensor&);

template <class A>
ComparePiece with_float(uint32_t b) {
  switch (b) {
    case PLAIT_F64:
      return compare_piece<A, F64>;
    case PLAIT_F32:
      return compare_piece<A, F32>;
    case PLAIT_BF16:
      return compare_piece<A, Bf16>;
    default:
      return compare_piece<A, F16>;
  }
}

// NULL if elements of these types are not compared.
ComparePiece comparer(uint32_t a, uint32_t b) {
  if (kit::is_float(a) && kit::is_float(b)) switch (a) {
      case PLAIT_F64:
        return with_float<F64>(b);
      case PLAIT_F32:
        return with_float<F32>(b);
      case PLAIT_BF16:
        return with_float<Bf16>(b);
      default:
        return with_float<F16>(b);
    }
  if (a != b) return nullptr;
  switch (a) {
    case PLAIT_I64:
      return compare_piece<Whole<int64_t>, Whole<int64_t>>;
    case PLAIT_I32:
      return compare_piece<Whole<int32_t>, Whole<int32_t>>;
    default:
      return dtype_bytes(a) == 1 ? compare_piece<Whole<uint8_t>, Whole<uint8_t>> : nullptr;
  }
}

class TensorComparer {
 public:
  TensorComparer(const Checkpoint& a, const Checkpoint& b, const Progress& progress)
      : a_(a), b_(b), progress_(progress) {}

  ChangedTensor compare(const TensorRecord& a, const TensorRecord& b) const {
    ChangedTensor t;
    t.a = &a;
    t.b = &b;
    const ComparePiece piece = a.shape == b.shape ? comparer(a.dtype, b.dtype) : nullptr;
    if (!piece) return t;
    t.compared = true;
    TensorStream of_a(a_, a), of_b(b_, b);
    for (;;) {
      const auto x = of_a.next(), y = of_b.next();
      if (x.empty()) return t;
      const auto n = static_cast<int64_t>(x.size() / dtype_bytes(a.dtype));
      piece(x.data(), y.data(), of_a.position(), n, t);
      t.elements += static_cast<uint64_t>(n);
      if (progress_) progress_(x.size() + y.size());
    }
  }

 private:
  const Checkpoint &a_, &b_;
  const Progress& progress_;
};

bool is_wanted(const TensorRecord& t, Compared what) {
  return what != Compared::kParameters || is_parameter(t);
}

using Values = std::map<std::string, std::string>;

// Numbers in the hexadecimal form, which keeps all bits, in the decimal one that does, too; other
// text as it is.
std::string readable(const std::string& text) {
  std::vector<std::string> words = split(text, ' ');
  for (std::string& word : words) {
    char* end = nullptr;
    const double v = std::strtod(word.c_str(), &end);
    const size_t sign = word.starts_with('-') ? 1 : 0;
    if (word.substr(sign).starts_with("0x") && *end == '\0') word = real_text(v);
  }
  return join(words, " ");
}

// What a run continues with, by name.
Values state_values(const RunState& s) {
  Values all = {{"step", std::to_string(s.step)},
                {"samples", std::to_string(s.samples)},
                {"topology.data", std::to_string(s.world.data)},
                {"topology.tensor", std::to_string(s.world.tensor)},
                {"topology.pipeline", std::to_string(s.world.pipeline)},
                {"seed", std::to_string(s.seed)},
                {"random step", std::to_string(s.random_step)}};
  for (const auto& [name, at] : s.cursors) all["position in " + name] = std::to_string(at);
  const JsonValue extra = parse_json(s.extra);
  for (size_t i = 0; i < extra.items.size(); ++i) {
    const JsonValue& v = extra.items[i];
    all[extra.keys[i]] = v.is(JsonValue::Kind::kText) ? readable(v.text) : json_text(v);
  }
  return all;
}

// Calls f(a, b) for each name that either has; NULL for the one that does not.
template <class F>
void each_pair(const Checkpoint& a, const Checkpoint& b, Compared what, const F& f) {
  for (const TensorRecord& t : a.tensors())
    if (is_wanted(t, what)) f(&t, b.find(t.name));
  for (const TensorRecord& t : b.tensors())
    if (is_wanted(t, what) && !a.find(t.name)) f(static_cast<const TensorRecord*>(nullptr), &t);
}

}  // namespace

void changed_values(const Values& a, const Values& b, std::vector<ChangedValue>& to) {
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other == b.end())
      to.push_back({key, value, ""});
    else if (other->second != value)
      to.push_back({key, value, other->second});
  }
  for (const auto& [key, value] : b)
    if (!a.contains(key)) to.push_back({key, "", value});
}

uint64_t bytes_to_compare(const Checkpoint& a, const Checkpoint& b, Compared what) {
  uint64_t sum = 0;
  each_pair(a, b, what, [&](const TensorRecord* x, const TensorRecord* y) {
    if (x && y && x->shape == y->shape && comparer(x->dtype, y->dtype))
      sum += tensor_bytes(*x) + tensor_bytes(*y);
  });
  return sum;
}

Comparison compare_checkpoints(const Checkpoint& a, const Checkpoint& b, Compared what,
                               const Progress& progress) {
  Comparison c;
  if (what == Compared::kEverything) {
    changed_values(state_values(a.state()), state_values(b.state()), c.state);
    changed_values(a.state().settings, b.state().settings, c.settings);
  }
  const TensorComparer tensors(a, b, progress);
  each_pair(a, b, what, [&](const TensorRecord* x, const TensorRecord* y) {
    if (!y) return c.only_a.push_back(x);
    if (!x) return c.only_b.push_back(y);
    const ChangedTensor t = tensors.compare(*x, *y);
    ++c.tensors;
    c.elements += t.elements;
    if (!t.compared || t.different > 0 || x->dtype != y->dtype) c.changed.push_back(t);
  });
  return c;
}

}  // namespace plait::checkpoint
