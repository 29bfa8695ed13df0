// Arbitrary bytes for the reader of plugin files: it describes the file or refuses it.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.hpp"
#include "engine/plugin/inspect.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    plait::plugin::inspect(std::as_bytes(std::span(data, size)), "/fuzz.so").json();
  } catch (const plait::Error&) {
  }
  return 0;
}
