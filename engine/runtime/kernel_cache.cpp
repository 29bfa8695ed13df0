#include "engine/runtime/kernel_cache.hpp"

#include <plait/option.h>

#include <cstddef>
#include <cstring>

#include "engine/base/c_error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/products.hpp"

namespace plait::runtime {
namespace {

class Bytes {
 public:
  template <class T>
  void number(T v) {
    static_assert(std::is_arithmetic_v<T>);
    text_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void text(const char* t) {
    const size_t size = t ? std::strlen(t) : 0;
    number(size);
    if (size) text_.append(t, size);
  }
  void shapes(const plait_shape* shapes, uint32_t n) {
    number(n);
    for (uint32_t i = 0; shapes && i < n; ++i) {
      number(shapes[i].dtype);
      number(shapes[i].ndim);
      for (uint32_t d = 0; d < shapes[i].ndim; ++d) number(shapes[i].dims[d]);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_attr(Bytes& to, const plait_attr& a) {
  to.text(a.name);
  to.number(a.type);
  to.number(a.i);
  to.number(a.f);
  to.text(a.text);
  const uint32_t n = a.type == PLAIT_OPT_INTS ? a.n : 0;
  to.number(n);
  for (uint32_t k = 0; k < n; ++k) to.number(a.ints[k]);
}

void add_map(Bytes& to, const plait_map& map) {
  to.number(map.n_inputs);
  to.number(map.n_instrs);
  for (uint32_t i = 0; i < map.n_instrs; ++i) {
    const plait_map_instr& one = map.instrs[i];
    for (const uint32_t word : {one.op, one.a, one.b, one.c}) to.number(word);
    to.number(one.value);
  }
  to.number(map.n_outputs);
  for (uint32_t i = 0; i < map.n_outputs; ++i) to.number(map.outputs[i]);
}

}  // namespace

std::string signature_of(const plait_op_desc& desc) {
  Bytes b;
  b.text(desc.op);
  b.number(desc.threads);
  b.shapes(desc.inputs, desc.n_inputs);
  b.shapes(desc.outputs, desc.n_outputs);
  b.number(desc.n_attrs);
  for (uint32_t i = 0; i < desc.n_attrs; ++i) add_attr(b, desc.attrs[i]);
  for (uint32_t i = 0; i < desc.n_outputs; ++i) b.number(desc.alias ? desc.alias[i] : -1);
  b.number(desc.map ? 1 : 0);
  if (desc.map) add_map(b, *desc.map);
  return b.take();
}

bool works_on_host(const plait_kernel_item& item) {
  constexpr size_t kSize = offsetof(plait_kernel_item, flags) + sizeof(item.flags);
  return item.struct_size >= kSize && (item.flags & PLAIT_KERNEL_HOST) != 0;
}

KernelCache::~KernelCache() {
  for (const Prepared& p : kernels_)
    if (!device_->keeps(p.kernel))
      call_plugin_noexcept(registry_->host_of(p.item), {"", "release", "kernel", p.item->name},
                           [&] { p.item->release(p.kernel); });
}

plait_kernel* KernelCache::get(const plait_kernel_item& item, const plait_op_desc& desc,
                               const std::string& where) {
  std::string key = signature_of(desc);
  const std::string on_all_ranks = hash128(key + item.name).hex();
  const auto address = reinterpret_cast<uintptr_t>(&item);
  key.append(reinterpret_cast<const char*>(&address), sizeof address);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  // Reserves first: a prepared kernel must not be lost because the list cannot grow.
  if (kernels_.size() == kernels_.capacity()) kernels_.reserve(2 * kernels_.size() + 16);
  plait_kernel* kernel = nullptr;
  const std::string& plugin = registry_->plugin_of(&item);
  const auto prepare = [&] {
    return item.prepare(registry_->host_of(&item), device_->handle(), &desc, &kernel);
  };
  check_plugin({plugin, "prepare", "kernel", item.name}, "preparing " + where, prepare);
  kernels_.push_back({&item, kernel});
  if (plan::can_tune(item)) tunables_.push_back({&item, kernel, plugin, where, on_all_ranks});
  if (!works_on_host(item)) known_.emplace(std::move(key), kernel);
  return kernel;
}

}  // namespace plait::runtime
