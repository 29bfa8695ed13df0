#include "plugins/devices/cpu/map/map.hpp"

#include <utility>

#include "plugins/devices/cpu/map/expr.hpp"
#include "plugins/devices/cpu/map/interp/kernel.hpp"
#include "plugins/devices/cpu/map/jit/kernel.hpp"
#include "plugins/devices/cpu/map/layout.hpp"

namespace plait::cpu {
namespace {

using jit::Isa;

constexpr std::pair<std::string_view, Isa> kGenerated[] = {{"jit_avx512", Isa::kAvx512},
                                                           {"jit_avx2", Isa::kAvx2}};

// The name of the best kernel; `why` receives the refusals of the better ones.
std::string_view best_kernel(const MapDesc& desc, std::string& why) {
  for (const auto& [name, isa] : kGenerated) {
    const std::string refused = jit::refusal(isa, desc);
    if (refused.empty()) {
      if (why.empty()) why = "generated code for the widest vectors of this machine";
      return name;
    }
    why += (why.empty() ? "" : "; ") + refused;
  }
  return "interpreter";
}

}  // namespace

MapKernel::~MapKernel() = default;

MapChoice choose_map(const MapDesc& desc) {
  const Expr expr = read_expr(desc);
  Layout layout = make_layout(desc);
  MapChoice choice;
  choice.kernel = best_kernel(desc, choice.why);
  if (choice.kernel == "interpreter")
    choice.workspace_bytes = interp::make_kernel(desc, expr, std::move(layout))->workspace_bytes();
  return choice;
}

std::unique_ptr<MapKernel> make_map(const MapDesc& desc) {
  const Expr expr = read_expr(desc);
  Layout layout = make_layout(desc);
  std::string why;
  const std::string_view name = best_kernel(desc, why);
  for (const auto& [generated, isa] : kGenerated)
    if (name == generated) return jit::make_kernel(isa, desc, expr, std::move(layout));
  return interp::make_kernel(desc, expr, std::move(layout));
}

std::unique_ptr<MapKernel> make_map(const MapDesc& desc, std::string_view kernel) {
  const Expr expr = read_expr(desc);
  Layout layout = make_layout(desc);
  if (kernel == "interpreter") return interp::make_kernel(desc, expr, std::move(layout));
  for (const auto& [name, isa] : kGenerated) {
    if (kernel != name) continue;
    const std::string refused = jit::refusal(isa, desc);
    if (!refused.empty()) fail_map(PLAIT_ERR_UNIMPLEMENTED, refused + "; take \"interpreter\"");
    return jit::make_kernel(isa, desc, expr, std::move(layout));
  }
  fail_map(PLAIT_ERR_UNIMPLEMENTED,
           "no kernel is named \"" + std::string(kernel) +
               "\"; there are \"jit_avx512\", \"jit_avx2\" and \"interpreter\"");
}

}  // namespace plait::cpu
