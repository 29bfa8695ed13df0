// bench_comm_gloo [seconds]: libgloo's own ring between two processes.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "pair.hpp"

namespace {

class Rank {
 public:
  Rank(uint32_t rank, const std::string& folder)
      : store_(folder),
        context_(std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), 2)) {
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    context_->connectFullMesh(store_, device);
    for (const uint64_t bytes : bench_comm::kSizes) {
      in_.emplace_back(bytes / sizeof(float), 1.0f);
      out_.emplace_back(bytes / sizeof(float));
    }
  }
  void all_reduce(size_t size) {
    gloo::AllreduceOptions options(context_);
    options.setInput(in_[size].data(), in_[size].size());
    options.setOutput(out_[size].data(), out_[size].size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    gloo::allreduce(options);
  }

 private:
  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::vector<float>> in_, out_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench_comm::run_pair(argc > 1 ? std::atof(argv[1]) : 1,
                              [](uint32_t rank, const std::string& folder) {
                                return std::make_unique<Rank>(rank, folder);
                              });
}
