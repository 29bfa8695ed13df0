// rope_table and rope, plain.
#include "kit/ops/rope.hpp"

#include <algorithm>

#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/rope_args.hpp"

namespace plait::cuda {
namespace {

class PlainRopeTable {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_rope_table(d);
    choice.workspace = 0;
    why = "a thread per pair, cos and sin in double";
    return true;
  }
  PlainRopeTable(plait_device* device, const plait_op_desc& d)
      : table_(kit::parse_rope_table(d)), function_(device, "rope", "rope_table_plain") {
    if (table_.has_positions) positions_type_ = d.inputs[0].dtype;
    if (table_.has_lengths) lengths_type_ = d.inputs[1].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RopeTableArgs args{};
    void* const* outputs = operands + table_.has_positions + table_.has_lengths;
    args.positions.data = table_.has_positions ? operands[0] : nullptr;
    args.lengths.data = table_.has_lengths ? operands[1] : nullptr;
    args.cos = static_cast<float*>(outputs[0]);
    args.sin = static_cast<float*>(outputs[1]);
    args.tokens = table_.tokens;
    args.sample = table_.sample;
    args.pairs = static_cast<int64_t>(table_.frequency.size());
    args.original = table_.original;
    args.positions.dtype = positions_type_;
    args.lengths.dtype = lengths_type_;
    args.amplitude = table_.amplitude;
    for (args.first = 0; args.first < args.pairs; args.first += kPairsOfLaunch) {
      args.count = std::min(args.pairs - args.first, kPairsOfLaunch);
      std::copy_n(table_.frequency.begin() + args.first, args.count, args.frequency);
      if (table_.has_lengths)
        std::copy_n(table_.long_frequency.begin() + args.first, args.count, args.long_frequency);
      function_.launch(queue, {blocks_of_stride(args.tokens * args.count, 256)}, 256, args);
    }
  }

 private:
  kit::RopeTable table_;
  Function function_;
  uint32_t positions_type_ = 0, lengths_type_ = 0;
};

class PlainRope {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_rope(d);
    choice.workspace = 0;
    why = "a thread per pair, in double";
    return true;
  }
  PlainRope(plait_device* device, const plait_op_desc& d)
      : function_(device, "rope", "rope_plain") {
    const kit::Rope r = kit::parse_rope(d);
    args_.samples = r.samples;
    args_.tokens = r.tokens;
    args_.heads = r.heads;
    args_.channels = r.channels;
    args_.pairs = r.pairs;
    args_.by_sample = r.by_sample;
    args_.adjacent = r.adjacent;
    args_.inverse = r.inverse;
    args_.x.dtype = args_.y.dtype = d.inputs[0].dtype;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    RopeArgs args = args_;
    args.x.data = operands[0];
    args.cos = static_cast<const float*>(operands[1]);
    args.sin = static_cast<const float*>(operands[2]);
    args.y.data = operands[3];
    const int64_t items = args.channels - args.pairs;
    function_.launch(
        queue, {blocks_of_stride(args.samples * args.tokens * args.heads * items, 256)}, 256, args);
  }

 private:
  Function function_;
  RopeArgs args_{};
};

}  // namespace

void add_rope(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainRopeTable>("plain", "rope_table", "cuda", 0));
  out.push_back(kernel<PlainRope>("plain", "rope", "cuda", 0));
}

}  // namespace plait::cuda
