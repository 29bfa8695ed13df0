// Errors for plugins that the engine creates, in tests that hand them on to it.
#include "engine/base/c_error.hpp"
#include "tests/support/abi_host.hpp"

namespace abi_host {

plait_error* error_new(uint32_t code, const char* text, uint64_t size, plait_error* cause) {
  return plait::new_c_error(code, text, size, cause);
}
uint32_t error_code(const plait_error* e) { return e->code; }
const char* error_text(const plait_error* e) { return e->text.c_str(); }
void error_free(plait_error* e) { plait::free_c_error(e); }
long live_errors() { return 0; }  // leak checkers count them

}  // namespace abi_host
