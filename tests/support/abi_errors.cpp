// The host's own error type.
#include <atomic>

#include "tests/support/abi_host.hpp"

struct plait_error {
  uint32_t code;
  std::string text;
};

namespace abi_host {
namespace {
std::atomic<long> errors{0};
}

plait_error* error_new(uint32_t code, const char* text, uint64_t size, plait_error* cause) {
  ++errors;
  auto* e = new plait_error{code, size == PLAIT_NTS ? std::string(text) : std::string(text, size)};
  if (cause) {
    e->text += ": " + cause->text;
    --errors;
    delete cause;
  }
  return e;
}
uint32_t error_code(const plait_error* e) { return e->code; }
const char* error_text(const plait_error* e) { return e->text.c_str(); }
void error_free(plait_error* e) {
  if (e) --errors;
  delete e;
}
long live_errors() { return errors; }

}  // namespace abi_host
