// dot_product_attention and its gradient on the device, of every type and mask, in double.
#include <algorithm>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/attention.hpp"
#include "plugins/devices/cuda/kernels/attention_plain_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cuda {
namespace {

AttentionPlainArgs args_of(const kit::Attention& a, const plait_op_desc& d) {
  AttentionPlainArgs args{};
  args.samples = a.samples, args.queries = a.queries, args.keys = a.keys;
  args.heads = a.heads, args.groups = a.groups, args.qk = a.qk, args.value = a.value;
  args.first_head = a.first_head, args.all_heads = a.all_heads;
  args.first_group = a.first_group, args.all_groups = a.all_groups;
  args.window = a.window, args.causal = a.causal;
  args.scale = a.scale, args.softcap = a.softcap, args.dropout = a.dropout;
  args.seed = a.seed, args.stream = support::stream_word(a.stream);
  args.lse.dtype = d.inputs[0].dtype == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32;
  if (a.has_first) args.first.dtype = d.inputs[a.first_input].dtype;
  return args;
}

void set_inputs(const kit::Attention& a, void* const* operands, AttentionPlainArgs& args) {
  args.q = operands[0], args.k = operands[1], args.v = operands[2];
  if (a.has_first) args.first.data = operands[a.first_input];
  if (a.dropout > 0) args.counter = static_cast<const int64_t*>(operands[a.counter_input]);
}

// A warp for each row and part of its channels.
Grid grid_of(int64_t rows, int64_t channels) {
  constexpr int64_t kWarps = kAttentionPlainBlock / 32;
  return {blocks_for(rows, kWarps),
          std::max(1u, blocks_along_y(channels, kAttentionPlainChannels))};
}

Function function_of(plait_device* device, uint32_t dtype, const char* const (&names)[4]) {
  const int i = dtype == PLAIT_F64 ? 1 : dtype == PLAIT_BF16 ? 2 : dtype == PLAIT_F16 ? 3 : 0;
  return Function(device, "attention_plain", names[i]);
}

class PlainAttention {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_attention(d);
    choice.workspace = 0;
    why = "a warp for each query, in double";
    return true;
  }
  PlainAttention(plait_device* device, const plait_op_desc& d)
      : a_(kit::parse_attention(d)),
        args_(args_of(a_, d)),
        function_(function_of(device, d.inputs[0].dtype,
                              {"attention_plain_f32", "attention_plain_f64", "attention_plain_bf16",
                               "attention_plain_f16"})),
        outputs_at_(d.n_inputs) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    AttentionPlainArgs args = args_;
    set_inputs(a_, operands, args);
    args.out = operands[outputs_at_], args.lse.data = operands[outputs_at_ + 1];
    function_.launch(queue, grid_of(a_.samples * a_.heads * a_.queries, a_.value),
                     kAttentionPlainBlock, args);
  }

 private:
  kit::Attention a_;
  AttentionPlainArgs args_;
  Function function_;
  size_t outputs_at_;
};

class PlainAttentionGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Attention a = kit::parse_attention_grad(d);
    choice.workspace =
        static_cast<uint64_t>(a.samples * a.heads * a.queries) * sizeof(AttentionPlainRow);
    why = "a warp for each query, then for each key, in double";
    return true;
  }
  PlainAttentionGrad(plait_device* device, const plait_op_desc& d)
      : a_(kit::parse_attention_grad(d)),
        args_(args_of(a_, d)),
        queries_(function_of(device, d.inputs[0].dtype,
                             {"attention_plain_queries_f32", "attention_plain_queries_f64",
                              "attention_plain_queries_bf16", "attention_plain_queries_f16"})),
        keys_(function_of(device, d.inputs[0].dtype,
                          {"attention_plain_keys_f32", "attention_plain_keys_f64",
                           "attention_plain_keys_bf16", "attention_plain_keys_f16"})),
        outputs_at_(d.n_inputs) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    AttentionPlainArgs args = args_;
    set_inputs(a_, operands, args);
    args.o = operands[3], args.lse.data = operands[4], args.d_o = operands[5];
    args.dq = operands[outputs_at_], args.dk = operands[outputs_at_ + 1];
    args.dv = operands[outputs_at_ + 2];
    args.rows = static_cast<AttentionPlainRow*>(workspace);
    queries_.launch(queue, grid_of(a_.samples * a_.heads * a_.queries, a_.qk), kAttentionPlainBlock,
                    args);
    keys_.launch(queue, grid_of(a_.samples * a_.groups * a_.keys, std::max(a_.qk, a_.value)),
                 kAttentionPlainBlock, args);
  }

 private:
  kit::Attention a_;
  AttentionPlainArgs args_;
  Function queries_, keys_;
  size_t outputs_at_;
};

}  // namespace

void add_attention_plain(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<PlainAttention>("plain", "dot_product_attention", "cuda", 0));
  out.push_back(kernel<PlainAttentionGrad>("plain", "dot_product_attention_grad", "cuda", 0));
}

}  // namespace plait::cuda
