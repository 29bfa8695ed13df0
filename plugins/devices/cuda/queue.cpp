#include "plugins/devices/cuda/queue.hpp"

namespace plait::cuda {
namespace {

// Errors of work that a kernel has broken last for the life of the process.
void check_work(CUresult r) {
  if (r == CUDA_ERROR_OUT_OF_MEMORY) check(r, "work on the GPU");
  if (r != CUDA_SUCCESS)
    fail(PLAIT_ERR_DEVICE, "[cuda] work on the GPU failed: " + error_text(r) +
                               "; run with device.graphs = false and CUDA_LAUNCH_BLOCKING=1 in the "
                               "environment to find the kernel; this process cannot use the GPU "
                               "any more");
}

CUresult free_memory(size_t& bytes) {
  size_t all = 0;
  return driver().cuMemGetInfo(&bytes, &all);
}

}  // namespace

Event::Event(Device& device) : device_(device) {
  check(driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "creating an event");
}

Event::~Event() { driver().cuEventDestroy(event_); }

bool Event::passed() const {
  const CUresult r = driver().cuEventQuery(event_);
  if (r == CUDA_ERROR_NOT_READY) return false;
  check_work(r);
  return true;
}

// Uploaded at once, so that the first launch is as fast as the others. Work of a backend's stream
// keeps the priority of that stream, else a graph has the one of the stream that launches it.
Graph::Graph(Device& device, CUgraph recorded, CUstream upload) : device_(device) {
  const Driver& d = driver();
  size_t nodes = 0, before = 0, after = 0;
  CUresult r = d.cuGraphGetNodes(recorded, nullptr, &nodes);
  if (r == CUDA_SUCCESS) r = free_memory(before);
  if (r == CUDA_SUCCESS)
    r = d.cuGraphInstantiate(&exec_, recorded, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  d.cuGraphDestroy(recorded);
  check(r, "making a graph of the recorded work");
  r = d.cuGraphUpload(exec_, upload);
  if (r == CUDA_SUCCESS) r = free_memory(after);
  if (r != CUDA_SUCCESS) d.cuGraphExecDestroy(exec_);
  check(r, "uploading a graph");
  // The plan does not know this memory, which the driver takes in blocks of its own.
  device.host().log(PLAIT_LOG_DEBUG,
                    "[cuda] a graph of " + std::to_string(nodes) + " nodes takes about " +
                        std::to_string(before > after ? before - after : 0) +
                        " bytes of the GPU's memory, beside the memory that is planned");
}

Graph::~Graph() {
  if (exec_) driver().cuGraphExecDestroy(exec_);
}

plait_error* Graph::launch(plait_queue* queue) const {
  if (exec_) check(driver().cuGraphLaunch(exec_, stream_of(queue)), "launching a graph");
  for (const Call& call : calls_)
    if (plait_error* e = call(queue)) return e;
  return nullptr;
}

Queue::Queue(Device& device) : device_(device), between_(device) {
  check(driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
        "creating a stream");
  handle_ = {{sizeof(plait_cuda_queue), stream_, device.handle()}, this};
  try {
    device.add(*this);
  } catch (...) {
    driver().cuStreamDestroy(stream_);
    throw;
  }
}

// The engine closes a queue inside a capture when opening a session fails.
Queue::~Queue() {
  CUgraph graph = nullptr;
  if (capturing_ && device_.graphs()) driver().cuStreamEndCapture(stream_, &graph);
  if (graph) driver().cuGraphDestroy(graph);
  device_.remove(*this);
  cudnn_.reset();
  driver().cuStreamDestroy(stream_);
}

plait_error* Queue::enqueue(const plait_kernel_item* item, const plait_kernel* kernel,
                            void* const* operands, uint32_t n, void* workspace) {
  if (!capturing_ || device_.graphs()) return item->run(kernel, handle(), operands, workspace);
  calls_.push_back([item, kernel, workspace,
                    held = std::vector<void*>(operands, operands + n)](plait_queue* queue) {
    return item->run(kernel, queue, held.data(), workspace);
  });
  return nullptr;
}

void Queue::copy(uint32_t direction, void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  if (!capturing_) return copy_now(direction, to, from, bytes);
  const void* host = direction == PLAIT_COPY_TO_DEVICE ? from
                     : direction == PLAIT_COPY_TO_HOST ? to
                                                       : nullptr;
  // Ordinary host memory is unknown to the driver.
  CUmemorytype type{};
  if (host && driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                             pointer(host)) != CUDA_SUCCESS)
    fail(PLAIT_ERR_INVALID,
         "[cuda] a recorded copy from or to host memory that is not pinned; use host_alloc()");
  if (!listed([=](Queue& on) { on.copy_now(direction, to, from, bytes); }))
    copy_now(direction, to, from, bytes);
}

template <class F>
bool Queue::listed(F&& f) {
  if (!capturing_ || device_.graphs()) return false;
  calls_.push_back([f = std::forward<F>(f)](plait_queue* queue) -> plait_error* {
    f(queue_of(queue));
    return nullptr;
  });
  return true;
}

void Queue::copy_now(uint32_t direction, void* to, const void* from, uint64_t bytes) {
  const Driver& d = driver();
  if (direction == PLAIT_COPY_TO_DEVICE)
    check(d.cuMemcpyHtoDAsync(pointer(to), from, bytes, stream_), "copying to the GPU");
  else if (direction == PLAIT_COPY_TO_HOST)
    check(d.cuMemcpyDtoHAsync(to, pointer(from), bytes, stream_), "copying from the GPU");
  else
    check(d.cuMemcpyDtoDAsync(pointer(to), pointer(from), bytes, stream_), "copying on the GPU");
}

void Queue::sync() { check_work(driver().cuStreamSynchronize(stream_)); }

void Queue::record(Event& event) {
  if (!listed([&event](Queue& on) { on.record_now(event); })) record_now(event);
}

void Queue::wait(Event& event) {
  if (!listed([&event](Queue& on) { on.wait_now(event); })) wait_now(event);
}

void Queue::record_now(Event& event) {
  check(driver().cuEventRecord(event.raw(), stream_), "recording an event");
}

void Queue::wait_now(Event& event) {
  check(driver().cuStreamWaitEvent(stream_, event.raw(), 0), "waiting for an event");
}

void Queue::need_no_capture(const char* function) const {
  if (capturing_)
    fail(PLAIT_ERR_STATE,
         std::string("[cuda] ") + function + " while the queue captures: end that capture first");
}

void Queue::capture_begin() {
  need_no_capture("capture_begin");
  calls_.clear();
  if (device_.graphs())
    check(driver().cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "beginning a capture");
  capturing_ = true;
}

Graph* Queue::capture_end() {
  if (!capturing_) fail(PLAIT_ERR_STATE, "[cuda] capture_end without capture_begin");
  capturing_ = false;
  if (!device_.graphs()) return new Graph(device_, std::exchange(calls_, {}));
  CUgraph graph = nullptr;
  check(driver().cuStreamEndCapture(stream_, &graph), "ending a capture");
  return new Graph(device_, graph, stream_);
}

// A wait is for the record before it, so that one event serves all calls.
void Queue::order(uint32_t order, CUstream stream) {
  need_no_capture("order");
  if (order != PLAIT_QUEUE_AFTER_STREAM && order != PLAIT_STREAM_AFTER_QUEUE)
    fail(PLAIT_ERR_INVALID,
         "[cuda] order " + std::to_string(order) +
             " of a queue and a stream, expected PLAIT_QUEUE_AFTER_STREAM (1) or "
             "PLAIT_STREAM_AFTER_QUEUE (2)");
  const bool queue_waits = order == PLAIT_QUEUE_AFTER_STREAM;
  const Driver& d = driver();
  CUresult r = d.cuEventRecord(between_.raw(), queue_waits ? stream : stream_);
  if (r == CUDA_SUCCESS) r = d.cuStreamWaitEvent(queue_waits ? stream_ : stream, between_.raw(), 0);
  check(r, std::string("making the ") +
               (queue_waits ? "session wait for a stream" : "stream wait for the session") +
               ", which must be one of the primary context of GPU " +
               std::to_string(device_.ordinal()) + ",");
}

plait_error* Queue::launch(const Graph& graph) {
  need_no_capture("graph_launch");
  return graph.launch(handle());
}

}  // namespace plait::cuda
