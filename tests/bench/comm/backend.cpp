// bench_comm PLUGIN.so [seconds] [memory]: all-reduce between two processes through a communication
// plugin, using only abi/. With "memory": in place in the group's symmetric memory.
#include <memory>

#include "pair.hpp"
#include "tests/comm/host.hpp"

namespace {

// One rank with a prepared call for each size.
class Rank {
 public:
  Rank(const char* path, uint32_t rank, const std::string& folder, bool memory)
      : plugin_(path), store_(folder), comm_(plugin_, store_.raw(), rank, 2) {
    for (const uint64_t bytes : bench_comm::kSizes) memory ? in_place(bytes) : apart(bytes);
  }
  void all_reduce(size_t size) { calls_[size]->run(); }

 private:
  void apart(uint64_t bytes) {
    in_.emplace_back(bytes / sizeof(float), 1.0f);
    out_.emplace_back(bytes / sizeof(float));
    add(in_.back().size(), in_.back().data(), out_.back().data());
  }
  // Sums zeros, so that repeated runs do not change the values.
  void in_place(uint64_t bytes) {
    float* const data = comm_.memory<float>(bytes / sizeof(float));
    if (!data) throw std::runtime_error("the backend has no memory");
    add(bytes / sizeof(float), data, data);
  }
  void add(uint64_t n, const float* in, float* out) {
    calls_.push_back(std::make_unique<comm_test::Call>(
        comm_, comm_test::desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, n, in, out, PLAIT_COMM_SUM)));
  }

  comm_test::Plugin plugin_;
  comm_test::FileStore store_;
  comm_test::Comm comm_;
  std::vector<std::vector<float>> in_, out_;
  std::vector<std::unique_ptr<comm_test::Call>> calls_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "[bench] expected: bench_comm PLUGIN.so [seconds] [memory]\n");
    return 2;
  }
  return bench_comm::run_pair(argc > 2 ? std::atof(argv[2]) : 1,
                              [&](uint32_t rank, const std::string& folder) {
                                return std::make_unique<Rank>(argv[1], rank, folder, argc > 3);
                              });
}
