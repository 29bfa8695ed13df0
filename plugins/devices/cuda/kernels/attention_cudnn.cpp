// dot_product_attention by cuDNN, where the experiment allows it (attribute `library`). Which
// machine has the library is not known to select(): without it, or where it does not take a call,
// prepare() warns and a kernel of ours computes. The gradient stays with ours, from the same lse.
#include <cfloat>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "kit/ops/attention.hpp"
#include "plugins/devices/cuda/attention/sdpa.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/queue.hpp"

namespace plait::cuda {
namespace {

constexpr int32_t kPriority = 20;  // before the tiles of attention.cpp
constexpr uint64_t kGiven = 64;    // the alignment of a workspace of the engine

// The call as a kernel of ours takes it, which is the one that the engine would choose.
class OwnAttention {
 public:
  explicit OwnAttention(const plait_op_desc& d) : desc_(d) {
    for (uint32_t i = 0; i < d.n_attrs; ++i)
      if (std::string_view(d.attrs[i].name) != "library") attrs_.push_back(d.attrs[i]);
    desc_.attrs = attrs_.data();
    desc_.n_attrs = static_cast<uint32_t>(attrs_.size());
    choose();
  }
  OwnAttention(const OwnAttention&) = delete;
  OwnAttention& operator=(const OwnAttention&) = delete;
  bool found() const { return item_.select != nullptr; }
  uint64_t workspace() const { return workspace_; }
  std::string name() const { return item_.name; }
  const plait_kernel_item& item() const { return item_; }
  plait_kernel* prepare(plait_device* device) const {
    plait_kernel* out = nullptr;
    plait::check(item_.prepare(device_of(device).host().raw(), device, &desc_, &out));
    return out;
  }

 private:
  void choose() {
    for (const plait_kernel_item& item : kernels()) {
      const bool better = !found() || item.priority > item_.priority;
      if (std::string_view(item.op) != desc_.op || item.priority >= kPriority || !better) continue;
      plait_choice choice{sizeof(plait_choice), 0, nullptr, 0};
      if (item.select(&desc_, &choice) != 1) continue;
      item_ = item;
      workspace_ = choice.workspace;
    }
  }

  std::vector<plait_attr> attrs_;
  plait_op_desc desc_;
  plait_kernel_item item_{};
  uint64_t workspace_ = 0;
};

bool takes(const kit::Attention& a, uint32_t dtype, std::string& why) {
  const auto refuse = [&](const char* reason) {
    why = std::string("cuDNN: ") + reason;
    return false;
  };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (dtype != PLAIT_BF16 && dtype != PLAIT_F16) return refuse("not bf16 or f16");
  if (a.qk % 8 != 0 || a.value % 8 != 0 || a.qk > 128 || a.value > 128)
    return refuse("not 8, 16, ... or 128 channels");
  if (a.dropout > 0) return refuse("not with dropout");
  if (a.window > 0 || a.has_first) return refuse("not with a window or documents");
  if (a.softcap > 0) return refuse("not with softcap");
  if (!(a.scale >= FLT_MIN && a.scale <= FLT_MAX / 2))
    return refuse("scale is not above 0, or no f32");
  for (const int64_t n : {a.samples, a.queries, a.keys, a.heads, a.groups, a.qk, a.value})
    if (n < 1 || n > kMost) return refuse("an extent is 0 or above 2^31 - 1");
  if (a.heads % a.groups != 0) return refuse("a part of the heads that shares key heads");
  for (int64_t h = 0; h < a.heads; ++h)
    if (a.group_of(h) != h * a.groups / a.heads)
      return refuse("a part of the heads that shares key heads");
  if (!a.library) return refuse("only with precision.library_attention = true");
  return true;
}

class CudnnAttention {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Attention a = kit::parse_attention(d, kit::Library::kKnown);
    if (!takes(a, d.inputs[0].dtype, why)) return false;
    const OwnAttention own(d);
    kit::need(own.found(), "no kernel of ours takes this attention");
    choice.workspace = std::max(own.workspace(), sdpa_workspace() + kSdpaAlignment - kGiven);
    why = "cuDNN where the machine has it and takes this, otherwise the kernel " + own.name();
    return true;
  }
  CudnnAttention(plait_device* device, const plait_op_desc& d) {
    const kit::Attention a = kit::parse_attention(d, kit::Library::kKnown);
    Device& on = device_of(device);
    try {
      const CurrentContext current(on.context());
      const Cudnn& library = on.open_cudnn();
      sdpa_ = std::make_unique<Sdpa>(on.shared<PlanHandle>().handle, desc_of(a, d.inputs[0].dtype));
      on.describe_more("attention by cuDNN " + cudnn_version_text(library.version));
      return;
    } catch (const Error& e) {
      if (e.code() != PLAIT_ERR_DEVICE) throw;
      on.warn_once(
          "[cuda] attention stays with Plait's kernels, although precision.library_attention is "
          "true: " +
          without_part(e.what()));
      on.describe_more("attention by own kernels, not by cuDNN");
    }
    const OwnAttention own(d);
    own_item_ = own.item();
    own_ = {own.prepare(device), own_item_.release};
  }

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    if (own_) return plait::check(own_item_.run(own_.get(), queue, operands, workspace));
    constexpr uintptr_t kMask = kSdpaAlignment - 1;
    auto* scratch =
        reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace) + kMask) & ~kMask);
    sdpa_->run(queue_of(queue).cudnn(),
               {operands[0], operands[1], operands[2], operands[3], operands[4], scratch});
  }

 private:
  // For making plans, which needs no stream. One of each device.
  struct PlanHandle {
    explicit PlanHandle(Device& device) : handle(device.open_cudnn(), nullptr) {}
    CudnnHandle handle;
  };
  static SdpaDesc desc_of(const kit::Attention& a, uint32_t dtype) {
    return {a.samples,       a.queries,
            a.keys,          a.heads,
            a.groups,        a.qk,
            a.value,         dtype,
            a.causal,        static_cast<float>(a.scale),
            sdpa_workspace()};
  }
  // A message inside another does not name the part again.
  static std::string without_part(std::string text) {
    constexpr std::string_view kPart = "[cuda] ";
    for (size_t at = text.find(kPart); at != std::string::npos; at = text.find(kPart))
      text.erase(at, kPart.size());
    return text;
  }

  std::unique_ptr<Sdpa> sdpa_;
  plait_kernel_item own_item_{};
  std::unique_ptr<plait_kernel, void (*)(plait_kernel*)> own_{nullptr, [](plait_kernel*) {}};
};

}  // namespace

void add_attention_cudnn(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CudnnAttention>("cudnn", "dot_product_attention", "cuda", kPriority));
}

}  // namespace plait::cuda
