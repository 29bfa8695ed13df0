#include "engine/config/sizes.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace plait::config {
namespace {

struct Axis {
  const char* name;
  int64_t TopologyConfig::*size;
};
constexpr std::array<Axis, 3> kAxes = {{{"pipeline", &TopologyConfig::pipeline},
                                        {"data", &TopologyConfig::data},
                                        {"tensor", &TopologyConfig::tensor}}};

OptionSet* section_of(Experiment& e, std::string_view path) {
  for (auto& [name, set] : e.sections)
    if (name == path) return &set;
  return nullptr;
}

Origin origin_of(const Experiment& e, std::string_view path, const char* key) {
  for (const auto& [name, set] : e.sections)
    if (name == path) return set.origin(key);
  return Origin::none();
}

// The value counts as given: a checkpoint must tell it apart from that of another topology.
void derive_global(Experiment& e, Problems& problems) {
  BatchConfig& b = e.batch;
  if (b.global != 0 || b.micro <= 0 || b.accumulation <= 0) return;
  int64_t product = 0;
  if (__builtin_mul_overflow(b.micro, b.accumulation, &product) ||
      __builtin_mul_overflow(product, e.topology.data, &product))
    return problems.add(origin_of(e, "batch", "micro"), "batch.micro",
                        "micro * accumulation * data is beyond 64 bits", "lower one of them");
  b.global = product;
  if (OptionSet* batch = section_of(e, "batch")) batch->set_int("global", product, Origin::none());
}

}  // namespace

bool has_open_axis(const TopologyConfig& t) {
  return std::any_of(kAxes.begin(), kAxes.end(), [&](const Axis& a) { return t.*a.size == 0; });
}

void check_open_axes(const Experiment& e, Problems& problems) {
  const Axis* first = nullptr;
  for (const Axis& axis : kAxes) {
    if (e.topology.*axis.size != 0) continue;
    if (first)
      problems.add(origin_of(e, "topology", axis.name), std::string("topology.") + axis.name,
                   std::string("found 0, but only one axis can follow from the number of ranks, "
                               "and topology.") +
                       first->name + " is 0, too",
                   "give one of them its size");
    first = first ? first : &axis;
  }
}

bool close_axis(Experiment& e, int64_t ranks, Problems& problems) {
  TopologyConfig& t = e.topology;
  for (const Axis& axis : kAxes) {
    if (t.*axis.size != 0) continue;
    int64_t others = 1;
    std::string text;
    for (const Axis& other : kAxes) {
      if (other.name == axis.name) continue;
      const int64_t size = std::max<int64_t>(1, t.*other.size);
      if (__builtin_mul_overflow(others, size, &others)) others = INT64_MAX;
      text +=
          (text.empty() ? "" : " and ") + std::string(other.name) + " = " + std::to_string(size);
    }
    const bool fits = ranks == 0 || ranks % others == 0;
    t.*axis.size = fits ? std::max<int64_t>(1, ranks / others) : 1;
    if (OptionSet* set = section_of(e, "topology"))
      set->set_int(axis.name, t.*axis.size, set->origin(axis.name));
    if (fits) return true;
    const int64_t below = ranks / others * others;
    problems.add(origin_of(e, "topology", axis.name), std::string("topology.") + axis.name,
                 "is to follow from the number of ranks, but " + text + " make " +
                     std::to_string(others) + ", which does not divide the " +
                     std::to_string(ranks) +
                     (ranks == 1 ? " rank that was started" : " ranks that were started"),
                 "start " + (below > 0 ? std::to_string(below) + " or " : "") +
                     std::to_string(below + others) + ", or change the other axes");
    return false;
  }
  return true;
}

void derive_batch(Experiment& e, Problems& problems) {
  const int64_t replicas = e.topology.data;
  BatchConfig& batch = e.batch;
  if (replicas <= 0) return;
  // Nothing is fed but what is generated.
  if (e.generate.only && batch.global == 0) batch.global = replicas;
  derive_global(e, problems);
  if (batch.global <= 0 || batch.global % replicas != 0) return;
  const int64_t share = batch.global / replicas, passes = std::max<int64_t>(1, batch.accumulation);
  if (batch.micro == 0 && share % passes == 0) batch.micro = share / passes;
  if (batch.micro == 0 || share % batch.micro != 0) return;
  if (batch.accumulation == 0) batch.accumulation = share / batch.micro;
  if (batch.eval == 0) batch.eval = batch.micro * replicas;
}

}  // namespace plait::config
