// Streams, which do their work at once, events, captures and graphs.
#include <algorithm>

#include "tests/cuda_emulator/driver.hpp"

namespace emulator {

bool is_stream(CUstream stream) { return !stream || driver().streams.contains(stream); }

namespace {
// The handles of the default streams stand for the one that nullptr is.
CUstream resolved(CUstream stream) {
  return stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ? nullptr : stream;
}
}  // namespace

CUresult invalidate(const std::shared_ptr<Capture>& capture, const char* entry) {
  capture->valid = false;
  return say(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
             std::string(entry) + "() is not allowed while a stream captures");
}

namespace {
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}  // namespace

std::shared_ptr<Capture> capture_of_thread() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return nullptr;
  for (CUstream s : driver().streams) {
    if (!s->capture || s->capture->origin != s) continue;
    const bool own = s->capture->thread == std::this_thread::get_id();
    if (own ? s->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
            : s->capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                  thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
      return s->capture;
  }
  return nullptr;
}

CUresult submit(CUstream stream, std::function<CUresult()> work) {
  if (!stream || !stream->capture) return work();
  Capture& c = *stream->capture;
  if (!c.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  c.nodes.push_back({std::move(work), stream->last, stream->priority});
  stream->last = {c.nodes.size() - 1};
  return CUDA_SUCCESS;
}

namespace {

// Nodes before any of `last`, those included.
std::vector<bool> reached(const Nodes& nodes, const std::set<size_t>& last) {
  std::vector<bool> seen(nodes.size());
  for (size_t i : last) seen[i] = true;
  for (size_t i = nodes.size(); i-- > 0;)  // a node comes after nodes of lower index
    if (seen[i])
      for (size_t j : nodes[i].after) seen[j] = true;
  return seen;
}

CUresult run(const Nodes& nodes) {
  for (const Node& n : nodes)
    if (const CUresult r = n.run(); r != CUDA_SUCCESS) return r;
  return CUDA_SUCCESS;
}

template <class Handle>
bool lives(const std::set<Handle>& all, Handle h) {
  return h && all.contains(h);
}

}  // namespace
}  // namespace emulator

using namespace emulator;

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  ENTER(cuStreamCreateWithPriority, kContext);
  if (flags != CU_STREAM_NON_BLOCKING)
    return say(CUDA_ERROR_INVALID_VALUE,
               "a stream without CU_STREAM_NON_BLOCKING, which waits for the default stream");
  constexpr int kHighest = -5, kLowest = 0;
  *out = new CUstream_st{current_context, nullptr, {}, std::clamp(priority, kHighest, kLowest)};
  driver().streams.insert(*out);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  ENTER(cuStreamDestroy, kContext | kFrees);
  if (!lives(driver().streams, stream)) return CUDA_ERROR_INVALID_HANDLE;
  // A capture that the stream began ends with it: others are in no capture any more.
  if (stream->capture && stream->capture->origin == stream) {
    const auto ended = stream->capture;
    for (CUstream s : driver().streams)
      if (s->capture == ended) s->capture = nullptr;
  }
  driver().streams.erase(stream);
  delete stream;
  return call.result();
}

