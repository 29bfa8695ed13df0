#include "engine/program/partition.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& from, const std::map<ValueId, int32_t>& shared, const Sharers& sharers)
      : from_(from),
        sharers_(sharers),
        to_(std::make_unique<Graph>(from.rules())),
        forms_(from.n_values()) {
    for (ValueId v = 1; v < from.n_values(); ++v) {
      const Value& value = from.value(v);
      if (value.producer >= 0) continue;
      const auto at = shared.find(v);
      const int32_t dim = at == shared.end() ? kWhole : at->second;
      set(v, dim, to_->persistent(value.name, local(value.shape, dim), value.place));
    }
  }

  void run() {
    for (const Op& op : from_.ops()) write(op);
  }
  // The value in the form asked for, made where the value is made.
  ValueId wanted(const Wanted& w);
  std::unique_ptr<Graph> take() { return std::move(to_); }

 private:
  ValueId as(ValueId v, int32_t dim);
  // A value of the old program in the new one: all of it, a part of it, or both.
  struct Form {
    ValueId whole = 0, part = 0;
    int32_t dim = kWhole;  // of the part
    bool natural_part = false;
    int32_t converted_in = 0;  // stage that made the form which is not natural
  };

  plait_shape local(plait_shape s, int32_t dim) const {
    if (dim >= 0) s.dims[dim] = (s.dims[dim] + sharers_.ranks - 1) / sharers_.ranks;
    return s;
  }
  void set(ValueId v, int32_t dim, ValueId made) {
    Form& f = forms_[v];
    if (dim < 0) {
      f.whole = made;
    } else {
      f.part = made;
      f.dim = dim;
      f.natural_part = true;
    }
  }
  bool padded(ValueId v, int32_t dim) const {
    return dim >= 0 && from_.shape(v).dims[dim] % sharers_.ranks != 0;
  }
  int32_t natural(ValueId v) const { return forms_[v].natural_part ? forms_[v].dim : kWhole; }

  Share share_of(const Op& op) const;
  bool keeps_padding(const Op& op, const Share& share) const;
  void write(const Op& op);
  bool write_by_rule(const Op& op);
  std::vector<ValueId> write_with(const Op& op, const Share& share);
  ValueId exchanged(ValueId v, uint32_t kind, uint32_t reduction, const char* what);
  ValueId summed(ValueId terms, uint32_t reduction);
  bool can_be_made_in_part(ValueId v, int32_t dim) const;
  ValueId made_in_part(ValueId v, int32_t dim);
  ValueId sliced(ValueId whole, const plait_shape& shape, int32_t dim);
  ValueId gathered(ValueId part, const plait_shape& whole, int32_t dim);

  const Graph& from_;
  const Sharers& sharers_;
  std::unique_ptr<Graph> to_;
  std::vector<Form> forms_;
  std::map<ValueId, ValueId> reduced_;  // terms -> their sum, which lies in their place
};

// Starts an exchange and waits for it. An all-reduce works in place: its operand has no other reader.
ValueId Partitioner::exchanged(ValueId v, uint32_t kind, uint32_t reduction, const char* what) {
  const plait_shape& s = to_->shape(v);
  const int32_t id = sharers_.add(to_->scope + " " + what, kind, reduction, s.dtype,
                                  static_cast<uint64_t>(elements(s)));
  const Attrs attrs{attr("kind", static_cast<int64_t>(kind)), attr("ranks", sharers_.ranks),
                    attr("id", static_cast<int64_t>(id))};
  if (kind == PLAIT_COMM_ALL_REDUCE)
    return to_->apply_in_place("exchange_wait", {to_->apply_in_place("exchange", {v}, attrs)},
                               {attr("id", static_cast<int64_t>(id))});
  // What is sent must stay until the end: the wait reads it, too.
  return to_->apply_in_place("exchange_wait", {to_->apply1("exchange", {v}, attrs), v},
                             {attr("id", static_cast<int64_t>(id))});
}

// The sum or greatest of all ranks' terms. The same terms may come again, with another bias.
ValueId Partitioner::summed(ValueId terms, uint32_t reduction) {
  if (const auto known = reduced_.find(terms); known != reduced_.end()) return known->second;
  return reduced_[terms] = exchanged(terms, PLAIT_COMM_ALL_REDUCE, reduction,
                                     reduction == PLAIT_COMM_SUM ? "summed" : "compared");
}

