// How long readers take for files that are made to cost them much: prints the processor time of
// each and what it may be, on one core; exit code 1 if one takes longer.
#include <cstdio>
#include <ctime>
#include <functional>

#include "engine/base/error.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "tests/unit/checkpoint/hostile.hpp"

namespace {

using namespace plait::checkpoint;

constexpr double kMost = 1, kMostOfLargest = 5;  // seconds
bool met = true;

void measure(const char* kind, const HostileFile& file, double most,
             const std::function<void()>& read) {
  const char* end = "";
  const std::clock_t start = std::clock();
  try {
    read();
  } catch (const plait::Error&) {
    end = ", refused";
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-8s %-11s %9zu bytes %6.3f s, at most %g%s%s\n", kind, file.what.c_str(),
              file.bytes.size(), seconds, most, end, seconds > most ? ": TOO LONG" : "");
  met = met && seconds <= most;
}

}  // namespace

int main() {
  for (const HostileFile& file : hostile_manifests())
    measure("manifest", file, kMost, [&] { parse_manifest(file.bytes, "m"); });
  for (const HostileFile& file : hostile_headers())
    measure("header", file, kMost, [&] { parse_safetensors(file.bytes, file.bytes.size(), "f"); });
  uint64_t data_bytes = 0;
  const HostileFile largest = largest_header(data_bytes);
  measure("header", largest, kMostOfLargest,
          [&] { parse_safetensors(largest.bytes, largest.bytes.size() + data_bytes, "f"); });
  return met ? 0 : 1;
}