CUresult cuStreamSynchronize(CUstream stream) {
  ENTER(cuStreamSynchronize, kContext);
  if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream && stream->capture) return invalidate(stream->capture, "cuStreamSynchronize");
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  ENTER(cuStreamQuery, kContext);
  if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream && stream->capture) return invalidate(stream->capture, "cuStreamQuery");
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* out) {
  ENTER(cuStreamIsCapturing, kContext);
  if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  *out = !stream || !stream->capture ? CU_STREAM_CAPTURE_STATUS_NONE
         : stream->capture->valid    ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  ENTER(cuThreadExchangeStreamCaptureMode, kDriver);
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  ENTER(cuStreamBeginCapture, kContext);
  if (!lives(driver().streams, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture =
      std::make_shared<Capture>(Capture{stream, mode, std::this_thread::get_id(), {}});
  stream->last.clear();
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  ENTER(cuStreamEndCapture, kContext);
  *out = nullptr;
  if (!lives(driver().streams, stream)) return CUDA_ERROR_INVALID_HANDLE;
  const auto capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const auto seen = reached(capture->nodes, stream->last);
  for (CUstream s : driver().streams)
    if (s->capture == capture) s->capture = nullptr;
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (std::find(seen.begin(), seen.end(), false) != seen.end())
    return say(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
               "cuStreamEndCapture(): work on another stream, which did not join");
  *out = new CUgraph_st{std::make_shared<const Nodes>(std::move(capture->nodes))};
  driver().graphs.insert(*out);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream given, CUevent event, unsigned) {
  ENTER(cuStreamWaitEvent, kContext);
  const CUstream stream = resolved(given);
  if (!is_stream(stream) || !lives(driver().events, event)) return CUDA_ERROR_INVALID_HANDLE;
  const auto capture = event->capture.lock();
  const auto mine = stream ? stream->capture : nullptr;
  if (!capture) {
    if (mine && event->recorded) {
      mine->valid = false;
      return say(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                 "cuStreamWaitEvent(): a stream that captures waits for an event of outside");
    }
    if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
    return CUDA_SUCCESS;
  }
  if (!stream) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (mine && mine != capture) {
    mine->valid = capture->valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!mine) {
    stream->capture = capture;
    stream->last.clear();
  }
  stream->last.insert(event->last.begin(), event->last.end());
  return CUDA_SUCCESS;
}

// The function may wait for other threads that need the driver. A launch or this call holds the
// lock once.
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn f, void* to) {
  ENTER(cuLaunchHostFunc, kContext);
  if (!is_stream(stream) || !f) return CUDA_ERROR_INVALID_HANDLE;
  return submit(stream, [f, to] {
    driver().mutex.unlock();
    f(to);
    driver().mutex.lock();
    return CUDA_SUCCESS;
  });
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  ENTER(cuEventCreate, kContext);
  *out =
      new CUevent_st{current_context, !(flags & CU_EVENT_DISABLE_TIMING), false, {}, {}, {}, false};
  driver().events.insert(*out);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  ENTER(cuEventDestroy, kContext | kFrees);
  if (!lives(driver().events, event)) return CUDA_ERROR_INVALID_HANDLE;
  driver().events.erase(event);
  delete event;
  return call.result();
}

CUresult cuEventRecord(CUevent event, CUstream given) {
  ENTER(cuEventRecord, kContext);
  const CUstream stream = resolved(given);
  if (!is_stream(stream) || !lives(driver().events, event)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream && stream->context != event->context)
    return say(CUDA_ERROR_INVALID_HANDLE, "cuEventRecord(): event and stream of two contexts");
  if (stream && stream->capture) {
    if (!stream->capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->last = stream->last;
    event->captured = true;
    event->recorded = false;
    return CUDA_SUCCESS;
  }
  event->capture.reset();
  event->captured = false;
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  ENTER(cuEventQuery, kContext | kNoCapture);
  if (!lives(driver().events, event)) return CUDA_ERROR_INVALID_HANDLE;
  return event->captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  ENTER(cuEventSynchronize, kContext | kNoCapture);
  if (!lives(driver().events, event)) return CUDA_ERROR_INVALID_HANDLE;
  return event->captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* out, CUevent from, CUevent to) {
  ENTER(cuEventElapsedTime, kContext);
  if (!lives(driver().events, from) || !lives(driver().events, to) || !from->timed || !to->timed ||
      !from->recorded || !to->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  *out = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return CUDA_SUCCESS;
}

// Without the flag CUDA runs the graph, too, but all of it with the priority of one stream.
CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  ENTER(cuGraphInstantiate, kContext);
  if (!lives(driver().graphs, graph)) return CUDA_ERROR_INVALID_VALUE;
  const Nodes& nodes = *graph->nodes;
  const bool equal = std::all_of(nodes.begin(), nodes.end(), [&](const Node& n) {
    return n.priority == nodes.front().priority;
  });
  if (!equal && !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
    return say(CUDA_ERROR_INVALID_VALUE,
               "cuGraphInstantiate() of a graph that loses the priorities of its streams");
  *out = new CUgraphExec_st{graph->nodes};
  driver().executables.insert(*out);
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) {
  ENTER(cuGraphUpload, kContext);
  if (!lives(driver().executables, graph) || !is_stream(stream)) return CUDA_ERROR_INVALID_VALUE;
  if (stream && stream->capture) return invalidate(stream->capture, "cuGraphUpload");
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER(cuGraphLaunch, kContext);
  if (!lives(driver().executables, graph) || !is_stream(stream)) return CUDA_ERROR_INVALID_VALUE;
  if (!stream || !stream->capture) return run(*graph->nodes);
  return submit(stream, [nodes = graph->nodes] { return run(*nodes); });
}

CUresult cuGraphDestroy(CUgraph graph) {
  ENTER(cuGraphDestroy, kDriver | kFrees);
  if (!lives(driver().graphs, graph)) return CUDA_ERROR_INVALID_VALUE;
  driver().graphs.erase(graph);
  delete graph;
  return call.result();
}

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  ENTER(cuGraphExecDestroy, kDriver | kFrees);
  if (!lives(driver().executables, graph)) return CUDA_ERROR_INVALID_VALUE;
  driver().executables.erase(graph);
  delete graph;
  return call.result();
}

// Only counts: the nodes have no handles.
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  ENTER(cuGraphGetNodes, kDriver);
  if (!lives(driver().graphs, graph) || nodes) return CUDA_ERROR_INVALID_VALUE;
  *count = graph->nodes->size();
  return CUDA_SUCCESS;
}
