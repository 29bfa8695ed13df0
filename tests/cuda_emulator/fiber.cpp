#include "tests/cuda_emulator/fiber.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "tests/cuda_emulator/asan.hpp"

// void emulator_switch(void** save, void* stack_pointer): pushes the registers that a function must
// preserve, notes the stack pointer, takes the other one and pops its registers. ucontext would
// save the signal mask by a call of the system, each time.
extern "C" void emulator_switch(void** save, void* stack_pointer);
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.pushsection .text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, %function
emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size emulator_switch, .-emulator_switch
.popsection
)");
#else
#error "the emulator of CUDA knows x86-64 and AArch64"
#endif

namespace emulator {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStack = (kAsan ? 64 : 16) * kPage;  // frames are larger with the sanitizer

Fiber* entered = nullptr;  // the fiber that is switched to: emulator_switch() passes no arguments

}  // namespace

Fiber::Fiber() {
#ifdef EMULATOR_ASAN
  thread_local const void* bottom = nullptr;
  thread_local size_t size = 0;
  if (!bottom) {
    pthread_attr_t attributes;
    void* start = nullptr;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &start, &size);
      pthread_attr_destroy(&attributes);
    }
    bottom = start;
  }
  bottom_ = bottom;
  size_ = size;
#endif
}

Fiber::Fiber(void (*run)(Fiber&, void*), void* context, size_t number)
    : run_(run), context_(context) {
  void* memory = mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, kPage, PROT_NONE);
  bottom_ = memory_ + kPage;
  size_ = kStack;
  auto* top = reinterpret_cast<void**>(memory_ + kPage + kStack - number % 32 * 128);
#if defined(__x86_64__)
  // What emulator_switch() pops: six registers and the address where it returns to; above them a
  // word, because the stack pointer is 8 behind a multiple of 16 where a function begins.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
#else
  top -= 20;
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(&Fiber::enter);  // x30
#endif
  stack_pointer_ = top;
}

Fiber::~Fiber() {
  if (!memory_) return;
  allow(memory_, kStack + kPage);
  munmap(memory_, kStack + kPage);
}

void Fiber::enter() {
  Fiber& self = *entered;
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  self.run_(self, self.context_);
}

void Fiber::switch_to(Fiber& next) {
  entered = &next;
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.size_);
#endif
  emulator_switch(&stack_pointer_, next.stack_pointer_);
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

}  // namespace emulator
