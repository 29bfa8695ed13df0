// attention_cached on the device in f32, over caches of f32, bf16 and f16: for few tokens of each
// sequence, as when text is generated.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/attention_cached.hpp"
#include "plugins/devices/cuda/kernels/attention_decode_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

constexpr int32_t kDecodePriority = 10;

// How the work is divided: a function of the shapes alone, as the order of sums depends on it.
struct Division {
  int heads = 1, passes = 1;  // of the kernel: heads of a block, passes over the channels
  int64_t groups = 0;         // key heads that are read
  int64_t tiles = 0;          // of heads, in a group
  int64_t splits = 1;         // of the keys
};

Division divide(const kit::CachedAttention& c) {
  const kit::Attention& a = c.a;
  const int64_t per_group = a.all_heads / a.all_groups;
  Division d;
  if (per_group == 0) return d;  // no query heads at all
  d.passes = a.value > kDecodeChannels / 2 ? 2 : 1;
  const int64_t skipped = a.first_head % per_group;
  while (d.heads < per_group && d.heads < (d.passes == 2 ? 4 : 8)) d.heads *= 2;
  d.groups = (skipped + a.heads + per_group - 1) / per_group;
  d.tiles = (per_group + d.heads - 1) / d.heads;
  // So many blocks fill a large GPU; a part is at least two tiles of keys.
  constexpr int64_t kBlocks = 512, kMostSplits = 64;
  const int64_t blocks = std::max<int64_t>(1, a.samples * a.queries * d.groups * d.tiles);
  d.splits = std::clamp<int64_t>((kBlocks + blocks - 1) / blocks, 1,
                                 std::clamp<int64_t>(a.keys / (2 * kDecodeKeys), 1, kMostSplits));
  return d;
}

int64_t rows_of(const kit::Attention& a) { return a.samples * a.queries * a.heads; }

std::string refusal(const plait_op_desc& d, const kit::CachedAttention& c, const Division& by) {
  const auto bytes = static_cast<int64_t>(kit::dtype_bytes(c.cache_type));
  if (c.a.all_heads == 0) return "takes one query head or more, found none";
  if (d.inputs[0].dtype == PLAIT_F64 || c.cache_type == PLAIT_F64)
    return "takes f32, bf16 and f16, found f64";
  const auto fits_f32 = [](double v) { return v >= FLT_MIN && v <= FLT_MAX; };
  if ((c.a.scale != 0 && !fits_f32(std::fabs(c.a.scale))) ||
      (c.a.softcap > 0 && !fits_f32(c.a.softcap)))
    return "takes a scale and a softcap that f32 has, found " + std::to_string(c.a.scale) +
           " and " + std::to_string(c.a.softcap);
  if (c.a.qk > kDecodeChannels || c.a.value > kDecodeChannels)
    return "takes up to " + std::to_string(kDecodeChannels) + " channels, found " +
           std::to_string(std::max(c.a.qk, c.a.value));
  if (c.a.qk * bytes % 16 != 0 || c.a.value % 4 != 0)
    return "needs keys of whole 16 bytes and values of whole 4 channels, found " +
           std::to_string(c.a.qk) + " and " + std::to_string(c.a.value) + " channels";
  if (rows_of(c.a) * by.splits > kMostBlocksX || by.groups * by.tiles > kMostBlocksY)
    return "has more queries than a grid has blocks";
  return "";
}

Function function_of(plait_device* device, uint32_t cache_type, const Division& by,
                     unsigned shared) {
#define PLAIT_DECODE_NAMES(name) \
  { name "_1_1", name "_2_1", name "_4_1", name "_8_1", name "_1_2", name "_2_2", name "_4_2" }
  static constexpr const char* kNames[3][7] = {PLAIT_DECODE_NAMES("attention_decode_f32"),
                                               PLAIT_DECODE_NAMES("attention_decode_bf16"),
                                               PLAIT_DECODE_NAMES("attention_decode_f16")};
#undef PLAIT_DECODE_NAMES
  const int type = cache_type == PLAIT_F32 ? 0 : cache_type == PLAIT_BF16 ? 1 : 2;
  const int power = by.heads == 1 ? 0 : by.heads == 2 ? 1 : by.heads == 4 ? 2 : 3;
  return Function(device, "attention_decode", kNames[type][(by.passes - 1) * 4 + power], shared);
}

class AttentionDecode {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::CachedAttention c = kit::parse_attention_cached(d);
    const Division by = divide(c);
    why = refusal(d, c, by);
    if (!why.empty()) return false;
    choice.workspace =
        by.splits == 1
            ? 0
            : static_cast<uint64_t>(rows_of(c.a) * by.splits * (c.a.value + 2)) * sizeof(float);
    why = std::to_string(by.heads) + " heads of a key head together, keys in " +
          std::to_string(by.splits) + (by.splits == 1 ? " part" : " parts");
    return true;
  }

  AttentionDecode(plait_device* device, const plait_op_desc& d)
      : c_(kit::parse_attention_cached(d)),
        by_(divide(c_)),
        shared_(static_cast<unsigned>(
            kDecodeKeys *
            (static_cast<uint64_t>(c_.a.qk) * kit::dtype_bytes(c_.cache_type) + kDecodePad))),
        decode_(function_of(device, c_.cache_type, by_, shared_)),
        join_(device, "attention_decode", "attention_decode_join") {
    const kit::Attention& a = c_.a;
    const int64_t per_group = a.all_heads / a.all_groups;
    args_.q.dtype = args_.out.dtype = d.inputs[0].dtype;
    args_.slot.dtype = c_.at.slot_type, args_.at.dtype = c_.at.at_type;
    args_.rows = rows_of(a);
    args_.slots = c_.at.slots, args_.places = c_.at.places, args_.window = a.window;
    args_.tokens = static_cast<int32_t>(a.queries), args_.heads = static_cast<int32_t>(a.heads);
    args_.groups = static_cast<int32_t>(a.groups);
    args_.qk = static_cast<int32_t>(a.qk), args_.value = static_cast<int32_t>(a.value);
    args_.first_group = static_cast<int32_t>(a.first_head / per_group - a.first_group);
    args_.skipped = static_cast<int32_t>(a.first_head % per_group);
    args_.heads_per_group = static_cast<int32_t>(per_group);
    args_.tiles_per_group = static_cast<int32_t>(by_.tiles);
    args_.splits = static_cast<int32_t>(by_.splits);
    args_.scale = static_cast<float>(a.scale), args_.softcap = static_cast<float>(a.softcap);
  }

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    AttentionDecodeArgs args = args_;
    args.q.data = operands[0], args.k = operands[1], args.v = operands[2];
    args.slot.data = operands[3], args.at.data = operands[4], args.out.data = operands[5];
    const int64_t parts = args.rows * args.splits;
    args.sums = static_cast<float*>(workspace);
    args.greatest = args.sums + parts * args.value;
    args.weights = args.greatest + parts;
    decode_.launch(queue,
                   {blocks_for(c_.a.samples * c_.a.queries * by_.splits, 1),
                    blocks_along_y(by_.groups * by_.tiles, 1)},
                   kDecodeBlock, args, shared_);
    if (by_.splits > 1) join_.launch(queue, {blocks_for(args.rows, 1)}, kDecodeBlock, args);
  }

 private:
  kit::CachedAttention c_;
  Division by_;
  unsigned shared_;
  Function decode_, join_;
  AttentionDecodeArgs args_{};
};

}  // namespace

void add_attention_decode(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<AttentionDecode>("decode", "attention_cached", "cuda", kDecodePriority));
}

}  // namespace plait::cuda
