// plait/plugin/peft.hpp - PEFT methods made of C++ functions.
#pragma once

#include <plait/peft.h>
#include <plait/plugin/items.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace plait {
inline namespace authoring {

// Where a method is applied; see plait_peft_target. Values that are not there have the id 0.
struct PeftTarget {
  std::string name;
  uint32_t what = 0;
  bool out_in = false;
  Value input, output, weight, bias;
  int32_t shard_dim = -1;
  int64_t shard_unit = 1;
  uint32_t n_targets = 0;  // of the adapter, for terms of the loss; see plait_peft_target
  Value groups;            // of a grouped product: where the rows of each group begin
  bool has_bias() const { return bias.id != 0; }
  // Whether the weight is a matrix for each group of rows, along its first dimension.
  bool is_grouped() const { return what == PLAIT_PEFT_GROUPED; }
  // The dimension of a product's weight that runs along its outputs, and that along its inputs.
  uint32_t out_dim() const { return (is_grouped() ? 1 : 0) + (out_in ? 0 : 1); }
  uint32_t in_dim() const { return (is_grouped() ? 1 : 0) + (out_in ? 1 : 0); }
  // How tensor parallelism may shard a parameter whose dimension `own` runs along dimension
  // `weight_dim` of the weight: `own` or -1.
  int32_t shard_along(uint32_t weight_dim, int32_t own) const {
    return shard_dim == static_cast<int32_t>(weight_dim) ? own : -1;
  }
};

// Returns what is read instead of target.output.
using WrapPeft = Value (*)(Builder&, const Options&, const PeftTarget&);

// The weight and bias as the adapters before have made them; becomes what they are to be. A bias
// with the id 0 is none.
struct Merged {
  Value weight, bias;
};
using MergePeft = Merged (*)(Builder&, const Options&, const PeftTarget&, Merged);

// A parameter that the builder returned, and what it starts with.
struct PeftStart {
  Value parameter, value;
};
using StartPeft = std::vector<PeftStart> (*)(Builder&, const Options&, const PeftTarget&);

// A parameter of an adapter behind an update of the optimizer; see plait_peft_update. Scores are
// there for the second function alone.
struct PeftUpdate {
  std::string name;
  Value parameter, gradient, step;
  int64_t total_steps = 0;
  uint32_t n_targets = 0;
  Value scores, all_scores;
};
// Returns the scores (n) of this parameter, or a value with the id 0: it has none.
using ScorePeft = Value (*)(Builder&, const Options&, const PeftUpdate&);
// Returns what the parameter is to be.
using UpdatePeft = Value (*)(Builder&, const Options&, const PeftUpdate&);

namespace detail {
inline PeftUpdate update_of(plait_builder* b, const plait_peft_update& u) {
  return {u.name,        {b, u.parameter}, {b, u.gradient}, {b, u.step},
          u.total_steps, u.n_targets,      {b, u.scores},   {b, u.all_scores}};
}
inline PeftTarget target_of(plait_builder* b, const plait_peft_target& t) {
  return {t.name,      t.what,      t.out_in != 0, {b, t.input}, {b, t.output}, {b, t.weight},
          {b, t.bias}, t.shard_dim, t.shard_unit,  t.n_targets,  {b, t.groups}};
}
}  // namespace detail

// targets: sum of PLAIT_PEFT_*. Merge nullptr: the adapter cannot be merged. Start nullptr: no
// initial value depends on the weight. Score and Behind nullptr: the optimizer alone decides.
template <WrapPeft Wrap, MergePeft Merge = nullptr, StartPeft Start = nullptr,
          ScorePeft Score = nullptr, UpdatePeft Behind = nullptr>
plait_peft_item peft(const char* name, const char* help, uint32_t targets,
                     std::span<const plait_option> options = {}) {
  plait_peft_item item{};
  item.struct_size = sizeof item;
  item.name = name;
  item.help = help;
  item.options = options.data();
  item.n_options = detail::count(options);
  item.targets = targets;
  item.wrap = [](plait_builder* b, const plait_options* o, const plait_peft_target* t,
                 plait_value* output) -> plait_error* {
    return detail::guard(detail::maker(b), [&] {
      Builder builder(b);
      *output = Wrap(builder, Options(o), detail::target_of(b, *t)).id;
    });
  };
  if constexpr (Merge != nullptr)
    item.merge = [](plait_builder* b, const plait_options* o, const plait_peft_target* t,
                    plait_value* weight, plait_value* bias) -> plait_error* {
      return detail::guard(detail::maker(b), [&] {
        Builder builder(b);
        const Merged merged =
            Merge(builder, Options(o), detail::target_of(b, *t), {{b, *weight}, {b, *bias}});
        *weight = merged.weight.id;
        *bias = merged.bias.id;
      });
    };
  if constexpr (Start != nullptr)
    item.start = [](plait_builder* b, const plait_options* o, const plait_peft_target* t,
                    plait_peft_start* starts, uint32_t* n) -> plait_error* {
      return detail::guard(detail::maker(b), [&] {
        Builder builder(b);
        const std::vector<PeftStart> all = Start(builder, Options(o), detail::target_of(b, *t));
        *n = static_cast<uint32_t>(std::min<size_t>(all.size(), PLAIT_PEFT_MAX_STARTS));
        for (uint32_t i = 0; i < *n; ++i) starts[i] = {all[i].parameter.id, all[i].value.id};
      });
    };
  if constexpr (Score != nullptr)
    item.score = [](plait_builder* b, const plait_options* o, const plait_peft_update* u,
                    plait_value* scores) -> plait_error* {
      return detail::guard(detail::maker(b), [&] {
        Builder builder(b);
        *scores = Score(builder, Options(o), detail::update_of(b, *u)).id;
      });
    };
  if constexpr (Behind != nullptr)
    item.update = [](plait_builder* b, const plait_options* o, const plait_peft_update* u,
                     plait_value* parameter) -> plait_error* {
      return detail::guard(detail::maker(b), [&] {
        Builder builder(b);
        *parameter = Behind(builder, Options(o), detail::update_of(b, *u)).id;
      });
    };
  return item;
}

}  // namespace authoring
}  // namespace plait
