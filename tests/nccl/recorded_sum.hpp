// Sums of the ranks of a group, and one that a graph holds.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/comm/host.hpp"
#include "tests/cuda_emulator/interface.hpp"
#include "tests/nccl/device.hpp"

namespace comm_test {

using Floats = std::vector<float>;

inline const OnGpus& plugin() { return static_cast<const OnGpus&>(*plugins().front()); }

inline plait_comm_desc sum_of(Floats& data) {
  return desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, data.size(), data.data(), data.data(),
              PLAIT_COMM_SUM);
}

// A sum that a rank's queue has recorded in a graph.
class RecordedSum {
 public:
  RecordedSum(Comm& comm, Floats& data) : on_(device_comm(comm.raw())) {
    const plait_comm_desc d = sum_of(data);
    check(backend_.prepare(on_.inner, &d, &call_));
    check(device_.capture_begin(on_.queue));
    check(backend_.start(call_, on_.queue));
    check(backend_.finish(call_, on_.queue));
    check(device_.capture_end(on_.queue, &graph_));
  }
  ~RecordedSum() {
    device_.graph_close(graph_);
    release();
  }
  RecordedSum(const RecordedSum&) = delete;
  RecordedSum& operator=(const RecordedSum&) = delete;
  void release() { backend_.release(call_); }
  void launch(int times = 1) {
    for (int i = 0; i < times; ++i) check(device_.graph_launch(graph_, on_.queue));
    check(device_.sync(on_.queue));
    check(backend_.status(on_.inner));
  }

 private:
  DeviceComm& on_;
  const plait_device_item& device_ = plugin().device().item();
  const plait_comm_item& backend_ = plugin().backend();
  plait_comm_call* call_ = nullptr;
  plait_graph* graph_ = nullptr;
};

// Behind a group: nothing of the driver, and no error.
inline void nothing_left() {
  CHECK(std::string(emulator_live()) == "");
  CHECK(live_errors() == 0);
}

}  // namespace comm_test
