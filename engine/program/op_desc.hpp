// An op as kernels and the ops of plugins see it.
#pragma once

#include <plait/op.h>

#include <string>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// An op description for plugins, with the storage behind its pointers.
class OpDesc {
 public:
  OpDesc(const Graph& g, const Op& op, uint32_t threads, bool with_outputs = true);
  OpDesc(const std::string& name, const std::vector<plait_shape>& inputs, const Attrs& attrs);
  OpDesc(const OpDesc&) = delete;
  OpDesc& operator=(const OpDesc&) = delete;
  const plait_op_desc* get() const { return &desc_; }

 private:
  void fill_attrs(const Attrs& attrs);
  std::string name_;
  std::vector<plait_shape> inputs_, outputs_;
  std::vector<plait_attr> attrs_;
  std::vector<Attr> attr_storage_;
  std::vector<int32_t> alias_;
  std::vector<plait_map_instr> instrs_;
  std::vector<uint32_t> map_outputs_;
  plait_map map_{};
  plait_op_desc desc_{};
};

}  // namespace plait::program
