// The sources of a traced model's values: data fields, names, random streams and parameters.
#include <algorithm>
#include <limits>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::attr;
using program::make_shape;

std::span<const plait_field> Tracer::fields() const {
  if (!source_.fields) return {};
  return *source_.fields;
}

ValueId Tracer::field_value(const std::string& name) {
  // Each pipeline stage converts the fields that it reads.
  if (auto it = fields_.find(name); it != fields_.end()) return normalized(name, it->second);
  const auto all = fields();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const plait_field& f) { return name == f.name; });
  if (at == all.end()) return 0;
  program::Dims dims{feed_.batch};
  for (uint32_t i = 0; i < at->shape.ndim; ++i) dims.push_back(at->shape.dims[i]);
  // Another program of the same feed may have added the field already.
  auto known = std::find_if(feed_.fields.begin(), feed_.fields.end(),
                            [&](const Field& f) { return f.name == name; });
  if (known == feed_.fields.end()) {
    Field f;
    f.index = static_cast<uint32_t>(at - all.begin());
    f.feed_index = static_cast<uint32_t>(feed_.fields.size());
    f.name = name;
    f.shape = make_shape(at->shape.dtype, dims);
    f.sample_bytes = program::bytes(at->shape);
    f.buffer = plan_.storage.allocate(feed_.weight.segment, program::bytes(f.shape));
    known = feed_.fields.insert(feed_.fields.end(), f);
  }
  fields_[name] = graph_->persistent(name, known->shape, known->buffer);
  return normalized(name, fields_[name]);
}

// Converts floats of the data to the type that layers compute in, and normalises: y = (x / divide -
// mean) / std. The mean is subtracted first: what is left keeps its digits, however large the mean
// is. With mixed precision, too, all of this is f32: what reads y rounds it.
ValueId Tracer::normalized(const std::string& field, ValueId raw) {
  const auto all = fields();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const plait_field& f) { return field == f.name; });
  const config::NormalizeConfig* n = source_.config ? normalize_of(*source_.config, *at) : nullptr;
  if (!n)
    return program::is_float(graph_->shape(raw).dtype)
               ? graph_->as_type(raw, plan_.precision.compute)
               : raw;
  ValueId v =
      graph_->apply1("cast", {raw}, {attr("dtype", static_cast<int64_t>(plan_.precision.compute))});
  if (by_column(*n)) return normalized_by_column(find_or_add_normalization(plan_, *n, *at), v);
  if (const double mean = n->mean[0] * n->divide; mean != 0)
    v = program::binary(*graph_, "sub", v, graph_->constant(mean));
  return program::scaled(*graph_, v, 1 / (n->divide * n->std[0]));
}

ValueId Tracer::normalized_by_column(const Normalization& n, ValueId v) {
  auto [known, is_new] = column_numbers_.try_emplace(n.mean_at.offset);
  if (is_new) {
    const plait_shape shape = n.columns == 1 ? make_shape(plan_.precision.compute, {})
                                             : make_shape(plan_.precision.compute, {n.columns});
    known->second = {graph_->persistent("mean of " + n.field, shape, n.mean_at),
                     graph_->persistent("inverse deviation of " + n.field, shape, n.inverse_at)};
  }
  const auto [mean, inverse] = known->second;
  return program::binary(*graph_, "mul", program::binary(*graph_, "sub", v, mean), inverse);
}

// As the layer being traced may write it.
std::string Tracer::local_name(const std::string& name) const {
  for (const std::string& outer : {model_ + "." + block_, model_ + "."})
    if (starts_with(name, outer)) return name.substr(outer.size());
  return name;
}

