#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/graph.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {

Attr attr(std::string name, int64_t v) { return {std::move(name), PLAIT_OPT_INT, v, 0, {}, {}}; }
Attr attr(std::string name, bool v) { return {std::move(name), PLAIT_OPT_BOOL, v, 0, {}, {}}; }
Attr attr(std::string name, double v) { return {std::move(name), PLAIT_OPT_REAL, 0, v, {}, {}}; }
Attr attr(std::string name, std::string t) {
  return {std::move(name), PLAIT_OPT_TEXT, 0, 0, std::move(t), {}};
}
Attr attr(std::string name, std::vector<int64_t> v) {
  return {std::move(name), PLAIT_OPT_INTS, 0, 0, {}, std::move(v)};
}

namespace {

// What is wrong with attribute k as it was written; "" if nothing is.
std::string fault_of(const plait_attr& a) {
  constexpr uint32_t kMost = 65536;
  if (a.type < PLAIT_OPT_BOOL || a.type > PLAIT_OPT_INTS)
    return strf("has type %u, which is none of PLAIT_OPT_BOOL to _INTS", a.type);
  if (a.type == PLAIT_OPT_TEXT && !a.text) return "is a text, but `text` is NULL";
  if (a.type != PLAIT_OPT_INTS) return "";
  if (a.n > kMost) return strf("has %u integers, expected at most %u", a.n, kMost);
  return a.n > 0 && !a.ints ? strf("has %u integers, but `ints` is NULL", a.n) : "";
}

}  // namespace

Attrs Attrs::copy(const plait_attr* attrs, uint32_t n, const std::string& where) {
  Attrs all;
  for (uint32_t k = 0; k < n; ++k) {
    const plait_attr& a = attrs[k];
    if (!a.name) fail_invalid(where + strf(" attribute %u is without a name", k));
    std::string fault = fault_of(a);
    if (fault.empty() && all.find(a.name)) fault = "is there twice";
    if (!fault.empty()) fail_invalid(where + " attribute '" + printable(a.name) + "' " + fault);
    Attr copy{a.name, a.type, a.i, a.f, a.type == PLAIT_OPT_TEXT ? a.text : "", {}};
    if (a.type == PLAIT_OPT_INTS) copy.ints.assign(a.ints, a.ints + a.n);
    all.set(std::move(copy));
  }
  return all;
}

const Attr* Attrs::find(std::string_view name) const {
  for (const Attr& a : list_)
    if (a.name == name) return &a;
  return nullptr;
}
int64_t Attrs::integer(std::string_view name, int64_t fallback) const {
  const Attr* a = find(name);
  return a ? a->i : fallback;
}
double Attrs::real(std::string_view name, double fallback) const {
  const Attr* a = find(name);
  return a ? (a->type == PLAIT_OPT_REAL ? a->f : static_cast<double>(a->i)) : fallback;
}
std::string Attrs::text(std::string_view name, std::string_view fallback) const {
  const Attr* a = find(name);
  return a ? a->text : std::string(fallback);
}
const std::vector<int64_t>& Attrs::ints(std::string_view name) const {
  static const std::vector<int64_t> kNone;
  const Attr* a = find(name);
  return a ? a->ints : kNone;
}
void Attrs::set(Attr a) {
  for (Attr& old : list_) {
    if (old.name == a.name) {
      old = std::move(a);
      return;
    }
  }
  list_.push_back(std::move(a));
}
std::string Attrs::key() const {
  std::string k;
  for (const Attr& a : list_) {
    k += ";" + a.name + "=" + std::to_string(a.i) + "," + strf("%a", a.f) + "," + a.text;
    for (int64_t i : a.ints) k += "," + std::to_string(i);
  }
  return k;
}

OpDesc::OpDesc(const Graph& g, const Op& op, uint32_t threads, bool with_outputs) : name_(op.name) {
  for (ValueId v : op.in) inputs_.push_back(g.shape(v));
  for (ValueId v : op.out) outputs_.push_back(g.shape(v));
  alias_ = op.alias;
  instrs_ = op.map.instrs;
  map_outputs_ = op.map.outputs;
  fill_attrs(op.attrs);
  if (with_outputs) {
    desc_.outputs = outputs_.data();
    desc_.n_outputs = static_cast<uint32_t>(outputs_.size());
  }
  desc_.threads = threads;
  if (!alias_.empty()) desc_.alias = alias_.data();
  if (!map_outputs_.empty()) {
    map_ = {sizeof(plait_map),
            static_cast<uint32_t>(inputs_.size()),
            static_cast<uint32_t>(instrs_.size()),
            static_cast<uint32_t>(map_outputs_.size()),
            0,
            instrs_.data(),
            map_outputs_.data()};
    desc_.map = &map_;
  }
}

OpDesc::OpDesc(const std::string& name, const std::vector<plait_shape>& inputs, const Attrs& attrs)
    : name_(name), inputs_(inputs) {
  fill_attrs(attrs);
}

void OpDesc::fill_attrs(const Attrs& attrs) {
  attr_storage_ = attrs.all();
  for (const Attr& a : attr_storage_)
    attrs_.push_back({a.name.c_str(), a.type, static_cast<uint32_t>(a.ints.size()), a.i, a.f,
                      a.text.c_str(), a.ints.data()});
  desc_.struct_size = sizeof(plait_op_desc);
  desc_.op = name_.c_str();
  desc_.n_inputs = static_cast<uint32_t>(inputs_.size());
  desc_.inputs = inputs_.data();
  desc_.n_attrs = static_cast<uint32_t>(attrs_.size());
  desc_.attrs = attrs_.data();
  desc_.threads = 1;
}

}  // namespace plait::program
