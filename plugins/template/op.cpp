// An op of your own and a kernel for it: only where the ops there are cannot say what you need. The
// rule of shapes and the rule of gradients are written once; each device wants a kernel.
#include <plait/op.h>

#include "plugins/template/template.hpp"

namespace plait::null {
namespace {

plait_error* PLAIT_CALL infer(const plait_host* host, const plait_op_desc*, plait_shape*) {
  return detail::guard(detail::maker(host), [] { unimplemented("op 'template.op'", "infer()"); });
}

plait_error* PLAIT_CALL gradient(plait_builder* b, const plait_op_use*, plait_value*) {
  return detail::guard(detail::maker(b),
                       [] { unimplemented("the gradient of op 'template.op'", "gradient()"); });
}

// A kernel refuses what it cannot do, and says why; the engine then asks the next one.
class Kernel {
 public:
  static bool select(const plait_op_desc&, plait_choice&, std::string& why) {
    why = "unimplemented";
    return false;
  }
  Kernel(plait_device*, const plait_op_desc&) {
    unimplemented("kernel 'template'", "class Kernel");
  }
  void run(plait_queue*, void* const*, void*) const {}
};

}  // namespace

void add_op_and_kernel(const Host& host) {
  static const plait_op_item op = {sizeof(plait_op_item),
                                   "template.op",
                                   "what the op computes, in one line",
                                   1,
                                   0,
                                   infer,
                                   gradient,
                                   nullptr,  // flops: one per element
                                   nullptr,  // attributes: none declared, so any are passed on
                                   0,
                                   0,
                                   nullptr};  // sharding rule: it needs replicated inputs
  static const auto kernel = plait::kernel<Kernel>("template", "template.op", "template.device", 0);
  host.add(op);
  host.add(kernel);
}

}  // namespace plait::null
