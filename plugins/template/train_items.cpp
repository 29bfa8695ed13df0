// An optimizer, a schedule, a dataset, a PEFT method.
#include "plugins/template/template.hpp"

namespace plait::null {
namespace {

constexpr plait_option kOptimizerOptions[] = {
    below(at_least(opt_real("momentum", "0.0", "fraction of the last update kept"), 0), 1),
};

// One update of N parameters, element by element:
// `return u.parameter - u.learning_rate * u.gradient;`
// b.state() and b.set_state() keep a tensor of the same shape from step to step.
Value build_optimizer(Builder&, const Options&, const Update&) {
  unimplemented("optimizer 'template.optimizer'", "build_optimizer()");
}

constexpr plait_option kScheduleOptions[] = {
    at_least(opt_int("warmup_steps", "0", "steps until the full learning rate"), 0),
};

// factor(step), with steps from 1, multiplies the learning rate. It must be pure: a resumed run
// calls it again.
class Schedule {
 public:
  Schedule(const Options&, int64_t) {
    unimplemented("schedule 'template.schedule'", "class Schedule");
  }
  double factor(int64_t) const noexcept { return 1; }
};

constexpr plait_option kDatasetOptions[] = {
    opt_path("file", nullptr, "file with the samples"),
};

// Samples by index. info() returns their number and fields; read() copies and must not allocate.
class Dataset {
 public:
  Dataset(const Host&, const Options&) {
    unimplemented("dataset 'template.dataset'", "class Dataset");
  }
  void info(plait_dataset_info&) const {}
  void read(std::span<const int64_t>, void* const*) const {}
};

constexpr plait_option kPeftOptions[] = {
    at_least(opt_int("rank", "8", "size of what is learned"), 1),
};

// What is read in place of target.output, for instance
// `return target.output * b.parameter("scale", Shape({b.shape(target.output).last()}),
// Init::constant(1));`
Value wrap(Builder&, const Options&, const PeftTarget&) {
  unimplemented("PEFT method 'template.peft'", "wrap()");
}

// The weight and bias with which the model alone computes the same; leave it out if there are none.
Merged merge(Builder&, const Options&, const PeftTarget&, Merged) {
  unimplemented("PEFT method 'template.peft'", "merge()");
}

// Initial values that follow from the weight; leave it out if there are none.
std::vector<PeftStart> start(Builder&, const Options&, const PeftTarget&) {
  unimplemented("PEFT method 'template.peft'", "start()");
}

}  // namespace

void add_train_items(const Host& host) {
  static const auto optimizer = plait::optimizer<build_optimizer>(
      "template.optimizer", "what the optimizer does, in one line", 0.01, 0, kOptimizerOptions);
  static const auto schedule = plait::schedule<Schedule>(
      "template.schedule", "how the learning rate changes, in one line", kScheduleOptions);
  static const auto dataset = plait::dataset<Dataset>(
      "template.dataset", "what the samples are, in one line", kDatasetOptions);
  static const auto peft = plait::peft<wrap, merge, start>(
      "template.peft", "what the method does, in one line", PLAIT_PEFT_PRODUCT, kPeftOptions);
  host.add(optimizer);
  host.add(schedule);
  host.add(dataset);
  host.add(peft);
}

}  // namespace plait::null
