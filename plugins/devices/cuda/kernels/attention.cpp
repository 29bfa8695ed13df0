// dot_product_attention and its gradient by tiles of scores, for 16-bit floats on tensor cores and
// for f32 without: what the kernels take, their operands and their launches.
//
// A weight that a mask makes 0 is multiplied nevertheless where its tile has other weights. So an
// infinity or NaN in v, or for gradients in any operand, may spread to queries and keys that the
// mask separates from it, such as the tokens of a neighbouring document: within a tile, of at most
// 128 tokens. The plain kernels and attention_cached keep them apart.
#include <cfloat>

#include "kit/ops/attention.hpp"
#include "plugins/devices/cuda/kernels/attention_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/support/philox.hpp"

namespace plait::cuda {
namespace {

constexpr int32_t kPriority = 10;  // plain kernels have priority 0
constexpr int64_t kMostTokens = 1 << 29, kMostRow = 1 << 24, kMostBlocks = 0x7fffffff;

// A function, and how it is launched: `rows` of a block of threads, and bytes of shared memory.
struct Variant {
  const char *module, *name;
  int rows;
  unsigned shared, threads;
};
// The three functions of a type and of tiles with 64 or 128 channels.
struct Variants {
  Variant forward, grad_keys, grad_queries;
  const char* delta;
};
#define VARIANTS_OF_16_BITS(type, channels)                                                      \
  Variants {                                                                                     \
    {"attention_flash", "attention_" type "_" #channels, kAttentionQueries,                      \
     attention_shared(channels), kAttentionThreads},                                             \
        {"attention_grad_keys", "attention_grad_keys_" type "_" #channels, kGradKeyRows,         \
         grad_keys_shared(channels), kAttentionThreads},                                         \
        {"attention_grad_queries", "attention_grad_queries_" type "_" #channels, kGradQueryRows, \
         grad_queries_shared(channels), kAttentionThreads},                                      \
        "attention_delta_" type                                                                  \
  }
#define VARIANTS_OF_F32(channels)                                                                \
  Variants {                                                                                     \
    {"attention_f32", "attention_f32_" #channels, kF32Queries, attention_f32_shared(channels),   \
     kF32Threads},                                                                               \
        {"attention_grad_f32", "attention_grad_keys_f32_" #channels, f32_grad_rows(channels),    \
         grad_f32_shared(channels), kF32Threads},                                                \
        {"attention_grad_f32", "attention_grad_queries_f32_" #channels, f32_grad_rows(channels), \
         grad_f32_shared(channels), kF32Threads},                                                \
        "attention_delta_f32"                                                                    \
  }
Variants variants_of(uint32_t dtype, const kit::Attention& a) {
  const bool narrow = std::max(a.qk, a.value) <= 64;
  if (dtype == PLAIT_F32) return narrow ? VARIANTS_OF_F32(64) : VARIANTS_OF_F32(128);
  if (dtype == PLAIT_F16)
    return narrow ? VARIANTS_OF_16_BITS("f16", 64) : VARIANTS_OF_16_BITS("f16", 128);
  return narrow ? VARIANTS_OF_16_BITS("bf16", 64) : VARIANTS_OF_16_BITS("bf16", 128);
}
#undef VARIANTS_OF_16_BITS
#undef VARIANTS_OF_F32

// Whether a factor of scores is as good in f32, also times log2(e).
bool fits_f32(double v) { return v >= FLT_MIN && v <= FLT_MAX / 2; }

bool takes(const kit::Attention& a, uint32_t dtype, std::string& why) {
  const int64_t row = std::max(a.heads, a.groups) * std::max(a.qk, a.value);
  const auto refuse = [&](const char* reason) {
    why = reason;
    return false;
  };
  if (dtype == PLAIT_F64) return refuse("tiles of scores: not f32, bf16 or f16");
  if (a.qk == 0 || a.value == 0 || a.qk > 128 || a.value > 128)
    return refuse("tiles of scores: not 1 to 128 channels");
  if (dtype != PLAIT_F32 && (a.qk % 8 != 0 || a.value % 8 != 0))
    return refuse("tiles of scores: channels of 16-bit floats are not a multiple of 8");
  if (!fits_f32(a.scale)) return refuse("tiles of scores: scale is not above 0, or no f32");
  if (a.softcap > 0 && !(fits_f32(a.softcap) && fits_f32(a.scale / a.softcap)))
    return refuse("tiles of scores: softcap, or scale / softcap, is no f32");
  if (a.queries > kMostTokens || a.keys > kMostTokens || row > kMostRow)
    return refuse("tiles of scores: more than 2^29 tokens, or 2^24 elements of a token");
  const int64_t blocks = std::max(a.queries, a.keys) / 32 + 1;
  if (a.samples * std::max(a.heads, a.groups) > kMostBlocks / blocks)
    return refuse("tiles of scores: more than 2^31 blocks");
  why = dtype == PLAIT_F32 ? "tiles of scores" : "tiles of scores on tensor cores";
  return true;
}

// Parts of a workspace, each aligned to 64 bytes.
class Parts {
 public:
  explicit Parts(void* at) : at_(reinterpret_cast<uintptr_t>(at)) {}
  template <class T>
  T* take(int64_t count) {
    T* part = reinterpret_cast<T*>(at_ + bytes_);
    bytes_ += (static_cast<uint64_t>(count) * sizeof(T) + 63) / 64 * 64;
    return part;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uintptr_t at_;
  uint64_t bytes_ = 0;
};

// What both directions have.
class TiledAttention {
 public:
  TiledAttention(plait_device* device, const plait_op_desc& d, const kit::Attention& a)
      : a_(a),
        variants_(variants_of(d.inputs[0].dtype, a)),
        first_type_(a.has_first ? d.inputs[a.first_input].dtype : 0) {
    if (a.has_first) ranges_ = Function(device, "attention_prepare", "attention_ranges");
  }

