// plait/plugin/items.hpp - items made of C++ functions and classes, and the host that they are
// added to.
#pragma once

#include <plait/comm.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/format.h>
#include <plait/layer.h>
#include <plait/op.h>
#include <plait/optimizer.h>
#include <plait/peft.h>
#include <plait/plugin.h>
#include <plait/tokenizer.h>
#include <plait/plugin/build.hpp>
#include <plait/plugin/options.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plait {
inline namespace authoring {

// The inputs of an optimizer's rule; see plait_update.
struct Update {
  Value parameter, gradient, learning_rate, schedule_factor, step, weight_decay;
  uint32_t scope = PLAIT_SCOPE_ELEMENT;
  const plait_parameter_info* info = nullptr;  // with PLAIT_SCOPE_TENSOR
};

using BuildOne = Value (*)(Builder&, const Options&, std::span<const Value>);
using BuildMany = std::vector<Value> (*)(Builder&, const Options&, std::span<const Value>);
// Returns {sum of weight * loss, sum of weights}.
using BuildLoss = std::pair<Value, Value> (*)(Builder&, const Options&, std::span<const Value>);
using BuildUpdate = Value (*)(Builder&, const Options&, const Update&);
// Returns the PLAIT_SCOPE_* of a parameter's rule.
using ScopeOf = uint32_t (*)(const Options&, const plait_parameter_info&);

namespace detail {
inline std::vector<Value> wrap(plait_builder* b, const plait_value* in, uint32_t n) {
  std::vector<Value> values(n);
  for (uint32_t i = 0; i < n; ++i) values[i] = {b, in[i]};
  return values;
}
template <BuildOne Build>
plait_error* build_one(plait_builder* b, const plait_options* o, const plait_value* in, uint32_t n,
                       plait_value* out) {
  return guard(maker(b), [&] {
    Builder builder(b);
    *out = Build(builder, Options(o), wrap(b, in, n)).id;
  });
}
template <BuildMany Build>
plait_error* build_many(plait_builder* b, const plait_options* o, const plait_value* in, uint32_t n,
                        plait_value* out) {
  return guard(maker(b), [&] {
    Builder builder(b);
    const std::vector<Value> values = Build(builder, Options(o), wrap(b, in, n));
    // The engine compares their number with what the item declares; it has room for so many more.
    constexpr size_t kRoom = 1024;
    if (values.size() > kRoom)
      fail(PLAIT_ERR_PLUGIN, "build() returned " + std::to_string(values.size()) +
                                 " values, at most " + std::to_string(kRoom) + " are possible");
    for (size_t i = 0; i < values.size(); ++i) out[i] = values[i].id;
  });
}
template <BuildLoss Build>
plait_error* build_loss(plait_builder* b, const plait_options* o, const plait_value* in, uint32_t n,
                        plait_value* out) {
  return guard(maker(b), [&] {
    Builder builder(b);
    auto [sum, weight] = Build(builder, Options(o), wrap(b, in, n));
    out[0] = sum.id;
    out[1] = weight.id;
  });
}
template <BuildUpdate Build>
plait_error* build_update(plait_builder* b, const plait_options* o, const plait_update* u,
                          plait_value* out) {
  return guard(maker(b), [&] {
    Builder builder(b);
    Update update{{b, u->parameter},       {b, u->gradient}, {b, u->learning_rate},
                  {b, u->schedule_factor}, {b, u->step},     {b, u->weight_decay}};
    if (u->struct_size >= offsetof(plait_update, info) + sizeof(void*)) {
      update.scope = u->scope;
      update.info = u->info;
    }
    *out = Build(builder, Options(o), update).id;
  });
}
template <ScopeOf Scope>
plait_error* scope_of(const plait_host* h, const plait_options* o, const plait_parameter_info* p,
                      uint32_t* scope) {
  return guard(maker(h), [&] { *scope = Scope(Options(o), *p); });
}
constexpr uint32_t count(std::span<const plait_option> o) {
  return static_cast<uint32_t>(o.size());
}
}  // namespace detail

// A layer with one output and min_inputs to max_inputs inputs (max_inputs UINT32_MAX: no limit).
template <BuildOne Build>
plait_layer_item layer(const char* name, const char* help,
                       std::span<const plait_option> options = {}, uint32_t min_inputs = 1,
                       uint32_t max_inputs = 1) {
  return {sizeof(plait_layer_item), name,       help,       options.data(),
          detail::count(options),   min_inputs, max_inputs, 1,
          detail::build_one<Build>};
}
// A layer with n_outputs outputs; Build returns exactly that many values.
template <BuildMany Build>
plait_layer_item layer_many(const char* name, const char* help, uint32_t n_outputs,
                            std::span<const plait_option> options = {}, uint32_t min_inputs = 1,
                            uint32_t max_inputs = 1) {
  return {sizeof(plait_layer_item), name,       help,       options.data(),
          detail::count(options),   min_inputs, max_inputs, n_outputs,
          detail::build_many<Build>};
}
template <BuildLoss Build>
plait_loss_item loss(const char* name, const char* help, std::span<const plait_option> options = {},
                     uint32_t min_inputs = 2, uint32_t max_inputs = 2) {
  return {sizeof(plait_loss_item),  name,       help,       options.data(),
          detail::count(options),   min_inputs, max_inputs, 0,
          detail::build_loss<Build>};
}
template <BuildOne Build>
plait_metric_item metric(const char* name, const char* help, uint32_t n_state,
                         bool higher_is_better, double (*finish)(const double*),
                         std::span<const plait_option> options = {}, uint32_t min_inputs = 2,
                         uint32_t max_inputs = 2) {
  return {sizeof(plait_metric_item),
          name,
          help,
          options.data(),
          detail::count(options),
          min_inputs,
          max_inputs,
          n_state,
          higher_is_better,
          0,
          detail::build_one<Build>,
          finish};
}
// `learning_rate` and `weight_decay` are the defaults of the engine's keys of the same names.
template <BuildUpdate Build>
plait_optimizer_item optimizer(const char* name, const char* help, double learning_rate,
                               double weight_decay, std::span<const plait_option> options = {}) {
  return {sizeof(plait_optimizer_item), name,   help,          options.data(),
          detail::count(options),       0,      learning_rate, weight_decay,
          detail::build_update<Build>,  nullptr};
}
// The same where Scope tells which parameters Build wants whole.
template <BuildUpdate Build, ScopeOf Scope>
plait_optimizer_item optimizer(const char* name, const char* help, double learning_rate,
                               double weight_decay, std::span<const plait_option> options = {}) {
  plait_optimizer_item item = optimizer<Build>(name, help, learning_rate, weight_decay, options);
  item.scope = detail::scope_of<Scope>;
  return item;
}

// A schedule made of a class S: S(const Options&, int64_t total_steps) and
// double factor(int64_t step) const noexcept.
template <class S>
plait_schedule_item schedule(const char* name, const char* help,
                             std::span<const plait_option> options = {}) {
  return {
      sizeof(plait_schedule_item),
      name,
      help,
      options.data(),
      detail::count(options),
      0,
      [](const plait_host* h, const plait_options* o, int64_t total, void** out) -> plait_error* {
        return detail::guard(detail::maker(h), [&] { *out = new S(Options(o), total); });
      },
      [](const void* s, int64_t step) -> double { return static_cast<const S*>(s)->factor(step); },
      [](void* s) { delete static_cast<S*>(s); }};
}

// The host that open() receives. add() throws plait::Error; see plait_host.
class Host {
 public:
  explicit Host(const plait_host* h) : h_(h) {}
  const plait_host* raw() const { return h_; }
  void log(uint32_t level, std::string_view text) const {
    h_->log(h_, level, text.data(), text.size());
  }
  void add(const plait_layer_item& i) const { check(h_->add(h_, PLAIT_KIND_LAYER, &i)); }
  void add(const plait_loss_item& i) const { check(h_->add(h_, PLAIT_KIND_LOSS, &i)); }
  void add(const plait_metric_item& i) const { check(h_->add(h_, PLAIT_KIND_METRIC, &i)); }
  void add(const plait_op_item& i) const { check(h_->add(h_, PLAIT_KIND_OP, &i)); }
  void add(const plait_optimizer_item& i) const { check(h_->add(h_, PLAIT_KIND_OPTIMIZER, &i)); }
  void add(const plait_peft_item& i) const { check(h_->add(h_, PLAIT_KIND_PEFT, &i)); }
  void add(const plait_schedule_item& i) const { check(h_->add(h_, PLAIT_KIND_SCHEDULE, &i)); }
  void add(const plait_dataset_item& i) const { check(h_->add(h_, PLAIT_KIND_DATASET, &i)); }
  void add(const plait_tokenizer_item& i) const { check(h_->add(h_, PLAIT_KIND_TOKENIZER, &i)); }
  void add(const plait_format_item& i) const { check(h_->add(h_, PLAIT_KIND_FORMAT, &i)); }
  void add(const plait_device_item& i) const { check(h_->add(h_, PLAIT_KIND_DEVICE, &i)); }
  void add(const plait_kernel_item& i) const { check(h_->add(h_, PLAIT_KIND_KERNEL, &i)); }
  void add(const plait_comm_item& i) const { check(h_->add(h_, PLAIT_KIND_COMM, &i)); }

 private:
  const plait_host* h_;
};

// A dataset that is opened with it is asked for its description, and never for samples.
struct MetadataOnly {};

namespace detail {
// Datasets are stored with the host, so that read() can create errors.
template <class D>
struct DatasetBox {
  const plait_host* host;
  D dataset;
  template <class... More>
  explicit DatasetBox(const plait_host* h, const Options& o, More... more)
      : host(h), dataset(Host(h), o, more...) {}
};
template <class D>
constexpr decltype(plait_dataset_item::open_metadata) open_metadata() {
  if constexpr (std::is_constructible_v<D, const Host&, const Options&, MetadataOnly>)
    return [](const plait_host* h, const plait_options* o, void** out) -> plait_error* {
      return guard(maker(h), [&] { *out = new DatasetBox<D>(h, Options(o), MetadataOnly{}); });
    };
  else
    return nullptr;
}
template <class D>
constexpr decltype(plait_dataset_item::text_of) text_of() {
  if constexpr (requires(const D& d) { d.text_of(0u, 0u, uint64_t{0}); })
    return [](const void* d, uint32_t field, uint32_t what, uint64_t index) -> const char* {
      return static_cast<const DatasetBox<D>*>(d)->dataset.text_of(field, what, index);
    };
  else
    return nullptr;
}
template <class D>
constexpr decltype(plait_dataset_item::read_epoch) read_epoch() {
  if constexpr (requires(const D& d, std::span<const int64_t> indices, void* const* outs) {
                  d.read_epoch(int64_t{0}, indices, outs);
                })
    return [](const void* d, int64_t epoch, const int64_t* indices, uint64_t n,
              void* const* outs) -> plait_error* {
      auto* box = static_cast<const DatasetBox<D>*>(d);
      return guard(maker(box->host), [&] { box->dataset.read_epoch(epoch, {indices, n}, outs); });
    };
  else
    return nullptr;
}
}  // namespace detail

// A dataset made of a class D: D(const Host&, const Options&), void info(plait_dataset_info&)
// const, and void read(std::span<const int64_t> indices, void* const* outs) const. All of them may
// throw. It may have const char* text_of(uint32_t field, uint32_t what, uint64_t index) const
// noexcept, void read_epoch(int64_t epoch, std::span<const int64_t> indices, void* const* outs)
// const, and D(const Host&, const Options&, MetadataOnly), for plait_dataset_item.open_metadata.
template <class D>
plait_dataset_item dataset(const char* name, const char* help,
                           std::span<const plait_option> options = {}) {
  using Box = detail::DatasetBox<D>;
  return {sizeof(plait_dataset_item),
          name,
          help,
          options.data(),
          detail::count(options),
          0,
          [](const plait_host* h, const plait_options* o, void** out) -> plait_error* {
            return detail::guard(detail::maker(h), [&] { *out = new Box(h, Options(o)); });
          },
          [](const void* d, plait_dataset_info* out) -> plait_error* {
            auto* box = static_cast<const Box*>(d);
            return detail::guard(detail::maker(box->host), [&] { box->dataset.info(*out); });
          },
          [](const void* d, const int64_t* indices, uint64_t n, void* const* outs) -> plait_error* {
            auto* box = static_cast<const Box*>(d);
            return detail::guard(detail::maker(box->host), [&] {
              box->dataset.read({indices, n}, outs);
            });
          },
          [](void* d) { delete static_cast<Box*>(d); },
          detail::text_of<D>(),
          detail::read_epoch<D>(),
          detail::open_metadata<D>()};
}

}  // namespace authoring
}  // namespace plait
