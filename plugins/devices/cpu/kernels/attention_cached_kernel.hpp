// attention_cached as a kernel: the keys that each query sees, the work of each thread, and the
// workspace.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kit/dtype.hpp"
#include "kit/ops/attention_cached.hpp"
#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/kernels/attention_cached_args.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/elements.hpp"

namespace plait::cpu {

// For this machine.
DecodeAttend pick_decode_attend();
DecodeFinish pick_decode_finish();

class CpuAttentionCached {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuAttentionCached kernel(nullptr, d);
    for (const uint32_t type : {d.inputs[0].dtype, d.inputs[1].dtype})
      if (type != PLAIT_F32 && !is_half(type)) {
        why = std::string("takes f32, bf16 and f16 only, found ") + kit::dtype_name(type);
        return false;
      }
    choice.workspace = kernel.workspace_bytes();
    why = variant(kernel.by_rows_ ? "heads of a key together" : "blocks of scores",
                  kernel.num_threads_);
    return true;
  }

  CpuAttentionCached(plait_device*, const plait_op_desc& d)
      : c_(kit::parse_attention_cached(d)),
        type_(d.inputs[0].dtype),
        heads_(heads_of_groups(c_.a)),
        most_heads_(most_heads(heads_)),
        by_rows_(is_decode(c_.a, most_heads_)),
        num_threads_(choose_num_threads(d.threads, nanoseconds(), max_units())),
        num_finishing_(choose_num_threads(static_cast<uint32_t>(num_threads_),
                                          nanoseconds_to_finish(), max_units())) {}

  void run(plait_queue*, void* const* operands, void* workspace) const {
    Run r{.x = args()};
    r.x.k = static_cast<const float*>(operands[1]);
    r.x.v = static_cast<const float*>(operands[2]);
    r.x.k16 = static_cast<const uint16_t*>(operands[1]);
    r.x.v16 = static_cast<const uint16_t*>(operands[2]);
    char* at = static_cast<char*>(workspace);
    const auto take = [&](uint64_t bytes) {
      char* part = at;
      at += rounded(bytes);
      return part;
    };
    auto* ranges = reinterpret_cast<kit::KeyRange*>(take(range_bytes()));
    auto* slots = reinterpret_cast<int64_t*>(take(slot_bytes()));
    fill(operands[3], operands[4], ranges, slots);
    r.x.ranges = ranges, r.x.ranges_stride = c_.a.queries, r.x.slots = slots;
    r.reads = reinterpret_cast<Read*>(take(read_bytes()));
    r.states = states(reinterpret_cast<float*>(take(state_bytes())));
    auto* q = reinterpret_cast<float*>(take(wide_bytes(c_.a.qk)));
    auto* o = reinterpret_cast<float*>(take(wide_bytes(c_.a.value)));
    r.scratch = reinterpret_cast<float*>(at);
    r.x.q = static_cast<const float*>(operands[0]);
    r.x.out = static_cast<float*>(operands[5]);
    if (is_half(type_)) {
      in_parallel(num_threads_, rows_of_heads() * c_.a.qk, [&](int64_t first, int64_t last) {
        widen_function(type_)(static_cast<const uint16_t*>(operands[0]) + first, q + first,
                              last - first);
      });
      r.x.q = q, r.x.out = o;
    }
    if (by_rows_)
      run_rows(r);
    else
      run_blocks(r);
    if (is_half(type_))
      in_parallel(num_threads_, rows_of_heads() * c_.a.value, [&](int64_t first, int64_t last) {
        narrow_function(type_)(o + first, static_cast<uint16_t*>(operands[5]) + first,
                               last - first);
      });
  }

 private:
  using Heads = GroupHeads;
  static bool is_half(uint32_t type) { return type == PLAIT_BF16 || type == PLAIT_F16; }
  // What follows from the desc.
  AttentionArgs args() const {
    AttentionArgs x{.a = c_.a};
    if (is_half(c_.cache_type)) x.widen = widen_function(c_.cache_type);
    return x;
  }
  int64_t rows_of_heads() const { return c_.a.samples * c_.a.queries * c_.a.heads; }
  // Of q and of o as f32, where they are not.
  uint64_t wide_bytes(int64_t width) const {
    return is_half(type_) ? static_cast<uint64_t>(rows_of_heads() * width) * sizeof(float) : 0;
  }
  // A chunk of the keys of a sample; each of its key heads is a unit of work.
  struct Read {
    int64_t sample, chunk;
  };
  struct Run {
    AttentionArgs x;
    Read* reads = nullptr;
    DecodeStates states = {};  // by sample, chunk, key head
    float* scratch = nullptr;
  };

