// plait/plugin/kernel.hpp - kernels as classes, and reading the attributes of an op.
#pragma once

#include <plait/device.h>
#include <plait/map.h>
#include <plait/op.h>
#include <plait/plugin/error.hpp>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace plait {
inline namespace authoring {

namespace detail {

// The functions of plait_kernel_item for a Box{host, kernel}, nullptr where its kernel has none.
template <class Box>
decltype(plait_kernel_item::tune) tune_of() {
  if constexpr (requires(const Box& box, plait_device* d) { box.kernel.tune(d); })
    return [](plait_device* d, const plait_kernel* k, plait_algorithm* out) -> plait_error* {
      auto* box = reinterpret_cast<const Box*>(k);
      return guard(maker(box->host), [&] { *out = box->kernel.tune(d); });
    };
  else
    return nullptr;
}
template <class Box>
decltype(plait_kernel_item::adopt) adopt_of() {
  if constexpr (requires(Box & box, const plait_algorithm& a) { box.kernel.adopt(a); })
    return [](plait_kernel* k, const plait_algorithm* algorithm) -> plait_error* {
      auto* box = reinterpret_cast<Box*>(k);
      return guard(maker(box->host), [&] { box->kernel.adopt(*algorithm); });
    };
  else
    return nullptr;
}

}  // namespace detail

// A kernel made of a class K:
//   static bool select(const plait_op_desc&, plait_choice&, std::string& why)
//   K(plait_device*, const plait_op_desc&)
//   void run(plait_queue*, void* const* operands, void* workspace) const
// and, if it has several algorithms, both of
//   plait_algorithm tune(plait_device*) const
//   void adopt(const plait_algorithm&)
// All of them may throw. select() sets `why` to the reason of its answer.
template <class K>
plait_kernel_item kernel(const char* name, const char* op, const char* device, int32_t priority) {
  struct Box {
    const plait_host* host;
    K kernel;
    Box(const plait_host* h, plait_device* d, const plait_op_desc& desc)
        : host(h), kernel(d, desc) {}
  };
  return {sizeof(plait_kernel_item),
          name,
          op,
          device,
          priority,
          0,
          [](const plait_op_desc* desc, plait_choice* choice) -> uint32_t {
            uint32_t taken = 0;
            std::string why;
            try {
              taken = K::select(*desc, *choice, why) ? 1 : 0;
            } catch (const std::exception& e) {
              why = e.what();
            } catch (...) {
              why = "select() threw";
            }
            if (choice->detail && choice->detail_size)
              std::snprintf(choice->detail, choice->detail_size, "%s", why.c_str());
            return taken;
          },
          [](const plait_host* h, plait_device* d, const plait_op_desc* desc,
             plait_kernel** out) -> plait_error* {
            return detail::guard(detail::maker(h), [&] {
              *out = reinterpret_cast<plait_kernel*>(new Box(h, d, *desc));
            });
          },
          [](const plait_kernel* k, plait_queue* q, void* const* operands,
             void* workspace) -> plait_error* {
            auto* box = reinterpret_cast<const Box*>(k);
            return detail::guard(detail::maker(box->host),
                                 [&] { box->kernel.run(q, operands, workspace); });
          },
          [](plait_kernel* k) { delete reinterpret_cast<Box*>(k); },
          0,
          0,
          detail::tune_of<Box>(),
          detail::adopt_of<Box>()};
}

// find_attr() returns an attribute of an op, or nullptr; the others return its value, or the
// fallback if the op does not have it.
inline const plait_attr* find_attr(const plait_op_desc& d, std::string_view name) {
  for (uint32_t i = 0; i < d.n_attrs; ++i)
    if (name == d.attrs[i].name) return &d.attrs[i];
  return nullptr;
}
inline int64_t int_attr(const plait_op_desc& d, const char* name, int64_t fallback) {
  const plait_attr* a = find_attr(d, name);
  return a ? a->i : fallback;
}
inline double real_attr(const plait_op_desc& d, const char* name, double fallback) {
  const plait_attr* a = find_attr(d, name);
  return a ? a->f : fallback;
}
inline std::string_view text_attr(const plait_op_desc& d, const char* name,
                                  std::string_view fallback) {
  const plait_attr* a = find_attr(d, name);
  return a && a->text ? std::string_view(a->text) : fallback;
}
inline std::span<const int64_t> ints_attr(const plait_op_desc& d, const char* name) {
  const plait_attr* a = find_attr(d, name);
  return a ? std::span<const int64_t>(a->ints, a->n) : std::span<const int64_t>();
}

}  // namespace authoring
}  // namespace plait
