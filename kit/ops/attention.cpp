#include "kit/ops/attention.hpp"

namespace plait::kit {

void need_dims(const plait_shape& s, const char* what, std::initializer_list<int64_t> dims) {
  const bool fits = s.ndim == dims.size() && std::equal(dims.begin(), dims.end(), s.dims);
  if (fits) return;
  plait_shape wanted = s;
  wanted.ndim = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), wanted.dims);
  throw Invalid(std::string(what) + " is " + text(s) + ", expected " + text(wanted));
}

void read_part(Attention& a, const AttrReader& attrs) {
  a.first_head = attrs.integer("first_head");
  a.all_heads = attrs.integer("heads");
  a.first_group = attrs.integer("first_group");
  a.all_groups = attrs.integer("groups");
  if (a.all_heads == 0) {
    a.all_heads = a.heads;
    a.all_groups = a.groups;
  }
  need(a.first_head >= 0 && a.first_head + a.heads <= a.all_heads && a.first_group >= 0 &&
           a.first_group + a.groups <= a.all_groups,
       "a part is heads " + std::to_string(a.first_head) + " to " +
           std::to_string(a.first_head + a.heads) + " of " + std::to_string(a.all_heads));
  need(a.all_groups > 0 && a.all_heads % a.all_groups == 0,
       "q has " + std::to_string(a.all_heads) + " heads and k " + std::to_string(a.all_groups) +
           ", expected a multiple of them");
  need(a.heads == 0 || (a.group_of(0) >= 0 && a.group_of(a.heads - 1) < a.groups),
       "a part lacks key heads that its query heads read");
}

namespace {

constexpr plait_option kAll[] = {kAttentionAttrs[0], kAttentionAttrs[1], kAttentionAttrs[2],
                                 kAttentionAttrs[3], kAttentionAttrs[4], kAttentionAttrs[5],
                                 kAttentionPart[0],  kAttentionPart[1],  kAttentionPart[2],
                                 kAttentionPart[3],  kAttentionPart[4],  kAttentionPart[5]};

// Of q, k, v and the attributes; `behind`: where the optional inputs begin.
Attention parse(const plait_op_desc& d, uint32_t behind, uint32_t n_outputs) {
  const AttrReader attrs(d, kAll);
  Attention a;
  a.scale = attrs.real("scale");
  a.softcap = attrs.real("softcap");
  a.causal = attrs.flag("causal");
  a.window = attrs.integer("window");
  a.has_first = attrs.flag("first");
  a.dropout = attrs.real("dropout");
  a.seed = static_cast<uint64_t>(attrs.integer("seed"));
  a.stream = attrs.integer("stream");
  a.first_input = behind;
  a.counter_input = behind + (a.has_first ? 1 : 0);
  need_operands(d, a.counter_input + (a.dropout > 0 ? 1 : 0), n_outputs);
  const plait_shape &q = d.inputs[0], &k = d.inputs[1], &v = d.inputs[2];
  for (uint32_t i = 0; i < 3; ++i) {
    constexpr const char* kNames[] = {"q", "k", "v"};
    need(d.inputs[i].ndim == 4 && is_float(d.inputs[i].dtype) && d.inputs[i].dtype == q.dtype,
         std::string(kNames[i]) + " is " + text(d.inputs[i]) +
             ", expected floats (samples, tokens, heads, channels), all of one type");
  }
  a.samples = q.dims[0], a.queries = q.dims[1], a.heads = q.dims[2], a.qk = q.dims[3];
  a.keys = k.dims[1], a.groups = k.dims[2], a.value = v.dims[3];
  need_dims(k, "k", {a.samples, a.keys, a.groups, a.qk});
  need_dims(v, "v", {a.samples, a.keys, a.groups, a.value});
  need(!(a.causal || a.window > 0 || a.has_first) || a.keys == a.queries,
       "q has " + std::to_string(a.queries) + " tokens and k " + std::to_string(a.keys) +
           ", expected equally many where a mask compares their places");
  read_part(a, attrs);
  if (a.has_first) {
    need_index(d.inputs[a.first_input], "first");
    need_dims(d.inputs[a.first_input], "first", {a.samples, a.queries});
  }
  if (a.dropout > 0) {
    const plait_shape& counter = d.inputs[a.counter_input];
    need(counter.dtype == PLAIT_I64 && elements(counter) == 2,
         "counter needs i64 with two elements, found " + text(counter));
  }
  return a;
}

void need_rows(const plait_shape& s, const char* name, const Attention& a, uint32_t type) {
  need_dims(s, name, {a.samples, a.queries, a.heads, a.value});
  need(s.dtype == type, std::string(name) + " is " + text(s) + ", expected the type of q");
}
void need_lse(const plait_shape& s, const Attention& a, uint32_t type) {
  need_dims(s, "lse", {a.samples, a.heads, a.queries});
  need(s.dtype == (type == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32),
       "lse is " + text(s) + ", expected f32, or f64 where q is f64");
}

}  // namespace

Attention parse_attention(const plait_op_desc& d, Library library) {
  Attention a = parse(d, 3, 2);
  a.library = AttrReader(d, kAttentionForward).flag("library");
  need(!a.library || library == Library::kKnown, "no library: a kernel of Plait");
  if (!has_outputs(d)) return a;
  need_rows(d.outputs[0], "o", a, d.inputs[0].dtype);
  need_lse(d.outputs[1], a, d.inputs[0].dtype);
  return a;
}

Attention parse_attention_grad(const plait_op_desc& d) {
  const Attention a = parse(d, 6, 3);
  for (const uint32_t i : {3u, 5u})
    need_rows(d.inputs[i], i == 3 ? "o" : "do", a, d.inputs[0].dtype);
  need_lse(d.inputs[4], a, d.inputs[0].dtype);
  if (!has_outputs(d)) return a;
  for (uint32_t i = 0; i < 3; ++i) need_same(d.outputs[i], d.inputs[i]);
  return a;
}

}  // namespace plait::kit