// All ranks' parts lie one behind the other when they come; along another dimension than the first they are moved into place.
ValueId Partitioner::gathered(ValueId part, const plait_shape& whole, int32_t dim) {
  ValueId all = exchanged(part, PLAIT_COMM_ALL_GATHER, 0, "gathered");
  const Dims own = dims_of(to_->shape(part));
  const int64_t extent = own[static_cast<size_t>(dim)] * sharers_.ranks;
  if (dim > 0) {
    Dims stacked{sharers_.ranks}, joined = own;
    stacked.insert(stacked.end(), own.begin(), own.end());
    std::vector<int64_t> perm;
    for (int64_t d = 1; d <= static_cast<int64_t>(own.size()); ++d) {
      if (d - 1 == dim) perm.push_back(0);
      perm.push_back(d);
    }
    joined[static_cast<size_t>(dim)] = extent;
    all = to_->apply1("transpose", {reshaped(*to_, all, stacked)}, {attr("perm", perm)});
    all = reshaped(*to_, all, joined);
  }
  if (extent == whole.dims[dim]) return all;
  return to_->apply1("slice", {all},
                     {attr("axis", static_cast<int64_t>(dim)), attr("start", int64_t{0}),
                      attr("stop", whole.dims[dim])});
}

ValueId Partitioner::as(ValueId v, int32_t dim) {
  Form& f = forms_[v];
  // Each stage of a pipeline converts for itself: what another one made may not be there in time.
  const bool here = f.converted_in == to_->stage;
  if (dim < 0) {
    if (f.natural_part && (!f.whole || !here)) {
      f.whole = gathered(f.part, from_.shape(v), f.dim);
      f.converted_in = to_->stage;
    }
    return f.whole;
  }
  if (f.part && f.dim == dim && (f.natural_part || here)) return f.part;
  if (can_be_made_in_part(v, dim)) return made_in_part(v, dim);
  const ValueId part = sliced(as(v, kWhole), from_.shape(v), dim);
  if (!f.natural_part && (!f.part || !here)) {
    f.part = part;
    f.dim = dim;
    f.converted_in = to_->stage;
  }
  return part;
}

// This rank's part of a whole value, with zeros for padding.
ValueId Partitioner::sliced(ValueId whole, const plait_shape& shape, int32_t dim) {
  const int64_t extent = shape.dims[dim], n = local(shape, dim).dims[dim];
  const int64_t start = std::min(extent, sharers_.rank * n), stop = std::min(extent, start + n);
  // Also of nothing: what the ranks exchange before this must not depend on who of them needs it.
  const ValueId part = to_->apply1(
      "slice", {whole},
      {attr("axis", static_cast<int64_t>(dim)), attr("start", start), attr("stop", stop)});
  if (stop - start == n) return part;
  return to_->apply1("pad", {part},
                     {attr("axis", static_cast<int64_t>(dim)), attr("before", int64_t{0}),
                      attr("after", n - (stop - start))});
}

// A part of a tensor of one number is made, not cut out; so are rows that indices add to.
bool Partitioner::can_be_made_in_part(ValueId v, int32_t dim) const {
  const int32_t producer = from_.value(v).producer;
  if (producer < 0) return false;
  const Op& op = from_.ops()[static_cast<size_t>(producer)];
  if (op.name == "scatter_add") return dim == 0;
  return op.name == "map" && op.in.empty() && !padded(v, dim);
}

ValueId Partitioner::made_in_part(ValueId v, int32_t dim) {
  const Op& op = from_.ops()[static_cast<size_t>(from_.value(v).producer)];
  const plait_shape own = local(from_.shape(v), dim);
  if (op.name == "scatter_add")
    return to_->apply1("scatter_add", {as(op.in[0], kWhole), as(op.in[1], kWhole)},
                       {attr("rows", own.dims[0]), attr("first", sharers_.rank * own.dims[0])});
  Op copy = op;
  copy.out.clear();
  return to_->append(std::move(copy), {own})[0];
}

ValueId Partitioner::wanted(const Wanted& w) {
  if (const int32_t producer = from_.value(w.value).producer; producer >= 0) {
    const Op& op = from_.ops()[static_cast<size_t>(producer)];
    to_->stage = op.stage;
    to_->backward = op.backward;
  }
  return as(w.value, w.dim);
}

// Whether zeros in the padding of the inputs give zeros in that of the results.
bool Partitioner::keeps_padding(const Op& op, const Share& share) const {
  const bool sum = op.attrs.text("kind", "sum") != "max";
  if (op.name == "matmul" || op.name == "transpose" || op.name == "reshape" ||
      (op.name == "reduce" && sum))
    return true;
  if (op.name != "map") return false;
  switch (op.map.instrs[0].op) {
    case PLAIT_MAP_COPY:
    case PLAIT_MAP_NEG:
    case PLAIT_MAP_RELU:
    case PLAIT_MAP_TANH:
    case PLAIT_MAP_MUL:
      return true;
    case PLAIT_MAP_ADD:
    case PLAIT_MAP_SUB:  // what is not shared would be added to the padding, too
      return std::find(share.in.begin(), share.in.end(), kWhole) == share.in.end();
    default:
      return false;
  }
}

