#include "bindings/cli/crash.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr std::array kFatal = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kMostFrames = 64;

std::atomic<bool> exit_expected{false};

// A line on stderr without memory of the heap, which may be what is damaged.
template <class... Words>
void say(const char* format, Words... words) {
  char line[1024];
  const int n = std::snprintf(line, sizeof line, format, words...);
  if (n > 0 &&
      write(STDERR_FILENO, line, std::min<size_t>(static_cast<size_t>(n), sizeof line - 1)) < 0)
    return;
}

std::string_view name_of(const char* path) {
  const std::string_view all = path;
  return all.substr(all.rfind('/') + 1);  // npos + 1 is 0
}

bool is_plugin(std::string_view name) {
  return name.starts_with("plait-") && name.ends_with(".so");
}

// The innermost file on the stack that is a plugin, the engine or this program: libraries of the
// system run for whoever called them. NULL: none is known.
const char* file_at_fault() {
  const void* frames[kMostFrames];
  const int n = backtrace(const_cast<void**>(frames), kMostFrames);
  Dl_info here{}, info{};
  dladdr(reinterpret_cast<const void*>(&report_crashes), &here);
  bool own_frames = true;  // of this file, until the frame that the signal or exit() came from
  for (int i = 0; i < n; ++i) {
    if (dladdr(frames[i], &info) == 0 || !info.dli_fname) continue;
    const bool own = info.dli_fbase == here.dli_fbase;
    if (own && own_frames) continue;
    own_frames = false;
    const std::string_view name = name_of(info.dli_fname);
    if (own || is_plugin(name) || name.starts_with("libplait")) return info.dli_fname;
  }
  return nullptr;
}

const char* whose(const char* file) {
  if (!file) return "a library of the system";
  return is_plugin(name_of(file)) ? "a plugin" : "Plait";
}

void on_crash(int signal) {
  const char* file = file_at_fault();
  const char* what = sigdescr_np(signal);
  say("error: [cli] the process crashed in the code of %s%s%s: signal %d (%s); report it to %s\n",
      whose(file), file ? ", " : "", file ? file : "", signal, what ? what : "unknown",
      file && is_plugin(name_of(file)) ? "the plugin's author" : "the authors of Plait");
  raise(signal);  // the handler is gone (SA_RESETHAND), so this ends the process when it returns
}

void on_exit_called(int code, void*) {
  if (exit_expected.load()) return;
  const char* file = file_at_fault();
  say("error: [cli] exit(%d) was called in the code of %s%s%s before the command was done; report "
      "it to %s\n",
      code, whose(file), file ? ", " : "", file ? file : "",
      file && is_plugin(name_of(file)) ? "the plugin's author" : "the authors of Plait");
  _exit(code == 0 ? kFailed : code);
}

}  // namespace

void report_crashes() {
  if (kSanitized) return;
  // The first call loads the unwinder, which a handler had better not do.
  void* frame = nullptr;
  backtrace(&frame, 1);
  static std::array<char, 64 << 10> stack;  // for the handler of an overflow of the main thread's
  const stack_t other{stack.data(), 0, stack.size()};
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_ONSTACK);
  for (const int signal : kFatal) sigaction(signal, &action, nullptr);
  on_exit(on_exit_called, nullptr);
}

void expect_exit() { exit_expected.store(true); }

}  // namespace plait::cli
