#include "tests/unit/session/counting_plugin.hpp"

#include <algorithm>
#include <mutex>
#include <plait/plugin.hpp>

namespace {

using plait::test::counts;
using plait::test::Counts;
using plait::test::this_rank;
std::mutex counts_mutex;

void count(int rank, int Counts::*what) {
  const std::lock_guard lock(counts_mutex);
  ++(counts[rank].*what);
}

// Samples (6) and labels of 4 classes.
class Counted {
 public:
  Counted(const plait::Host&, const plait::Options&) { count(rank_, &Counts::opened); }
  ~Counted() { count(rank_, &Counts::closed); }
  void info(plait_dataset_info& out) const {
    out.n_samples = 60;
    out.fields = kFields;
    out.n_fields = 2;
    out.fingerprint = 7;
  }
  void read(std::span<const int64_t> indices, void* const* outs) const {
    count(rank_, &Counts::read);
    for (size_t i = 0; i < indices.size(); ++i) {
      std::fill_n(static_cast<float*>(outs[0]) + 6 * i, 6, static_cast<float>(indices[i] % 7));
      static_cast<int32_t*>(outs[1])[i] = static_cast<int32_t>(indices[i] % 4);
    }
  }

 protected:
  Counted() { count(rank_, &Counts::described); }

 private:
  static constexpr plait_field kFields[] = {{"x", PLAIT_FIELD_INPUT, 0, {PLAIT_F32, 1, {6}}},
                                            {"label", PLAIT_FIELD_TARGET, 0, {PLAIT_I32, 0, {}}}};
  const int rank_ = this_rank;
};

class Described : public Counted {
 public:
  using Counted::Counted;
  Described(const plait::Host&, const plait::Options&, plait::MetadataOnly) {}
};

plait::Value build_sum(plait::Builder&, const plait::Options&, std::span<const plait::Value> in) {
  return in[0] + in[1];
}

plait_error* open_plugin(const plait_host* h, const char*, void** state) {
  *state = nullptr;
  return plait::detail::guard(plait::detail::maker(h), [&] {
    static const auto counted = plait::dataset<Counted>("counted", "counts");
    static const auto described = plait::dataset<Described>("described", "counts");
    static const auto sum = plait::layer<build_sum>("test.sum", "adds", {}, 2, 2);
    const plait::Host host(h);
    host.add(sum);
    host.add(counted);
    host.add(described);
  });
}
}  // namespace

const plait_plugin plait::test::kCountingPlugin{
    sizeof(plait_plugin), PLAIT_ABI_VERSION, 0,           "counting",  "1.0.0",
    "Apache-2.0",         "counts",          open_plugin, [](void*) {}};
