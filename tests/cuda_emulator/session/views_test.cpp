// A host program that uses the GPU of its session: tensors of its own as feeds, and views of the
// session's memory, in an order that streams keep.
#include <cuda.h>
#include <plait/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tests/cuda_emulator/session/host.hpp"

using namespace cuda_emulator;

namespace {

// The host's own use of GPU 0: memory and a stream of the primary context.
class OwnGpu {
 public:
  OwnGpu() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxGetCurrent(&before_) == CUDA_SUCCESS);
    use();
    REQUIRE(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  }
  ~OwnGpu() {
    use();
    for (const CUdeviceptr p : memory_) cuMemFree(p);
    cuStreamDestroy(stream_);
    cuCtxSetCurrent(before_);
    cuDevicePrimaryCtxRelease(0);
  }
  OwnGpu(const OwnGpu&) = delete;
  OwnGpu& operator=(const OwnGpu&) = delete;
  void use() const { REQUIRE(cuCtxSetCurrent(context_) == CUDA_SUCCESS); }
  CUstream stream() const { return stream_; }
  template <class T>
  void* put(const std::vector<T>& values) {
    use();
    CUdeviceptr p = 0;
    REQUIRE(cuMemAlloc(&p, values.size() * sizeof(T)) == CUDA_SUCCESS);
    memory_.push_back(p);
    REQUIRE(cuMemcpyHtoDAsync(p, values.data(), values.size() * sizeof(T), stream_) ==
            CUDA_SUCCESS);
    return reinterpret_cast<void*>(p);
  }
  std::vector<float> get(const plait_dl_tensor& t) const {
    use();
    size_t n = 1;
    for (int32_t i = 0; i < t.ndim; ++i) n *= static_cast<size_t>(t.shape[i]);
    std::vector<float> values(n);
    const auto from = reinterpret_cast<CUdeviceptr>(t.data) + t.byte_offset;
    REQUIRE(cuMemcpyDtoHAsync(values.data(), from, n * sizeof(float), stream_) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(stream_) == CUDA_SUCCESS);
    return values;
  }

 private:
  CUcontext context_ = nullptr, before_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<CUdeviceptr> memory_;
};

std::vector<float> numbers(int64_t n) {
  std::vector<float> x(static_cast<size_t>(n) * 16);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  return x;
}
std::vector<int32_t> labels(int64_t n) {
  std::vector<int32_t> y(static_cast<size_t>(n));
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  return y;
}

plait::HostError failure_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const plait::HostError& e) {
    return e;
  }
  return {PLAIT_OK, "no error"};
}

