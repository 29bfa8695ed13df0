#include "plugins/support/host_queue.hpp"

#include <cstring>
#include <new>
#include <string>

namespace plait::support {

void HostGraph::add(GraphStep step, void* const* operands, uint32_t n) {
  first_.push_back(operands_.size());
  operands_.insert(operands_.end(), operands, operands + n);
  steps_.push_back(step);
}

void HostGraph::finish() {
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i].operands = operands_.data() + first_[i];
}

plait_error* error_from_exception(const GraphStep& step, const plait_host* host) noexcept try {
  uint32_t code = PLAIT_ERR_PLUGIN;
  std::string what;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    code = PLAIT_ERR_MEMORY;
    what = "threw: out of memory";
  } catch (const std::exception& e) {
    what = std::string("threw: ") + e.what();
  } catch (...) {
    what = "threw what is no std::exception";
  }
  const std::string name = step.item ? step.item->name : "copy",
                    op = step.item ? step.item->op : "";
  const std::string text = "run() of kernel '" + name + "' of op '" + op + "' " + what +
                           "; no exception may leave a plugin: tell its author";
  return host->error_new(code, text.data(), text.size(), nullptr);
} catch (...) {  // no memory for the text
  return host->error_new(PLAIT_ERR_MEMORY, "a kernel threw", PLAIT_NTS, nullptr);
}

plait_error* with_kernel_name(const GraphStep& step, const plait_host* host,
                              plait_error* error) try {
  if (!step.item || !step.item->prepare) return error;
  const std::string text =
      std::string("kernel '") + step.item->name + "' of op '" + step.item->op + "' failed";
  return host->error_new(host->error_code(error), text.data(), text.size(), error);
} catch (...) {  // no memory for the text
  return error;
}

plait_error* run_copy(const plait_kernel*, plait_queue*, void* const* operands, void*) {
  if (const auto bytes = reinterpret_cast<uintptr_t>(operands[2]))
    std::memmove(operands[0], operands[1], bytes);
  return nullptr;
}

}  // namespace plait::support
