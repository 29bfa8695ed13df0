// Arbitrary text as a manifest, unchanged and with a valid checksum: a manifest that writes back
// the same, or a typed error.
#include <plait/base.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/checkpoint/manifest.hpp"

namespace {

using namespace plait::checkpoint;

void parse(std::string_view text) {
  Manifest manifest;
  try {
    manifest = parse_manifest(text, "fuzz");
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) abort();
    return;
  }
  const std::string again = manifest_text(manifest);
  if (manifest_text(parse_manifest(again, "fuzz")) != again) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(text);
  // The seeds have valid checksums; each mutation gets a new one, so that the parser after the
  // checksum is reached.
  const size_t end = text.rfind(",\n  \"checksum\"");
  parse(seal_manifest(std::string(text.substr(0, end))));
  return 0;
}