bool says(const plait::HostError& e, const char* part) {
  return std::string(e.what()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tensors of the GPU are fed without the host's memory") {
  {
    OnGpu whole, moved;
    OwnGpu own;
    for (const int64_t n : {12, 5, 12}) {
      CAPTURE(n);
      const std::vector<float> x = numbers(n);
      const std::vector<int32_t> y = labels(n);
      int64_t x_shape[] = {n, 16}, y_shape[] = {n};
      const plait_dl_tensor tx{own.put(x), {2, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0},
          ty{own.put(y), {2, 0}, 1, {0, 32, 1}, y_shape, nullptr, 0};
      const plait::Feed on_host[] = {{"x", std::span<const float>(x), {n, 16}},
                                     {"label", std::span<const int32_t>(y), {n}}};
      const plait::Feed on_gpu[] = {{"x", tx}, {"label", ty}};
      plait::wait_stream(moved.session, own.stream());
      const plait_step_result a = whole.session.step(on_host), b = moved.session.step(on_gpu);
      CHECK(a.loss == b.loss);
      CHECK(a.grad_norm == b.grad_norm);
    }
  }
  CHECK(std::string(emulator_live()) == "");
}

TEST_CASE("parameters, outputs and results lie where the session has them") {
  {
    OnGpu on;
    OwnGpu own;
    const auto weight = plait::view_of(on.session, "model.fc.weight", {.stream = own.stream()});
    CHECK(weight.tensor().device.type == 2);
    CHECK(weight.tensor().device.id == 0);
    CHECK(weight.tensor().ndim == 2);
    CHECK(weight.tensor().strides[1] == 1);
    const auto loss = plait::view_of(on.session, "model.loss",
                                     {.kind = PLAIT_VIEW_RESULT, .stream = own.stream()});
    CHECK(loss.tensor().ndim == 0);
    std::vector<float> read(16 * 16);
    for (int i = 0; i < 3; ++i) {
      const plait_step_result r = on.session.step();
      on.session.read("model.fc.weight", std::span<float>(read));
      CHECK(own.get(weight.tensor()) == read);
      CHECK(own.get(loss.tensor())[0] == static_cast<float>(r.loss));
    }
    const std::vector<float> x = numbers(12);
    const plait::Feed feeds[] = {{"x", std::span<const float>(x), {12, 16}}};
    const plait_prediction kept{"output", nullptr, 0};
    on.session.predict(feeds, std::span<const plait_prediction>(&kept, 1));
    const auto output =
        plait::view_of(on.session, "output", {.kind = PLAIT_VIEW_OUTPUT, .stream = own.stream()});
    const std::vector<float> found = own.get(output.tensor());
    std::vector<float> out(12 * 10);
    on.session.predict(feeds, "output", std::span<float>(out));
    CHECK(found == out);
  }
  CHECK(std::string(emulator_live()) == "");
}

TEST_CASE("a view outlives its session and its engine, and ends on another thread") {
  plait_dl_managed* view = nullptr;
  {
    OnGpu on;
    plait_error* e = plait_session_view_of(on.session.get(), "model.fc.weight", nullptr, &view);
    REQUIRE(e == nullptr);
    CHECK(view->flags == 0);
  }
  // The memory, and the device that it belongs to; no pinned memory, queue or graph.
  const std::string live = emulator_live();
  CAPTURE(live);
  CHECK(live.find("1 allocation, 1 stream, ") == 0);
  CHECK(live.find("graph") == std::string::npos);
  CHECK(live.find("pinned") == std::string::npos);
  std::thread([&] { view->deleter(view); }).join();
  CHECK(std::string(emulator_live()) == "");
}

TEST_CASE("streams are ordered, and those of nobody refused") {
  OnGpu on;
  OwnGpu own;
  uint64_t waits = 0;
  const auto count = [&] {
    waits = 0;
    emulator_calls(
        [](void* to, const char* name, uint64_t n) {
          if (std::strcmp(name, "cuStreamWaitEvent") == 0) *static_cast<uint64_t*>(to) = n;
        },
        &waits);
    return waits;
  };
  const uint64_t before = count();
  plait::wait_stream(on.session, own.stream());
  plait::wait_stream(on.session, CU_STREAM_LEGACY);
  plait::wait_stream(on.session, CU_STREAM_PER_THREAD);
  plait::view_of(on.session, "model.fc.weight", {.stream = own.stream()});
  CHECK(count() == before + 4);
  int nothing = 0;
  const plait::HostError e = failure_of([&] { plait::wait_stream(on.session, &nothing); });
  CHECK(e.code() == PLAIT_ERR_DEVICE);
  CHECK(says(e,
             "making the session wait for a stream, which must be one of the primary context of "
             "GPU 0, failed"));
  CHECK(failure_of([&] { plait::wait_stream(on.session, nullptr); }).code() == PLAIT_ERR_INVALID);
}

TEST_CASE("a tensor of another GPU, and a view where the host cannot use it") {
  OnGpu on;
  std::vector<float> x = numbers(12);
  std::vector<int32_t> y = labels(12);
  int64_t x_shape[] = {12, 16};
  const plait_dl_tensor elsewhere{x.data(), {2, 1}, 2, {2, 32, 1}, x_shape, nullptr, 0};
  const plait::Feed feeds[] = {{"x", elsewhere}, {"label", std::span<const int32_t>(y), {12}}};
  const plait::HostError feed = failure_of([&] { on.session.step(feeds); });
  CHECK(feed.code() == PLAIT_ERR_INVALID);
  CHECK(says(feed,
             "field 'x' lies on CUDA device 1, expected host memory or CUDA device 0, where "
             "this session is; copy it there, or open the session on that device"));
  const plait::HostError view = failure_of([&] { on.session.view("model.fc.weight"); });
  CHECK(view.code() == PLAIT_ERR_UNIMPLEMENTED);
  CHECK(says(view, "'model.fc.weight' lies in memory of CUDA device 0"));
  CHECK(says(view, "plait_session_view_of() shows it where it is"));
  const plait::HostError other = failure_of([&] {
    plait::view_of(on.session, "model.fc.weight", {.device = {2, 3}});
  });
  CHECK(says(other, "a view of it was asked for in CUDA device 3"));
  const auto session = nlohmann::json::parse(on.session.describe());
  CHECK(session.at("dl_device") == nlohmann::json{2, 0});
}
