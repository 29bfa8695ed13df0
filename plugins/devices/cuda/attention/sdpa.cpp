#include "plugins/devices/cuda/attention/sdpa.hpp"

#include <plait/tensor.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <optional>
#include <plait/plugin.hpp>
#include <vector>

#include "plugins/support/cuda/relaxed_capture.hpp"

namespace plait::cuda {
namespace {

using dnn::Attribute;
using dnn::Data;
using dnn::Kind;
using dnn::Type;

// Tensors of the graph that have memory. Others are virtual: they live in registers.
enum Id : int64_t { kQ = 1, kK, kV, kO, kLse, kScale, kMasked, kFirstVirtual };

// A score that the mask takes away: no other one is less. Finite, so that no difference of two is
// NaN; exp of its difference to any other score is 0.
constexpr float kMaskedScore = std::numeric_limits<float>::lowest();

using Extents = std::array<int64_t, 4>;  // of samples, heads, tokens, channels

Extents packed(const Extents& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

std::string text(const SdpaDesc& d) {
  return "attention of " + std::to_string(d.samples) + " x " + std::to_string(d.queries) + " x " +
         std::to_string(d.heads) + " queries and " + std::to_string(d.keys) + " x " +
         std::to_string(d.groups) + " keys of " + std::to_string(d.qk) + " channels";
}

// Writes the graph. cuDNN recognises attention by its operations and their order: product, scale,
// mask, softmax in parts, product.
class Writer {
 public:
  Writer(const Cudnn& library, const SdpaDesc& d, std::deque<CudnnDescriptor>& keep)
      : library_(library), d_(d), keep_(keep) {}

  std::vector<dnn::Descriptor> write() {
    const SdpaDesc& d = d_;
    const Data type = d.type == PLAIT_F16 ? Data::f16 : Data::bf16;
    const Extents scores{d.samples, d.heads, d.queries, d.keys};
    const Extents rows{d.samples, d.heads, d.queries, 1};
    // Operands are stored token by token: the heads of a token lie side by side.
    const auto q = operand(kQ, type, {d.samples, d.heads, d.queries, d.qk},
                           {d.queries * d.heads * d.qk, d.qk, d.heads * d.qk, 1});
    const auto k = operand(kK, type, {d.samples, d.groups, d.qk, d.keys},
                           {d.keys * d.groups * d.qk, d.qk, 1, d.groups * d.qk});
    const auto v = operand(kV, type, {d.samples, d.groups, d.keys, d.value},
                           {d.keys * d.groups * d.value, d.value, d.groups * d.value, 1});
    const auto o = operand(kO, type, {d.samples, d.heads, d.queries, d.value},
                           {d.queries * d.heads * d.value, d.value, d.heads * d.value, 1});
    const auto lse = operand(kLse, Data::f32, rows, packed(rows));

    auto s = between(Data::f32, scores);
    multiply(q, k, s);
    s = pointwise(dnn::Pointwise::mul, Data::f32, scores, s, constant(kScale));
    if (d.causal) s = mask(s, scores);
    const auto most = between(Data::f32, rows), sum = between(Data::f32, rows);
    reduce(dnn::Reduction::max, s, most);
    const auto below = pointwise(dnn::Pointwise::sub, Data::f32, scores, s, most);
    const auto weights = pointwise(dnn::Pointwise::exp, Data::f32, scores, below);
    reduce(dnn::Reduction::add, weights, sum);
    const auto log = pointwise(dnn::Pointwise::log, Data::f32, rows, sum);
    apply(dnn::Pointwise::add, Data::f32, most, log, nullptr, lse);
    const auto p = pointwise(dnn::Pointwise::div, type, scores, weights, sum);
    multiply(p, v, o);
    return operations_;
  }

 private:
  CudnnDescriptor& add(Kind kind, const char* what) {
    return keep_.emplace_back(library_, kind, what);
  }
  dnn::Descriptor done(CudnnDescriptor& d) {
    d.finalize();
    return d.raw();
  }

  enum class Place { memory, virtual_, by_value };
  dnn::Descriptor tensor(int64_t id, Data type, const Extents& dims, const Extents& strides,
                         Place place) {
    constexpr int64_t kAligned = 16;
    CudnnDescriptor& t = add(Kind::tensor, "a tensor of attention");
    t.set(Attribute::tensor_id, Type::int64, id);
    t.set(Attribute::tensor_type, Type::data_type, type);
    t.set(Attribute::tensor_dims, Type::int64, dims.data(), 4);
    t.set(Attribute::tensor_strides, Type::int64, strides.data(), 4);
    t.set(Attribute::tensor_alignment, Type::int64, kAligned);
    if (place == Place::virtual_) t.set(Attribute::tensor_virtual, Type::boolean, true);
    if (place == Place::by_value) t.set(Attribute::tensor_by_value, Type::boolean, true);
    return done(t);
  }
  dnn::Descriptor operand(Id id, Data type, const Extents& dims, const Extents& strides) {
    return tensor(id, type, dims, strides, Place::memory);
  }
  dnn::Descriptor constant(Id id) {
    const Extents one{1, 1, 1, 1};
    return tensor(id, Data::f32, one, one, Place::by_value);
  }
  dnn::Descriptor between(Data type, const Extents& dims) {
    return tensor(next_++, type, dims, packed(dims), Place::virtual_);
  }

  void multiply(dnn::Descriptor a, dnn::Descriptor b, dnn::Descriptor c) {
    CudnnDescriptor& how = add(Kind::matmul, "a product of attention");
    how.set(Attribute::matmul_precision, Type::data_type, Data::f32);
    const dnn::Descriptor raw = done(how);
    CudnnDescriptor& op = add(Kind::matmul_operation, "a product of attention");
    op.set(Attribute::matmul_a, Type::descriptor, a);
    op.set(Attribute::matmul_b, Type::descriptor, b);
    op.set(Attribute::matmul_c, Type::descriptor, c);
    op.set(Attribute::matmul_operation, Type::descriptor, raw);
    operations_.push_back(done(op));
  }
  void reduce(dnn::Reduction what, dnn::Descriptor x, dnn::Descriptor y) {
    CudnnDescriptor& how = add(Kind::reduction, "a sum of attention");
    how.set(Attribute::reduction_operator, Type::reduction_operator, what);
    how.set(Attribute::reduction_precision, Type::data_type, Data::f32);
    const dnn::Descriptor raw = done(how);
    CudnnDescriptor& op = add(Kind::reduction_operation, "a sum of attention");
    op.set(Attribute::reduction_x, Type::descriptor, x);
    op.set(Attribute::reduction_y, Type::descriptor, y);
    op.set(Attribute::reduction_operation, Type::descriptor, raw);
    operations_.push_back(done(op));
  }
  // y = what(x, b), or of select t ? x : b. axis: of an index.
  void apply(dnn::Pointwise what, Data precision, dnn::Descriptor x, dnn::Descriptor b,
             dnn::Descriptor t, dnn::Descriptor y, int64_t axis = -1) {
    CudnnDescriptor& how = add(Kind::pointwise, "an element-wise step of attention");
    how.set(Attribute::pointwise_mode, Type::pointwise_mode, what);
    how.set(Attribute::pointwise_precision, Type::data_type, precision);
    if (axis >= 0) how.set(Attribute::pointwise_axis, Type::int64, axis);
    const dnn::Descriptor raw = done(how);
    CudnnDescriptor& op = add(Kind::pointwise_operation, "an element-wise step of attention");
    op.set(Attribute::pointwise_operation, Type::descriptor, raw);
    op.set(Attribute::pointwise_x, Type::descriptor, x);
    if (b) op.set(Attribute::pointwise_b, Type::descriptor, b);
    if (t) op.set(Attribute::pointwise_t, Type::descriptor, t);
    op.set(Attribute::pointwise_y, Type::descriptor, y);
    operations_.push_back(done(op));
  }
  // A result of `type`, computed in f32.
  dnn::Descriptor pointwise(dnn::Pointwise what, Data type, const Extents& dims, dnn::Descriptor x,
                            dnn::Descriptor b = nullptr) {
    const auto y = between(type, dims);
    apply(what, Data::f32, x, b, nullptr, y);
    return y;
  }
  // Query t sees key s where t >= s.
  dnn::Descriptor mask(dnn::Descriptor scores, const Extents& dims) {
    const auto row = between(Data::i32, dims), column = between(Data::i32, dims);
    apply(dnn::Pointwise::index, Data::f32, scores, nullptr, nullptr, row, 2);
    apply(dnn::Pointwise::index, Data::f32, scores, nullptr, nullptr, column, 3);
    const auto sees = between(Data::boolean, dims);
    apply(dnn::Pointwise::greater_or_equal, Data::boolean, row, column, nullptr, sees);
    const auto masked = between(Data::f32, dims);
    apply(dnn::Pointwise::select, Data::f32, scores, constant(kMasked), sees, masked);
    return masked;
  }

  const Cudnn& library_;
  const SdpaDesc& d_;
  std::deque<CudnnDescriptor>& keep_;
  std::vector<dnn::Descriptor> operations_;
  int64_t next_ = kFirstVirtual;
};

}  // namespace

struct Sdpa::Parts {
  std::deque<CudnnDescriptor> graph;  // tensors and operations, the graph, what led to the plan
  std::optional<CudnnDescriptor> plan;
  const float masked = kMaskedScore;
};

// cuDNN 9.19 asks for at most 256 bytes, on every architecture from 8.0 on.
uint64_t sdpa_workspace() { return 64 << 10; }

Sdpa::Sdpa(const Cudnn& library, const SdpaDesc& desc)
    : library_(library), desc_(desc), parts_(std::make_unique<Parts>()) {}
Sdpa::Sdpa(const CudnnHandle& handle, const SdpaDesc& desc) : Sdpa(handle.library(), desc) {
  choose(handle.get(), nullptr);
}
Sdpa::Sdpa(const Cudnn& library, const std::string& device, const SdpaDesc& desc)
    : Sdpa(library, desc) {
  CudnnDescriptor d(library, Kind::device, "a GPU");
  d.set(Attribute::device_json, Type::characters, device.data(),
        static_cast<int64_t>(device.size()));
  d.finalize();
  choose(nullptr, d.raw());
}
// Of a forked process the descriptors are the other's.
Sdpa::~Sdpa() {
  if (forked()) static_cast<void>(parts_.release());
}

void Sdpa::choose(dnn::Handle handle, dnn::Descriptor device) {
  auto& keep = parts_->graph;
  const auto operations = Writer(library_, desc_, keep).write();
  CudnnDescriptor& graph = keep.emplace_back(library_, Kind::graph, "attention");
  graph.set(Attribute::graph_operations, Type::descriptor, operations.data(),
            static_cast<int64_t>(operations.size()));
  if (handle) graph.set(Attribute::graph_handle, Type::handle, handle);
  graph.finalize();
  CudnnDescriptor& heuristics =
      keep.emplace_back(library_, Kind::heuristics, "the choice of a plan");
  heuristics.set(Attribute::heuristics_graph, Type::descriptor, graph.raw());
  heuristics.set(Attribute::heuristics_mode, Type::heuristics_mode, dnn::Heuristics::a);
  if (device) heuristics.set(Attribute::heuristics_device, Type::descriptor, device);
  heuristics.finalize();

  constexpr int64_t kMost = 8;
  std::vector<const CudnnDescriptor*> configs;
  std::vector<dnn::Descriptor> raw;
  for (int64_t i = 0; i < kMost; ++i) {
    configs.push_back(&keep.emplace_back(library_, Kind::engine_config, "a plan"));
    raw.push_back(configs.back()->raw());
  }
  const int64_t found =
      heuristics.get(Attribute::heuristics_results, Type::descriptor, raw.data(), kMost);
  std::string why;
  for (int64_t i = 0; i < std::min(found, kMost) && !parts_->plan; ++i)
    try_plan(*configs[static_cast<size_t>(i)], handle, device, why);
  if (!parts_->plan)
    fail(PLAIT_ERR_DEVICE, "[cuda] cuDNN " + cudnn_version_text(library_.version) +
                               " does not take " + text(desc_) + ": " +
                               (why.empty() ? "it names no plan" : why));
}

// Whether the engine of a plan gives the same bits each time.
bool Sdpa::repeats(const CudnnDescriptor& config) const {
  CudnnDescriptor engine(library_, Kind::engine, "an engine of attention");
  dnn::Descriptor raw = engine.raw();
  config.get(Attribute::config_engine, Type::descriptor, &raw, 1);
  std::array<dnn::Note, dnn::kNotes> notes{};
  const int64_t n =
      engine.get(Attribute::engine_notes, Type::numerical_note, notes.data(), dnn::kNotes);
  const auto end = notes.begin() + std::clamp<int64_t>(n, 0, dnn::kNotes);
  return std::find(notes.begin(), end, dnn::Note::nondeterministic) == end;
}

// What the library compiles for a plan takes a second or more: the other questions come first.
void Sdpa::try_plan(const CudnnDescriptor& config, dnn::Handle handle, dnn::Descriptor device,
                    std::string& why) {
  const auto refuse = [&why](const std::string& reason) {
    if (why.find(reason) == std::string::npos) why += (why.empty() ? "" : "; ") + reason;
  };
  const auto too_large = [&](int64_t bytes) {
    const bool more = bytes < 0 || static_cast<uint64_t>(bytes) > desc_.workspace;
    if (more)
      refuse("its plan needs a workspace of " + std::to_string(bytes) + " bytes, more than " +
             std::to_string(desc_.workspace));
    return more;
  };
  try {
    if (!repeats(config)) return refuse("its plan rounds otherwise each time");
    int64_t bytes = 0;
    config.get(Attribute::config_workspace, Type::int64, &bytes, 1);
    if (too_large(bytes)) return;
    CudnnDescriptor plan(library_, Kind::plan, "a plan of attention");
    plan.set(Attribute::plan_config, Type::descriptor, config.raw());
    if (handle) plan.set(Attribute::plan_handle, Type::handle, handle);
    if (device) plan.set(Attribute::plan_device, Type::descriptor, device);
    plan.finalize();
    plan.get(Attribute::plan_workspace, Type::int64, &bytes, 1);
    if (too_large(bytes)) return;
    parts_->plan.emplace(std::move(plan));
  } catch (const Error& e) {  // another plan may do
    refuse(e.what());
  }
}

void Sdpa::run(const CudnnHandle& handle, const SdpaOperands& o) const {
  const int64_t ids[] = {kQ, kK, kV, kO, kLse, kScale, kMasked};
  const void* const pointers[] = {o.q, o.k, o.v, o.o, o.lse, &desc_.scale, &parts_->masked};
  const int64_t n = desc_.causal ? 7 : 6;
  // The library allocates for it: without CUDA graphs in each step, else when a step is captured.
  CudnnDescriptor pack(library_, Kind::variant_pack, "the operands of attention");
  pack.set(Attribute::pack_ids, Type::int64, ids, n);
  pack.set(Attribute::pack_pointers, Type::pointer, pointers, n);
  pack.set(Attribute::pack_workspace, Type::pointer, o.workspace);
  pack.finalize();
  const RelaxedCapture relaxed;  // code is loaded when it is first run
  const dnn::Status s = library_.cudnnBackendExecute(handle.get(), parts_->plan->raw(), pack.raw());
  if (s != 0) check(library_, s, text(desc_) + " by cuDNN");
}

}  // namespace plait::cuda