  static std::vector<Heads> heads_of_groups(const kit::Attention& a) {
    std::vector<Heads> all(static_cast<size_t>(a.groups));
    for (int64_t h = a.heads; h-- > 0;) {
      Heads& heads = all[static_cast<size_t>(a.group_of(h))];
      heads.first = h;
      ++heads.count;
    }
    return all;
  }
  static int64_t most_heads(const std::vector<Heads>& all) {
    int64_t most = 0;
    for (const Heads& h : all) most = std::max(most, h.count);
    return most;
  }
  // Whether packing the keys for blocks of queries would not be repaid.
  static bool is_decode(const kit::Attention& a, int64_t heads) {
    constexpr int64_t kFewQueries = 4, kFewRows = 16;
    return a.queries <= kFewQueries || a.queries * heads <= kFewRows;
  }

  int64_t chunks() const { return (c_.a.keys + kKeyChunk - 1) / kKeyChunk; }
  int64_t rows() const { return c_.a.queries * most_heads_; }
  int64_t max_units() const {
    const AttentionArgs x = args();
    return c_.a.samples * c_.a.groups * (by_rows_ ? chunks() : x.query_blocks());
  }
  double nanoseconds() const {
    constexpr double kPerByte = 0.06, kPerMultiplication = 0.03;
    const kit::Attention& a = c_.a;
    const double keys =
        static_cast<double>(a.samples * a.keys) * static_cast<double>(a.qk + a.value);
    const auto size = static_cast<double>(kit::dtype_bytes(c_.cache_type));
    return keys * (static_cast<double>(a.groups) * size * kPerByte +
                   static_cast<double>(a.heads * a.queries) * kPerMultiplication);
  }

  double nanoseconds_to_finish() const {
    constexpr double kPerElement = 0.2;
    const kit::Attention& a = c_.a;
    return static_cast<double>(a.samples * a.queries * a.heads * chunks()) *
           static_cast<double>(a.value) * kPerElement;
  }

  static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  uint64_t range_bytes() const {
    return static_cast<uint64_t>(c_.a.samples * c_.a.queries) * sizeof(kit::KeyRange);
  }
  uint64_t slot_bytes() const { return static_cast<uint64_t>(c_.a.samples) * sizeof(int64_t); }
  uint64_t read_bytes() const {
    return by_rows_ ? static_cast<uint64_t>(c_.a.samples * chunks()) * sizeof(Read) : 0;
  }
  DecodeStates states(float* at) const { return {at, rows(), row_distance(c_.a.value)}; }
  uint64_t state_bytes() const {
    if (!by_rows_) return 0;
    return static_cast<uint64_t>(max_units() * states(nullptr).floats()) * sizeof(float);
  }
  // Of one thread.
  int64_t scratch_floats() const {
    const AttentionArgs x = args();
    if (by_rows_) return decode_scratch_floats(x, c_.a.queries * c_.a.heads, rows());
    return std::max(attention_floats(x),
                    decode_scratch_floats(x, 1, 1) + one_row(nullptr).floats());
  }
  uint64_t workspace_bytes() const {
    return rounded(range_bytes()) + rounded(slot_bytes()) + rounded(read_bytes()) +
           rounded(state_bytes()) + rounded(wide_bytes(c_.a.qk)) + rounded(wide_bytes(c_.a.value)) +
           static_cast<uint64_t>(num_threads_ * scratch_floats()) * sizeof(float);
  }

  void fill(const void* slot, const void* at, kit::KeyRange* ranges, int64_t* slots) const {
    for (int64_t b = 0; b < c_.a.samples; ++b) {
      slots[b] = support::read_index(c_.at.slot_type, slot, b);
      for (int64_t i = b * c_.a.queries; i < (b + 1) * c_.a.queries; ++i)
        ranges[i] = c_.at.has_slot(slots[b]) ? c_.keys_at(support::read_index(c_.at.at_type, at, i))
                                             : kit::KeyRange{};
    }
  }
  // Keys that any query of a sample sees; begin >= end: none.
  kit::KeyRange keys_of(const Run& r, int64_t sample) const {
    kit::KeyRange all{c_.a.keys, 0};
    for (int64_t i = sample * c_.a.queries; i < (sample + 1) * c_.a.queries; ++i)
      if (const kit::KeyRange& seen = r.x.ranges[i]; seen.begin < seen.end)
        all = {std::min(all.begin, seen.begin), std::max(all.end, seen.end)};
    return all;
  }
  // All queries of a sample, of the key heads [group, group + groups).
  DecodeRows rows_of(int64_t sample, int64_t group, int64_t groups) const {
    return {.sample = sample,
            .queries = c_.a.queries,
            .group = group,
            .groups = groups,
            .heads = heads_.data() + group};
  }
  int64_t state_of(const Read& read, int64_t group) const {
    return (read.sample * chunks() + read.chunk) * c_.a.groups + group;
  }
  // The chunks that are read; results are 0 where no key is seen. Returns their number.
  int64_t list_reads(const Run& r) const {
    int64_t n = 0;
    for (int64_t b = 0; b < c_.a.samples; ++b) {
      const kit::KeyRange all = keys_of(r, b);
      for (int64_t chunk = all.begin / kKeyChunk; chunk * kKeyChunk < all.end; ++chunk)
        r.reads[n++] = {b, chunk};
      const int64_t size = c_.a.queries * c_.a.heads * c_.a.value;
      if (all.begin >= all.end) std::fill_n(r.x.out + b * size, size, 0.0f);
    }
    return n;
  }

