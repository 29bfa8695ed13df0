#include "tests/cuda_map/host_code.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace cuda_map {
namespace {

// Memory that starts `shift` bytes behind a multiple of 64.
class Buffer {
 public:
  Buffer(const Bytes& content, size_t shift)
      : memory_(content.size() + 128), size_(content.size()) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    at_ = memory_.data() + (64 - address % 64) % 64 + shift;
    std::memcpy(at_, content.data(), size_);
  }
  void* data() { return at_; }
  Bytes content() const { return Bytes(at_, at_ + size_); }

 private:
  Bytes memory_;
  size_t size_;
  unsigned char* at_;
};

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path() / "cuda-map-XXXXXX";
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

HostCode::HostCode(const TemporaryFolder& folder, const std::string& name,
                   const std::vector<Generated>& sources) {
  const std::string base = folder.path() / name;
  std::ofstream text(base + ".cpp");
  for (const Generated& g : sources) text << g.source.text;
  text.close();
  const std::string command =
      CUDA_MAP_HOST_COMPILER
      " -std=c++20 -O1 -ffp-contract=off -fno-strict-aliasing -fPIC -shared -include " CUDA_MAP_SHIM
      " -o " +
      base + ".so " + base + ".cpp 2> " + base + ".log";
  if (std::system(command.c_str()) != 0) {
    std::ostringstream log;
    log << std::ifstream(base + ".log").rdbuf();
    throw std::runtime_error(command + ": " + log.str());
  }
  library_ = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
}

HostCode::~HostCode() { dlclose(library_); }

std::vector<Bytes> HostCode::run(const Generated& g, size_t shift,
                                 const std::vector<int32_t>& aliases) const {
  using Run = void (*)(const void*, unsigned);
  const auto call = reinterpret_cast<Run>(dlsym(library_, (g.source.name + "_run").c_str()));
  if (!call) throw std::runtime_error("no kernel " + g.source.name);
  std::vector<Buffer> inputs, outputs;
  for (const Bytes& content : conformance::fill(g.c)) inputs.emplace_back(content, shift);
  for (const plait_shape& s : g.c.outputs)
    outputs.emplace_back(Bytes(conformance::bytes_of(s), 0xa5), shift);
  std::vector<void*> operands;
  for (Buffer& b : inputs) operands.push_back(b.data());
  std::vector<Buffer*> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool aliased = i < aliases.size() && aliases[i] >= 0;
    results.push_back(aliased ? &inputs[static_cast<size_t>(aliases[i])] : &outputs[i]);
    operands.push_back(results.back()->data());
  }
  const auto arguments = g.source.call.arguments(operands.data());
  call(&arguments, g.source.call.blocks(arguments));
  std::vector<Bytes> found;
  for (const Buffer* b : results) found.push_back(b->content());
  return found;
}

}  // namespace cuda_map