std::vector<std::string> Tracer::known_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) names.push_back(local_name(name));
  for (const auto& f : fields()) names.emplace_back(f.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// From the innermost block outwards. nullptr: there is none.
const ValueId* Tracer::find_in_scope(const std::map<std::string, ValueId>& among,
                                     const std::string& name) const {
  for (std::string block = block_;;) {
    if (auto it = among.find(model_ + "." + block + name); it != among.end()) return &it->second;
    if (block.empty()) return nullptr;
    block.pop_back();
    block.resize(block.rfind('.') + 1);  // npos + 1: none is left
  }
}

ValueId Tracer::named(const std::string& name) {
  if (const ValueId* v = find_in_scope(values_, name)) return note_poison(*v);
  if (name == "input" && !block_.empty()) return first_input();  // the model begins with the block
  if (auto it = values_.find(name); it != values_.end()) return note_poison(it->second);
  if (const ValueId v = field_value(name)) return v;
  if (const ValueId* v = find_in_scope(layers_, name)) return note_poison(*v);
  if (auto it = layers_.find(name); it != layers_.end()) return note_poison(it->second);
  if (!source_.fields) return note_poison(poison(0));  // possibly one of its fields
  poisoned_ = false;                                   // not caused by other values
  const auto names = known_names();
  auto all = names;
  for (const auto& [layer, value] : layers_) all.push_back(local_name(layer));
  fail_not_found("[" + graph_->scope + "] there is no value '" + name + "' at this point" +
                 did_you_mean(nearest(name, all)) + "; there are: " + join(names) +
                 ", and the output of each layer before, by the layer's name");
}

// The stream is identified by the layer's name and the number of random values it has requested; of
// an adapter by what it changes and its method, whatever other adapters there are.
// Numbers are counted within a sample, and the counter holds the first sample of the micro-batch,
// so masks do not depend on how a batch is split.
program::RandomStream Tracer::random_stream() {
  const std::string& of = adapter_ ? random_owner_ : graph_->scope;
  const int k = random_streams_[of]++;
  const uint64_t stream = name_hash(of + "#" + std::to_string(k));
  return {counter_, plan_.experiment.run.seed, static_cast<int64_t>(stream)};
}

namespace {

// Of rows that are sorted into groups (program::Grouping), where each of a token's rows is:
// (R.., k); 0: they are no such rows.
ValueId place_of_rows(const program::Graph& g, ValueId rows) {
  std::set<ValueId> seen;
  for (std::vector<ValueId> open{rows}; !open.empty();) {
    const ValueId v = open.back();
    open.pop_back();
    const int32_t producer = g.value(v).producer;
    if (producer < 0 || !seen.insert(v).second) continue;
    const program::Op& op = g.ops()[static_cast<size_t>(producer)];
    if (op.def->grouping == program::Grouping::kSorts) return v == op.out[0] ? op.out[1] : 0;
    if (op.def->grouping == program::Grouping::kKeeps) open.push_back(op.in[0]);
    if (op.def->is_map) open.insert(open.end(), op.in.begin(), op.in.end());
  }
  return 0;
}

}  // namespace

ValueId Tracer::random_uniform(ValueId like) {
  const plait_shape s = graph_->shape(like);
  const program::RandomStream random = random_stream();
  program::Dims dims = program::dims_of(s);
  // Where a row of a group lies depends on the other samples of the micro-batch, and its numbers
  // must not: they are drawn for the rows of each token, and sorted as these are.
  const ValueId place = dims.size() == 2 ? place_of_rows(*graph_, like) : 0;
  if (place) {
    const int64_t width = dims[1];
    dims = program::dims_of(graph_->shape(place));
    dims.push_back(width);
  }
  const program::Dims of_tokens = dims;
  const int64_t n = program::elements(s);
  if ((dims.empty() || dims[0] != feed_.batch) && n % feed_.batch == 0)
    dims = {feed_.batch, n / feed_.batch};
  const ValueId numbers =
      graph_->apply1("random", {random.counter},
                     {attr("kind", std::string("uniform")), attr("shape", dims),
                      attr("seed", random.seed), attr("stream", random.stream)});
  if (!place) return program::reshaped(*graph_, numbers, program::dims_of(s));
  program::Dims one_each = of_tokens;
  one_each.back() = 1;
  return graph_->apply1("ungroup_rows_grad", {program::reshaped(*graph_, numbers, of_tokens),
                                              program::reshaped(*graph_, place, one_each)});
}

namespace {

// The range of indices that an op accepts, if it reads rows or classes by index.
IndexRange index_range_of(const Graph& g, const program::Op& op, const program::IndexUse& use) {
  IndexRange range;
  range.end = use.end;
  range.labels = use.labels;
  range.least = use.least;
  const int32_t producer = g.value(op.in[0]).producer;
  range.reader = op.scope;
  range.maker = producer < 0 ? op.scope : g.ops()[static_cast<size_t>(producer)].scope;
  return range;
}

}  // namespace

// Records the index ranges of fields that ops read directly. Programs do not check them; they are
// used for the message about a non-finite result, and to check the feeds of a host.
void Tracer::note_index_ranges() {
  for (Field& f : feed_.fields) f.index_ranges.clear();
  for (const program::Op& op : graph_->ops()) {
    if (!op.def->index_use) continue;
    const std::optional<program::IndexUse> use = op.def->index_use(*graph_, op);
    if (!use) continue;
    const IndexRange range = index_range_of(*graph_, op, *use);
    const ValueId indices = graph_->storage_of(op.in[use->operand]);
    for (Field& f : feed_.fields)
      if (const auto at = fields_.find(f.name); at != fields_.end() && at->second == indices)
        f.index_ranges.push_back(range);
  }
  note_adapter_ranges();
}

namespace {

// The index of the first group of the optimizer that matches a parameter; -1: the default group.
int32_t setting_of(const config::ModelConfig& model, const std::string& parameter) {
  if (!model.optimizer) return -1;
  const auto& groups = model.optimizer->groups;
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i].holds(parameter)) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace

// The block of a parameter on this rank: its shard along the dimension that is sharded over the
// tensor ranks, or the whole tensor.
void Tracer::shard_parameter(const plait_parameter& p, Parameter& q) const {
  q.box = topology::full_box(program::dims_of(q.shape));
  q.stored_elements = topology::elements(q.box);
  const int32_t ranks = plan_.grid.tensor();
  if (ranks == 1 || p.shard_dim < 0) return;
  if (p.shard_dim >= static_cast<int32_t>(q.shape.ndim))
    fail(PLAIT_ERR_PLUGIN,
         strf("[%s] parameter '%s' is to be shared along dimension %d of %s", graph_->scope.c_str(),
              p.name, p.shard_dim, program::text(q.shape).c_str()));
  const auto d = static_cast<size_t>(p.shard_dim);
  const int64_t extent = q.box.extent[d];
  if (p.shard_unit > 1 && extent / p.shard_unit % ranks != 0) return;
  // Along the first dimension the padding lies at the end, so the extent need not be divisible.
  const topology::ExtentSplit split =
      d == 0 ? topology::ExtentSplit::padded(extent, ranks, 1)
             : topology::ExtentSplit::even(extent, ranks,
                                           strf("indices along dimension %d of '%s.%s'",
                                                p.shard_dim, graph_->scope.c_str(), p.name));
  const topology::Range shard = split.range(plan_.at.tensor);
  q.sharded = true;
  q.stored_elements = q.stored_elements / extent * split.padded_range(plan_.at.tensor).size();
  q.box.offset[d] = shard.begin;
  q.box.extent[d] = shard.size();
}

Parameter Tracer::new_parameter(const plait_parameter& p, const config::ModelConfig& model,
                                const std::string& name) const {
  Parameter q;
  q.name = name;
  q.model = model.name;
  if (adapter_) q.adapter = adapter_->name;
  if (!model.frozen) q.setting = setting_of(model, name);
  q.frozen = (p.flags & PLAIT_REQUEST_FIXED) != 0 ||
             (adapter_ ? model.frozen : !model.trains(name)) ||
             (q.setting >= 0 && model.optimizer->groups[static_cast<size_t>(q.setting)].frozen);
  q.shape =
      make_shape(plan_.precision.parameter_of(p.shape.ndim, q.frozen), program::dims_of(p.shape));
  q.init = p.init;
  q.init_a = p.init_a;
  q.init_b = p.init_b;
  q.shard_dim = p.shard_dim;
  q.shard_unit = p.shard_unit;
  shard_parameter(p, q);
  return q;
}

// nullptr: no layer has requested it so far.
const Parameter* Tracer::find_registered(const std::string& name) const {
  const auto at = registered_.find(name);
  return at == registered_.end() ? nullptr : &plan_.parameters[at->second];
}

// The plan's entry of a parameter that a layer requests: its own, or the one that it is tied to.
const Parameter& Tracer::find_or_register(const plait_parameter& p,
                                          const config::ModelConfig& model,
                                          const config::LayerConfig& layer) {
  if (!adapter_) requested_.emplace_back(p.name);
  for (const config::TieConfig& tie : layer.tie) {
    if (tie.own != p.name) continue;
    error_site_ = {tie.origin, layer.path + ".tie." + config::toml_key(tie.own)};
    if (const Parameter* other = find_registered(tie.full)) return *other;
    for (size_t dot = tie.full.find('.'); dot != std::string::npos;
         dot = tie.full.find('.', dot + 1))
      poisoned_ = poisoned_ || failed_scopes_.contains(tie.full.substr(0, dot));
    std::vector<std::string> names;
    for (const Parameter& q : plan_.parameters) names.push_back(q.name);
    fail_config("[" + graph_->scope + "] tie: there is no parameter '" + tie.full + "' so far" +
                did_you_mean(nearest(tie.full, names)));
  }
  const bool of_weight = adapter_ && (p.flags & PLAIT_REQUEST_OF_WEIGHT) != 0;
  const std::string name = (of_weight ? weight_owner_ : owner()) + "." + p.name;
  if (const Parameter* own = find_registered(name)) return *own;
  registered_[name] = plan_.parameters.size();
  plan_.parameters.push_back(new_parameter(p, model, name));
  if (adapter_) plan_.of_methods[name] = {key_of(*adapter_), target_name_, p.name};
  return plan_.parameters.back();
}

ValueId Tracer::parameter(const plait_parameter& p, const config::ModelConfig& model,
                          const config::LayerConfig& layer) {
  const Parameter& known = find_or_register(p, model, layer);
  const plait_shape shape = make_shape(known.shape.dtype, program::dims_of(p.shape));
  if (!program::same(known.shape, shape)) {
    const bool is_tied = error_site_.has_value();
    fail_config(
        "[" + graph_->scope + "] parameter '" + known.name + "' has shape " +
        program::text(known.shape) +
        (is_tied ? " where it is defined, this layer needs " : " in training, here it is ") +
        program::text(shape) +
        (is_tied ? ""
         : mode_ == TraceMode::kGeneration
             ? "; set generate.length to the tokens of a training sample, on whose number "
               "the parameter depends"
             : "; samples of [data.train] and [data.eval] must have the same shapes"));
  }
  error_site_.reset();
  ValueId& v = parameters_[known.name];
  if (v == 0) {
    v = graph_->persistent(known.name, shape, known.value);
    graph_->value(v).requires_grad = training() && !known.frozen;
  }
  const ValueId value = graph_->as_type(v, plan_.precision.compute);
  if (!adapter_) used_[value] = p.name;
  return value;
}

}  // namespace plait::plan
