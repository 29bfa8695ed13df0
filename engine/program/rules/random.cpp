// Counter-based random numbers (Philox4x32-10): element e of a sample depends on (seed, stream, step, sample, e) alone.
#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

// Input: the counter, i64 (2): step, and index of the first sample of this micro-batch within the global batch.
std::vector<plait_shape> infer(const Application& a) {
  a.arity(1, 1);
  if (a.in[0].dtype != PLAIT_I64 || elements(a.in[0]) != 2)
    fail_invalid(a.where() + " counter must be i64 (2), found " + text(a.in[0]));
  const std::string kind = a.attrs.text("kind", "uniform");
  if (kind != "uniform" && kind != "normal")
    fail_invalid(a.where() + " kind '" + kind + "' is neither uniform nor normal");
  return {make_shape(a.float_type, a.attrs.ints("shape"))};
}

double flops(const Graph&, const Op&) { return 0; }

}  // namespace

extern const Rule kRandom;
const Rule kRandom{"random", infer, nullptr, flops};

}  // namespace plait::program