Share Partitioner::share_of(const Op& op) const {
  Share share{std::vector<int32_t>(op.in.size(), kWhole),
              std::vector<int32_t>(op.out.size(), kWhole), 0};
  std::vector<int32_t> have;
  bool any = false;
  for (ValueId v : op.in) {
    have.push_back(natural(v));
    any = any || have.back() >= 0;
  }
  if (!any || !op.rule->share) return share;
  Share shared = share;
  if (!op.rule->share(from_, op, have, sharers_.ranks, shared)) return share;
  bool pads = false;
  for (size_t i = 0; i < op.in.size(); ++i) {
    if (!padded(op.in[i], shared.in[i])) continue;
    pads = true;
    // A whole value is not cut up for the sake of padding.
    if (have[i] != shared.in[i] && !can_be_made_in_part(op.in[i], shared.in[i])) return share;
  }
  for (size_t i = 0; i < op.out.size(); ++i) pads = pads || padded(op.out[i], shared.out[i]);
  return pads && !keeps_padding(op, shared) ? share : shared;
}

// An op with a shared form of its own.
bool Partitioner::write_by_rule(const Op& op) {
  std::vector<int32_t> have;
  for (ValueId v : op.in) have.push_back(natural(v));
  if (!op.rule->write_shared ||
      std::all_of(have.begin(), have.end(), [](int32_t d) { return d < 0; }))
    return false;
  SharedUse use{from_,
                op,
                *to_,
                have,
                sharers_.ranks,
                sharers_.rank,
                [&](size_t i, int32_t dim) { return as(op.in[i], dim); },
                [&](ValueId terms, uint32_t reduction) { return summed(terms, reduction); },
                {},
                {}};
  if (!op.rule->write_shared(use)) return false;
  for (size_t i = 0; i < op.out.size(); ++i) set(op.out[i], use.out_dims[i], use.out[i]);
  return true;
}

std::vector<ValueId> Partitioner::write_with(const Op& op, const Share& share) {
  std::vector<ValueId> in;
  for (size_t i = 0; i < op.in.size(); ++i) in.push_back(as(op.in[i], share.in[i]));
  to_->scope = op.scope;
  if (op.name == "map") {
    Op copy = op;
    copy.in = std::move(in);
    copy.out.clear();
    return to_->append(std::move(copy), {local(from_.shape(op.out[0]), share.out[0])});
  }
  Attrs attrs = op.attrs;
  if (op.name == "reshape")
    attrs.set(attr("shape", dims_of(local(from_.shape(op.out[0]), share.out[0]))));
  return to_->apply(op.name, std::move(in), std::move(attrs));
}

void Partitioner::write(const Op& op) {
  to_->scope = op.scope;
  to_->backward = op.backward;
  to_->stage = op.stage;
  if (write_by_rule(op)) return;
  const Share share = share_of(op);
  // A bias is added once, to the whole sum.
  const bool late_bias = share.reduce && op.name == "matmul" && op.attrs.integer("bias", 0) != 0;
  Op plain;
  if (late_bias) {
    plain = op;
    plain.in.resize(2);
    plain.attrs = Attrs{attr("transpose_a", op.attrs.integer("transpose_a", 0) != 0),
                        attr("transpose_b", op.attrs.integer("transpose_b", 0) != 0)};
  }
  const std::vector<ValueId> made = write_with(late_bias ? plain : op, share);
  for (size_t i = 0; i < op.out.size(); ++i) {
    ValueId v = made[i];
    if (share.reduce) v = summed(v, share.reduce);
    if (late_bias) v = operator_(*to_, "add", v, as(op.in[2], kWhole));
    set(op.out[i], share.out[i], v);
  }
}

}  // namespace

std::unique_ptr<Graph> partition(const Graph& g, const std::map<ValueId, int32_t>& shared,
                                 const Sharers& sharers, const std::vector<Wanted>& wanted,
                                 std::vector<ValueId>& made) {
  Partitioner p(g, shared, sharers);
  p.run();
  made.clear();
  for (const Wanted& w : wanted) made.push_back(w.value ? p.wanted(w) : 0);
  return p.take();
}

}  // namespace plait::program
