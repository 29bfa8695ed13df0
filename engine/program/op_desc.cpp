#include "engine/program/op_desc.hpp"

namespace plait::program {

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
