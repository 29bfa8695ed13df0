// What LoRA and DoRA share: a change of a weight that is a product of two small matrices.
#pragma once

#include <plait/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>

#include "kit/by_target.hpp"
#include "plugins/support/functions.hpp"

namespace plait::low_rank {

constexpr plait_option kOptions[] = {
    at_least(opt_int("rank", "8", "rank of the change, r: it is a product of two factors"), 1),
    opt_real("alpha", "8.0", "the change is multiplied by alpha / rank"),
    opt_by_target("rank_pattern",
                  "other ranks: texts \"PATTERN=RANK\", of which the first that matches the name "
                  "of a target counts"),
    opt_by_target("alpha_pattern", "other values of alpha, as of rank_pattern"),
    opt_bool("rslora", "false", "by alpha / sqrt(rank) instead (Kalajdzievski 2023)"),
    below(at_least(opt_real("dropout", "0.0",
                            "probability that an input of the change is 0; none of a table"),
                   0),
          1),
    opt_choice("init", "\"kaiming\"", "kaiming|gaussian",
               "initial values of the first factor: uniform in ±1/sqrt(inputs), or normal with "
               "deviation 1/rank; the second one starts at 0, of a table the first"),
};

// The first value of the option's texts whose pattern matches the target; nothing: none does.
template <class T>
std::optional<T> value_for(const Options& o, const char* option, const PeftTarget& t) {
  std::optional<T> found;
  for (const std::string& text : o.texts(option)) {
    const auto one = kit::by_target(text);
    const auto number = one ? kit::number_of<T>(one->value) : std::nullopt;
    constexpr bool kWhole = std::is_integral_v<T>;
    if (!number || (kWhole ? *number < 1 : !std::isfinite(static_cast<double>(*number))))
      fail(PLAIT_ERR_CONFIG, "[peft-lora] " + std::string(option) + " has '" + text +
                                 "', expected PATTERN=NUMBER with a " +
                                 (kWhole ? "whole number of at least 1" : "number") +
                                 ", for instance \"*.attn.*=16\"; set at " + o.origin(option));
    if (!found && kit::glob_match(one->pattern, t.name)) found = number;
  }
  return found;
}

inline int64_t rank_of(const Options& o, const PeftTarget& t) {
  return value_for<int64_t>(o, "rank_pattern", t).value_or(o.integer("rank"));
}

inline double scale_of(const Options& o, const PeftTarget& t) {
  const auto rank = static_cast<double>(rank_of(o, t));
  const double alpha = value_for<double>(o, "alpha_pattern", t).value_or(o.real("alpha"));
  return alpha / (o.flag("rslora") ? std::sqrt(rank) : rank);
}

// The factors of a change. Of a product: a (r,I), b (O,r), the change of W is b·a; of a grouped
// product a (E,r,I), b (E,O,r), each matrix has a change of its own. Of a table
// (V,C): a (V,r), b (C,r), the change is a·bᵀ; there a starts at 0 and b does not, so that rows
// which no sample names stay.
struct Factors {
  Value a, b;
};

inline Factors factors(const Builder& b, const Options& o, const PeftTarget& t) {
  const Shape weight = b.shape(t.weight);
  const int64_t rank = rank_of(o, t);
  if (t.what == PLAIT_PEFT_LOOKUP)
    return {b.parameter("a", Shape({weight.dims[0], rank}), Init::constant(0), t.shard_along(0, 0),
                        t.shard_unit),
            b.parameter("b", Shape({weight.dims[1], rank}), Init::normal(0, 1))};
  const int64_t in = weight.dims[t.in_dim()], out = weight.dims[t.out_dim()];
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Init start = o.text("init") == "gaussian" ? Init::normal(0, 1 / static_cast<double>(rank))
                                                  : Init::uniform(-bound, bound);
  if (t.is_grouped()) {
    // Ranks have the changes of the matrices that they have; else a is cut along the inputs, or b
    // along the outputs.
    const auto shard = [&](uint32_t dim, int32_t own) {
      return std::max(t.shard_along(0, 0), t.shard_along(dim, own));
    };
    const int64_t groups = weight.dims[0];
    return {b.parameter("a", Shape({groups, rank, in}), start, shard(t.in_dim(), 2), t.shard_unit),
            b.parameter("b", Shape({groups, out, rank}), Init::constant(0), shard(t.out_dim(), 1),
                        t.shard_unit)};
  }
  return {b.parameter("a", Shape({rank, in}), start, t.shard_along(t.in_dim(), 1), t.shard_unit),
          b.parameter("b", Shape({out, rank}), Init::constant(0), t.shard_along(t.out_dim(), 0),
                      t.shard_unit)};
}

// The change of the weight, scaled, in its dims.
inline Value change(const Builder& b, const Options& o, const PeftTarget& t, const Factors& f) {
  Value product;
  if (t.what == PLAIT_PEFT_LOOKUP)
    product = b.op("matmul", {f.a, f.b}, {attr("transpose_b", true)});
  else if (t.out_in)  // also of each matrix of a grouped product
    product = b.op("matmul", {f.b, f.a});
  else
    product = b.op("matmul", {f.a, f.b}, {attr("transpose_a", true), attr("transpose_b", true)});
  return product * scale_of(o, t);
}

// What it adds to the output for these inputs x, rows of a table or numbers: scale · (x·aᵀ)·bᵀ.
inline Value added(const Builder& b, const Options& o, const PeftTarget& t, const Factors& f,
                   Value x) {
  const auto times = [&](Value rows, Value factor) {
    if (t.is_grouped())
      return b.op("grouped_matmul", {rows, factor, t.groups}, {attr("transpose_b", true)});
    return b.op("matmul", {rows, factor}, {attr("transpose_b", true)});
  };
  const Value inner = t.what == PLAIT_PEFT_LOOKUP ? b.op("gather", {f.a, x}) : times(x, f.a);
  return times(inner, f.b) * scale_of(o, t);
}

}  // namespace plait::low_rank
