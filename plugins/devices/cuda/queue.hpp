// Queues are streams, events are events, and a capture becomes a CUDA graph.
#pragma once

#include <plait/cuda.h>
#include <plait/device.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/devices/cuda/attention/cudnn.hpp"
#include "plugins/devices/cuda/device.hpp"

namespace plait::cuda {

class Queue;

// What a plait_queue * points to: the struct of cuda.h, then ours.
struct QueueHandle {
  plait_cuda_queue native;
  Queue* queue;
};

// Objects of the driver: each is made, used and destroyed where the device's context is current.
class Event {
 public:
  explicit Event(Device& device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Device& device() const { return device_; }
  CUevent raw() const { return event_; }
  bool passed() const;

 private:
  Device& device_;
  CUevent event_ = nullptr;
};

// Recorded work. With device.graphs = false it is a list of calls, and a launch makes them one
// by one on the launching queue. Events that it records or waits for live as long as it does.
class Graph {
 public:
  using Call = std::function<plait_error*(plait_queue*)>;
  Graph(Device& device, CUgraph recorded, CUstream upload);
  Graph(Device& device, std::vector<Call> calls) : device_(device), calls_(std::move(calls)) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Device& device() const { return device_; }
  plait_error* launch(plait_queue* queue) const;

 private:
  Device& device_;
  CUgraphExec exec_ = nullptr;
  std::vector<Call> calls_;
};

class Queue {
 public:
  explicit Queue(Device& device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  plait_queue* handle() { return reinterpret_cast<plait_queue*>(&handle_); }
  Device& device() const { return device_; }

  plait_error* enqueue(const plait_kernel_item* item, const plait_kernel* kernel,
                       void* const* operands, uint32_t n, void* workspace);
  void copy(uint32_t direction, void* to, const void* from, uint64_t bytes);
  void sync();
  void record(Event& event);
  void wait(Event& event);
  void capture_begin();
  Graph* capture_end();
  plait_error* launch(const Graph& graph);
  // order: PLAIT_QUEUE_AFTER_STREAM or PLAIT_STREAM_AFTER_QUEUE.
  void order(uint32_t order, CUstream stream);

  // The handle of cuDNN for this queue, which there is once Device::open_cudnn() has returned.
  const CudnnHandle& cudnn() const { return *cudnn_; }
  // Of the device. A second time it does nothing.
  void open_cudnn(const Cudnn& library) {
    if (!cudnn_) cudnn_ = std::make_unique<CudnnHandle>(library, stream_);
  }

 private:
  // With device.graphs = false: lists the call while the queue captures. False otherwise.
  template <class F>
  bool listed(F&& f);
  void copy_now(uint32_t direction, void* to, const void* from, uint64_t bytes);
  void record_now(Event& event);
  void wait_now(Event& event);
  void need_no_capture(const char* function) const;

  Device& device_;
  QueueHandle handle_{};
  CUstream stream_ = nullptr;
  std::unique_ptr<CudnnHandle> cudnn_;
  Event between_;  // of order(): each use is over when the call returns
  bool capturing_ = false;
  std::vector<Graph::Call> calls_;  // while capturing with device.graphs = false
};

inline Queue& queue_of(plait_queue* q) { return *reinterpret_cast<QueueHandle*>(q)->queue; }

}  // namespace plait::cuda
