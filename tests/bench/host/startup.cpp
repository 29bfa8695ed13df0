// Measures the time from dlopen() of libplait to the end of the first step, in a new process each
// time.
//   bench_startup LIBPLAIT EXPERIMENT [--times N] [--fed] [key=value ...]
// Prints one JSON line per process with the seconds of each part. --fed: the host feeds the first
// batch of 32 x 784 itself.
#include <dlfcn.h>
#include <plait/plait.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of this process so far, all threads: unlike wall time, independent of the machine's
// load.
double cpu_seconds() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

[[noreturn]] void stop(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(1);
}

// The functions of the library, looked up by name: this program isn't linked to it.
class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) stop(std::string("[bench] ") + dlerror());
  }
  template <class F>
  F* function(const char* name) const {
    if (void* f = dlsym(handle_, name)) return reinterpret_cast<F*>(f);
    stop(std::string("[bench] the library has no ") + name);
  }
  void check(plait_error* e) const {
    if (e) stop(function<decltype(plait_error_full_text)>("plait_error_full_text")(e));
  }

 private:
  void* handle_;
};

// One batch fed by the host.
struct Batch {
  std::vector<float> x = std::vector<float>(32 * 784, 0.5f);
  std::vector<int32_t> label = std::vector<int32_t>(32, 1);
  int64_t x_shape[2] = {32, 784}, label_shape[1] = {32};
  plait_dl_tensor tensors[2] = {};
  plait_feed feeds[2] = {};
  Batch() {
    tensors[0].data = x.data();
    tensors[0].ndim = 2;
    tensors[0].shape = x_shape;
    tensors[0].dtype = {2, 32, 1};
    tensors[1].data = label.data();
    tensors[1].ndim = 1;
    tensors[1].shape = label_shape;
    tensors[1].dtype = {0, 32, 1};
    for (plait_dl_tensor& t : tensors) t.device = {1, 0};
    feeds[0] = {sizeof(plait_feed), "x", &tensors[0]};
    feeds[1] = {sizeof(plait_feed), "label", &tensors[1]};
  }
};

void measure(const char* library, const char* experiment_path, bool fed,
             const std::vector<const char*>& overrides) {
  Batch batch;
  std::vector<double> at{now()};
  const auto mark = [&] { at.push_back(now()); };
  const Library l(library);
  mark();
  plait_engine* engine;
  l.check(l.function<decltype(plait_engine_open)>("plait_engine_open")(nullptr, &engine));
  mark();
  plait_experiment_options options{};
  options.struct_size = sizeof options;
  options.overrides = overrides.data();
  options.n_overrides = static_cast<uint32_t>(overrides.size());
  plait_experiment* experiment;
  l.check(l.function<decltype(plait_experiment_read)>("plait_experiment_read")(
      engine, experiment_path, PLAIT_NTS, &options, &experiment));
  mark();
  plait_plan* plan;
  l.check(l.function<decltype(plait_plan_make)>("plait_plan_make")(experiment, &plan));
  mark();
  plait_session_options session_options{};
  session_options.struct_size = sizeof session_options;
  session_options.no_files = 1;
  plait_session* session;
  l.check(l.function<decltype(plait_session_open)>("plait_session_open")(plan, &session_options,
                                                                         &session));
  mark();
  plait_step_result result{};
  result.struct_size = sizeof result;
  l.check(l.function<decltype(plait_session_step)>("plait_session_step")(
      session, fed ? batch.feeds : nullptr, fed ? 2 : 0, &result));
  mark();
  const char* names[] = {"dlopen",    "engine_open",  "experiment_read",
                         "plan_make", "session_open", "first_step"};
  std::printf("{\"total\": %.6f, \"cpu\": %.6f", at.back() - at.front(), cpu_seconds());
  for (size_t i = 0; i + 1 < at.size(); ++i)
    std::printf(", \"%s\": %.6f", names[i], at[i + 1] - at[i]);
  std::printf("}\n");
  std::fflush(stdout);
  _exit(0);  // closing is not measured
}

// Runs this program again, so that only the page cache is warm.
void measure_in_new_process(char** values) {
  const pid_t child = fork();
  if (child < 0) stop("[bench] no new process could be started");
  if (child == 0) {
    setenv("PLAIT_BENCH_CHILD", "1", 1);
    setenv("PLAIT_BIND", "all", 0);  // as the command line does
    execv("/proc/self/exe", values);
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0)
    stop("[bench] the measured process failed");
}

}  // namespace

int main(int count, char** values) {
  if (count < 3)
    stop("[bench] expected: bench_startup LIBPLAIT EXPERIMENT [--times N] [--fed] [key=value ...]");
  int times = 10;
  bool fed = false;
  std::vector<const char*> overrides;
  for (int i = 3; i < count; ++i) {
    if (std::strcmp(values[i], "--times") == 0 && i + 1 < count)
      times = std::atoi(values[++i]);
    else if (std::strcmp(values[i], "--fed") == 0)
      fed = true;
    else
      overrides.push_back(values[i]);
  }
  if (std::getenv("PLAIT_BENCH_CHILD")) measure(values[1], values[2], fed, overrides);
  for (int i = 0; i < times; ++i) measure_in_new_process(values);
}
