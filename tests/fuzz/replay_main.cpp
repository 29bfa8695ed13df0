// The main of a fuzz target without libFuzzer: replays the seeds, and mutations of them that are
// the same every time. Usage: fuzz_<name> [folder with seeds]. It exits normally if the parser
// under test survives all of them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kMutationsPerSeed = 200;
constexpr size_t kTruncationsPerSeed = 64;

void feed(const Bytes& bytes) {
  // An exact copy, so that the sanitizer detects a read past the end as a heap overflow.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

Bytes mutated(const Bytes& seed, std::mt19937_64& random) {
  Bytes bytes = seed;
  const uint64_t edits = 1 + random() % 4;
  for (uint64_t i = 0; i < edits && !bytes.empty(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(random() % bytes.size());
    switch (random() % 4) {
      case 0:
        bytes[static_cast<size_t>(at)] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 1:
        bytes[static_cast<size_t>(at)] = random() % 2 == 0 ? 0xFF : 0x00;
        break;
      case 2:
        bytes.erase(bytes.begin() + at);
        break;
      default:
        bytes.insert(bytes.begin() + at, static_cast<uint8_t>(random()));
    }
  }
  return bytes;
}

void replay(const Bytes& seed, std::mt19937_64& random) {
  feed(seed);
  const size_t step = std::max<size_t>(1, seed.size() / kTruncationsPerSeed);
  for (size_t length = 0; length < seed.size(); length += step) {
    feed(Bytes(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(length)));
  }
  for (int i = 0; i < kMutationsPerSeed; ++i) {
    feed(mutated(seed, random));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937_64 random(1);
  feed({});
  std::vector<std::filesystem::path> seeds;
  if (argc > 1 && std::filesystem::is_directory(argv[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      if (entry.is_regular_file()) {
        seeds.push_back(entry.path());
      }
    }
  }
  std::sort(seeds.begin(), seeds.end());
  for (const auto& seed : seeds) {
    std::printf("%s\n", seed.filename().c_str());
    std::fflush(stdout);  // the last line names the seed that crashed
    replay(read_file(seed), random);
  }
  std::printf("%zu seeds replayed\n", seeds.size());
  if (argc > 1 && seeds.empty()) {
    std::printf("no seeds in %s; mutations need some input that the parser accepts\n", argv[1]);
    return 1;
  }
  return 0;
}
