// What libraries of CUDA need of the driver for tests: work of their own on a stream.
#include "tests/cuda_emulator/driver.hpp"
#include "tests/cuda_emulator/stream.hpp"

using namespace emulator;

int emulator_enqueue(void* stream, void (*run)(const void*), const void* arguments,
                     uint64_t bytes) {
  ENTER(emulator_enqueue, kContext);
  const auto to = static_cast<CUstream>(stream);
  if (!is_stream(to)) return CUDA_ERROR_INVALID_HANDLE;
  const auto* first = static_cast<const char*>(arguments);
  return submit(to, [run, held = std::vector<char>(first, first + bytes)] {
    run(held.data());
    return CUDA_SUCCESS;
  });
}

int emulator_enqueue_owned(void* stream, void (*run)(void*), void* object, void (*drop)(void*)) {
  const std::shared_ptr<void> owned(object, drop);
  ENTER(emulator_enqueue_owned, kContext);
  const auto to = static_cast<CUstream>(stream);
  if (!is_stream(to)) return CUDA_ERROR_INVALID_HANDLE;
  return submit(to, [run, owned] {
    driver().mutex.unlock();
    run(owned.get());
    driver().mutex.lock();
    return CUDA_SUCCESS;
  });
}
