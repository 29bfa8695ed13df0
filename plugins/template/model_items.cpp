// A layer, a loss, a metric: functions that write ops through a builder when the plan is made. They
// never access data.
#include "plugins/template/template.hpp"

namespace plait::null {
namespace {

// Options declared by an item: type, name, default (NULL: required), help. The engine checks them;
// an item only reads them.
constexpr plait_option kLayerOptions[] = {
    at_least(opt_int("out", nullptr, "features of the output"), 1),
    opt_real("scale", "1.0", "factor of the output"),
};

// in[0]: (B, …) f32. A layer of your own reads options with o.integer("out"), declares parameters
// with b, and returns a value: `return o.real("scale") * in[0];`
Value build_layer(Builder&, const Options&, std::span<const Value>) {
  unimplemented("layer 'template.layer'", "build_layer()");
}

// in[0]: prediction, in[1]: target. Returns {sum over samples of weight * loss, sum of the
// weights}, both scalars.
std::pair<Value, Value> build_loss(Builder&, const Options&, std::span<const Value>) {
  unimplemented("loss 'template.loss'", "build_loss()");
}

// Returns the state of one micro-batch, (2) f32; states are summed, and finish_metric() computes
// the metric from the sum.
Value build_metric(Builder&, const Options&, std::span<const Value>) {
  unimplemented("metric 'template.metric'", "build_metric()");
}
double finish_metric(const double* state) { return state[1] == 0 ? 0 : state[0] / state[1]; }

}  // namespace

void add_model_items(const Host& host) {
  static const auto layer = plait::layer<build_layer>(
      "template.layer", "what the layer does, in one line", kLayerOptions);
  static const auto loss =
      plait::loss<build_loss>("template.loss", "what the loss measures, in one line");
  static const auto metric = plait::metric<build_metric>(
      "template.metric", "what the metric counts, in one line", 2, true, finish_metric);
  host.add(layer);
  host.add(loss);
  host.add(metric);
}

}  // namespace plait::null