 protected:
  static Function load(plait_device* device, const Variant& v) {
    return Function(device, v.module, v.name, v.shared);
  }
  // For `heads` of each sample and their tokens.
  void launch(const Function& f, const Variant& v, plait_queue* queue, int64_t heads,
              int64_t tokens, const AttentionArgs& x) const {
    const int64_t blocks = a_.samples * heads * ((tokens + v.rows - 1) / v.rows);
    f.launch(queue, {static_cast<unsigned>(blocks)}, v.threads, x, v.shared);
  }
  static void take_ranges(const kit::Attention& a, Parts& workspace, AttentionArgs& x) {
    if (!a.has_first) return;
    x.ranges = workspace.take<AttentionKeys>(a.samples * a.queries);
    x.spans = workspace.take<AttentionSpan>(a.samples *
                                            ((a.queries + kAttentionSpan - 1) / kAttentionSpan));
  }
  AttentionArgs arguments(void* const* operands, Parts& workspace) const {
    AttentionArgs x{};
    x.q = operands[0], x.k = operands[1], x.v = operands[2];
    if (a_.has_first) x.first = {operands[a_.first_input], first_type_, 0};
    if (a_.dropout > 0) x.counter = static_cast<const int64_t*>(operands[a_.counter_input]);
    const auto small = [](int64_t v) { return static_cast<int32_t>(v); };
    x.samples = small(a_.samples), x.queries = small(a_.queries), x.keys = small(a_.keys);
    x.heads = small(a_.heads), x.groups = small(a_.groups);
    x.qk = small(a_.qk), x.value = small(a_.value);
    x.causal = a_.causal ? 1 : 0;
    x.window = small(std::min(a_.window, kMostTokens));  // as far as any key is away
    x.heads_per_group = small(a_.all_heads / a_.all_groups);
    x.first_head = small(a_.first_head);
    x.skipped_heads = small(a_.first_head - a_.first_group * x.heads_per_group);
    x.scale = static_cast<float>(a_.scale), x.softcap = static_cast<float>(a_.softcap);
    x.dropout = static_cast<float>(a_.dropout);
    x.kept = static_cast<float>(1 / (1 - a_.dropout));
    x.seed = a_.seed, x.stream = support::stream_word(a_.stream);
    take_ranges(a_, workspace, x);
    return x;
  }
  void prepare_ranges(plait_queue* queue, const AttentionArgs& x) const {
    if (a_.has_first && a_.queries > 0)
      ranges_.launch(queue, {static_cast<unsigned>(a_.samples)}, 256, x);
  }

  kit::Attention a_;
  Variants variants_;

 private:
  uint32_t first_type_;
  Function ranges_;
};

class Forward : TiledAttention {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Attention a = kit::parse_attention(d);
    if (!takes(a, d.inputs[0].dtype, why)) return false;
    Parts workspace(nullptr);
    AttentionArgs x{};
    take_ranges(a, workspace, x);
    choice.workspace = workspace.bytes();
    return true;
  }
  Forward(plait_device* device, const plait_op_desc& d)
      : TiledAttention(device, d, kit::parse_attention(d)),
        function_(load(device, variants_.forward)) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    Parts parts(workspace);
    AttentionArgs x = arguments(operands, parts);
    void* const* out = operands + a_.counter_input + (a_.dropout > 0 ? 1 : 0);
    x.out = out[0], x.out_lse = static_cast<float*>(out[1]);
    prepare_ranges(queue, x);
    launch(function_, variants_.forward, queue, a_.heads, a_.queries, x);
  }

 private:
  Function function_;
};

class Backward : TiledAttention {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Attention a = kit::parse_attention_grad(d);
    if (!takes(a, d.inputs[0].dtype, why)) return false;
    Parts workspace(nullptr);
    AttentionArgs x{};
    take_ranges(a, workspace, x);
    workspace.take<float>(a.samples * a.heads * a.queries);
    choice.workspace = workspace.bytes();
    return true;
  }
  Backward(plait_device* device, const plait_op_desc& d)
      : TiledAttention(device, d, kit::parse_attention_grad(d)),
        delta_(device, "attention_prepare", variants_.delta),
        keys_(load(device, variants_.grad_keys)),
        queries_(load(device, variants_.grad_queries)) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    Parts parts(workspace);
    AttentionArgs x = arguments(operands, parts);
    const int64_t rows = a_.samples * a_.heads * a_.queries;
    x.delta = parts.take<float>(rows);
    x.o = operands[3], x.lse = static_cast<const float*>(operands[4]), x.d_o = operands[5];
    void* const* out = operands + a_.counter_input + (a_.dropout > 0 ? 1 : 0);
    x.dq = out[0], x.dk = out[1], x.dv = out[2];
    prepare_ranges(queue, x);
    delta_.launch(queue, {blocks_of_stride(rows, 16, 1 << 20)}, 256, x);
    launch(keys_, variants_.grad_keys, queue, a_.groups, a_.keys, x);
    launch(queries_, variants_.grad_queries, queue, a_.heads, a_.queries, x);
  }

 private:
  Function delta_, keys_, queries_;
};

}  // namespace

void add_attention(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Forward>("tiles", "dot_product_attention", "cuda", kPriority));
  out.push_back(kernel<Backward>("tiles", "dot_product_attention_grad", "cuda", kPriority));
}

}  // namespace plait::cuda
