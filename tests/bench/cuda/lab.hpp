// What measurements on a GPU need: memory full of random numbers, and the time that work takes
// there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugins/support/cuda/driver.hpp"
#include "tests/conformance/host.hpp"

namespace cuda_bench {

// Device memory, handed out in turn from the beginning to the end and then from the beginning
// again: whatever is handed out again is no longer in the GPU's cache.
class Pool {
 public:
  Pool(const conformance::Device& device, uint64_t bytes);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  void* take(uint64_t bytes);
  // Repeats the block up to the end of the pool.
  void fill(const void* block, uint64_t bytes);

 private:
  const conformance::Device& device_;
  void* memory_ = nullptr;
  uint64_t bytes_, next_ = 0;
};

class Lab {
 public:
  explicit Lab(const conformance::Device& device);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const conformance::Device& device() const { return device_; }
  CUstream stream() const { return stream_; }
  // The numbers of inputs: uniform in [-1, 1) as bf16, of which a float of another type is made of
  // several; 0 to 49999 where they are integers of 32 bits.
  Pool& floats() { return floats_; }
  Pool& integers() { return integers_; }
  Pool& results() { return results_; }
  // The same memory each time.
  void* workspace(uint64_t bytes) const;

  // Milliseconds of one call of `enqueue`, which puts work on the stream: as often as it takes to
  // fill about 2 ms, recorded as one graph, so that the host's part counts nothing. Medians of
  // `launches` launches. Of several, they take turns.
  using Work = std::function<void()>;
  double milliseconds(const Work& work, int launches);
  std::vector<double> compare(const std::vector<Work>& works, int launches);
  // Of one call, the second one, without a graph: for work that takes far longer than its launch.
  double once(const Work& work);
  // Seconds since this object was made.
  double elapsed() const;

 private:
  struct Recorded {
    plait_graph* graph = nullptr;
    int repeats = 1;
  };
  Recorded record(const Work& work, int repeats);
  Recorded record_for(const Work& work);
  double launch(const Recorded& r);
  double timed(const Work& work);

  const conformance::Device& device_;
  CUstream stream_;
  Pool floats_, integers_, results_;
  void* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
  CUevent begin_ = nullptr, end_ = nullptr;
  double started_;
};

// A line of the table and of the JSON file.
class Report {
 public:
  struct Field {
    std::string name;
    double value;
  };
  void line(const std::string& section, const std::string& name, const std::vector<Field>& fields,
            const std::string& note = "");
  void skipped(const std::string& section, const std::string& name, const std::string& why);
  // Whether a name has the text that the user asked for.
  bool wants(const std::string& section, const std::string& name) const;
  void only(std::string text) { only_ = std::move(text); }
  void print_json() const;

 private:
  std::string only_;
  std::vector<std::string> json_;
};

// Products against the best of cuBLASLt's algorithms, and single ops; until `seconds` have passed
// since the lab was made.
void bench_products(Lab& lab, Report& report, double seconds);
void bench_ops(Lab& lab, Report& report, double seconds);

}  // namespace cuda_bench
