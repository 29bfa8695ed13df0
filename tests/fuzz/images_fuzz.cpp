// Arbitrary bytes as an image file: pixels of the size that the head declares, or PLAIT_ERR_DATA.
#include <cstdlib>

#include "plugins/data/images/decode.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostPixels = 1 << 18;
  const plait::support::SourceFile place{"fuzz", "path", "x"};
  plait::data::images::Pixels pixels;
  for (const int channels : {1, 3}) try {
      plait::data::images::decode(place, {data, size}, channels, kMostPixels, pixels);
      const auto n = static_cast<uint64_t>(pixels.width * pixels.height);
      if (pixels.channels != channels || n == 0 || n > kMostPixels ||
          pixels.bytes.size() != n * static_cast<uint64_t>(channels))
        abort();
    } catch (const plait::Error& e) {
      if (e.code() != PLAIT_ERR_DATA) abort();
    }
  return 0;
}
