// A plugin of which one function, $FAULT_HANG, does not return.
#include <plait/plugin.hpp>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace {
using namespace plait;

void hang_in(std::string_view function) {
  const char* named = std::getenv("FAULT_HANG");
  while (named && function == named) pause();
}

Value build_layer(Builder&, const Options&, std::span<const Value> in) {
  hang_in("layer");
  return in[0];
}

Value build_optimizer(Builder&, const Options&, const Update& u) {
  hang_in("optimizer");
  return u.parameter - u.learning_rate * u.gradient;
}

class Factor {
 public:
  Factor(const Options&, int64_t) {}
  double factor(int64_t step) const noexcept {
    if (step == 3) hang_in("factor");
    return 1;
  }
};

// x (4), target (1): zeros.
class Zeros {
 public:
  Zeros(const Host&, const Options&) { hang_in("open"); }
  void info(plait_dataset_info& i) const {
    i.n_samples = 1000;
    i.n_fields = static_cast<uint32_t>(fields_.size());
    i.fields = fields_.data();
  }
  void read(std::span<const int64_t> indices, void* const* outs) const {
    // The steps before it are done, and saved.
    constexpr int kLate = 40;
    if (++reads_ > kLate) hang_in("read");
    std::fill_n(static_cast<float*>(outs[0]), 4 * indices.size(), 0.0f);
    std::fill_n(static_cast<float*>(outs[1]), indices.size(), 0.0f);
  }

 private:
  static plait_field field(const char* name, uint32_t role, int64_t n) {
    plait_field f{};
    f.name = name;
    f.role = role;
    f.shape = Shape({n}).raw();
    return f;
  }
  const std::array<plait_field, 2> fields_{field("x", PLAIT_FIELD_INPUT, 4),
                                           field("target", PLAIT_FIELD_TARGET, 1)};
  mutable std::atomic<int> reads_{0};
};
}  // namespace

PLAIT_PLUGIN("fault-hangs", "1.0.0", "Apache-2.0", "hangs") {
  static const auto hangs = layer<build_layer>("hang_layer", "passes its input on");
  static const auto sgd = optimizer<build_optimizer>("hang_sgd", "gradient descent", 0.01, 0);
  static const auto rate = schedule<Factor>("hang_rate", "a constant rate");
  static const auto zeros = dataset<Zeros>("hang_zeros", "zeros");
  host.add(hangs);
  host.add(sgd);
  host.add(rate);
  host.add(zeros);
}