  void run_rows(const Run& r) const {
    const int64_t reads = list_reads(r), n = reads * c_.a.groups;
    on_pool(num_threads_, [&](int64_t t, int64_t all) {
      read_units(r, n * t / all, n * (t + 1) / all, r.scratch + t * scratch_floats());
    });
    in_parallel(num_finishing_, reads, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) finish_sample(r, i, reads);
    });
  }
  // Units [first, last): those of one chunk are read together.
  void read_units(const Run& r, int64_t first, int64_t last, float* scratch) const {
    for (int64_t unit = first, end; unit < last; unit = end) {
      const int64_t group = unit % c_.a.groups;
      const Read& read = r.reads[unit / c_.a.groups];
      end = std::min(last, unit - group + c_.a.groups);
      const kit::KeyRange seen = keys_of(r, read.sample);
      DecodeRows rows = rows_of(read.sample, group, end - unit);
      rows.keys = {std::max(seen.begin, read.chunk * kKeyChunk),
                   std::min(seen.end, (read.chunk + 1) * kKeyChunk)};
      attend_(r.x, rows, scratch, r.states.from(state_of(read, group)));
    }
  }
  // Where read i is the first of its sample, merges them.
  void finish_sample(const Run& r, int64_t i, int64_t reads) const {
    const Read& first = r.reads[i];
    if (i > 0 && r.reads[i - 1].sample == first.sample) return;
    int64_t end = i + 1;
    while (end < reads && r.reads[end].sample == first.sample) ++end;
    for (int64_t group = 0; group < c_.a.groups; ++group)
      finish_(r.x, rows_of(first.sample, group, 1), r.states.from(state_of(first, group)), end - i,
              c_.a.groups);
  }

  void run_blocks(const Run& r) const {
    const int64_t n = max_units();
    on_pool(num_threads_, [&](int64_t t, int64_t all) {
      float* scratch = r.scratch + t * scratch_floats();
      blocks_(r.x, scratch, n * t / all, n * (t + 1) / all);
      for (int64_t i = n * t / all; i < n * (t + 1) / all; ++i) repeat_odd_rows(r, i, scratch);
    });
  }
  // A block multiplies with values that some of its queries do not see, with weight 0. Where these
  // are no numbers, as a cache may have them, the queries are done again one by one.
  void repeat_odd_rows(const Run& r, int64_t unit, float* scratch) const {
    const kit::Attention& a = c_.a;
    const int64_t blocks = r.x.query_blocks(), first = unit % blocks * kQueryBlock,
                  sample = unit / blocks / a.groups, group = unit / blocks % a.groups;
    const Heads& heads = heads_[static_cast<size_t>(group)];
    for (int64_t query = first; query < std::min(first + kQueryBlock, a.queries); ++query)
      for (int64_t head = heads.first; head < heads.first + heads.count; ++head) {
        const float* o = r.x.out + ((sample * a.queries + query) * a.heads + head) * a.value;
        if (!std::all_of(o, o + a.value, [](float v) { return std::isfinite(v); }))
          repeat_row(r, sample, query, group, head, scratch);
      }
  }
  DecodeStates one_row(float* at) const { return {at, 1, row_distance(c_.a.value)}; }
  void repeat_row(const Run& r, int64_t sample, int64_t query, int64_t group, int64_t head,
                  float* scratch) const {
    const Heads one{head, 1};
    const DecodeRows rows{.sample = sample,
                          .query = query,
                          .queries = 1,
                          .group = group,
                          .groups = 1,
                          .heads = &one,
                          .keys = r.x.ranges[sample * c_.a.queries + query]};
    const DecodeStates state = one_row(scratch + decode_scratch_floats(r.x, 1, 1));
    attend_(r.x, rows, scratch, state);
    finish_(r.x, rows, state, 1, 1);
  }

  kit::CachedAttention c_;
  uint32_t type_;             // of q and of the result
  std::vector<Heads> heads_;  // by key head
  int64_t most_heads_;
  bool by_rows_;
  int num_threads_, num_finishing_;
  AttentionUnits blocks_ = attention_by_blocks();
  DecodeAttend attend_ = pick_decode_attend();
  DecodeFinish finish_ = pick_decode_finish();
};

}  // namespace plait::cpu
