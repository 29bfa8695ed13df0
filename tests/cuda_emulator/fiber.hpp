// A function on a stack of its own, which runs until it switches to another one.
#pragma once

#include <cstddef>

namespace emulator {

class Fiber {
 public:
  // The stack that the caller is running on.
  Fiber();
  // A new stack; the first switch to it calls run(*this, context), which does not return. `number`
  // shifts the stack a little, so that stacks of many fibers do not share the same lines of the
  // cache.
  Fiber(void (*run)(Fiber&, void*), void* context, size_t number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Stops this fiber, which must be the running one, and continues with `next`.
  void switch_to(Fiber& next);

 private:
  static void enter();

  void* stack_pointer_ = nullptr;
  void (*run_)(Fiber&, void*) = nullptr;
  void* context_ = nullptr;
  char* memory_ = nullptr;  // nullptr: the caller's own stack
  // For the address sanitizer, which must know where the stack is.
  const void* bottom_ = nullptr;
  size_t size_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace emulator
