// libcudnn for tests without a GPU: the entry points that the device plugin calls, on host memory,
// behind the emulated driver. It is stricter than the library: whatever NVIDIA's documentation does
// not promise is an error.
//
// PLAIT_CUDA_EMULATOR_DNN: what the heuristic names. Ordinarily three plans, of which only the last
// is deterministic and needs little workspace. "none": no plan; "random": only the first; "large":
// only the second; "grows": one whose workspace is larger than its configuration said.
// PLAIT_CUDA_EMULATOR_DNN_VERSION: the version that it names.
// PLAIT_CUDA_EMULATOR_DNN_FAIL: "cudnnBackendFinalize:3", the third call of it fails, counted since
// the variable was set to this text.
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "tests/cuda_emulator/cudnn/objects.hpp"
#include "tests/cuda_emulator/stream.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace plait::cuda::dnn {
struct HandleContents {
  CUstream stream = nullptr;
};
}  // namespace plait::cuda::dnn

namespace {

using namespace emulated_dnn;

std::mutex mutex;
std::set<Handle> handles;
// Programs of plans that exist. Work on a stream asks, inside of a call or later.
std::mutex loaded_mutex;
std::set<std::shared_ptr<const Program>> loaded;

constexpr int64_t kRandom = 0, kLarge = 1, kGood = 2, kGrows = 3;
constexpr int64_t kWorkspace = 256, kMuch = int64_t{1} << 40;

std::string setting(const char* name) {
  const char* set = std::getenv(name);
  return set ? set : "";
}

std::vector<int64_t> engines() {
  const std::string mode = setting("PLAIT_CUDA_EMULATOR_DNN");
  if (mode == "none") return {};
  if (mode == "random") return {kRandom};
  if (mode == "large") return {kLarge};
  if (mode == "grows") return {kGrows};
  return {kRandom, kLarge, kGood};
}

// Whether this call of an entry point is the one that is to fail.
bool fails(const char* name) {
  static std::string watched;
  static long calls = 0;
  const std::string now = setting("PLAIT_CUDA_EMULATOR_DNN_FAIL");
  if (now != watched) watched = now, calls = 0;
  const size_t colon = now.find(':');
  if (colon == std::string::npos || now.substr(0, colon) != name) return false;
  return ++calls == std::strtol(now.c_str() + colon + 1, nullptr, 10);
}

Status refuse(Status s, const char* why) {
  last_error = why;
  return s;
}

// What every entry point does first. Returns an error, or 0.
#define ENTER(name)                  \
  const std::lock_guard lock(mutex); \
  if (fails(#name)) return refuse(kFailed, "this call was to fail")

// Loading code is not allowed in a capture, unless the thread relaxes it.
bool load_code() {
  CUmodule module = nullptr;
  return cuModuleLoadData(&module, "code of attention") == CUDA_SUCCESS &&
         cuModuleUnload(module) == CUDA_SUCCESS;
}

int64_t workspace_of(const Object& o) {
  if (o.engine == kLarge || (o.engine == kGrows && o.kind == Kind::plan)) return kMuch;
  return kWorkspace;
}

// The contents of `values` of a query: one value.
template <class T>
Status give(const T& value, int64_t most, int64_t* count, void* values) {
  if (most < 1 || !values) return refuse(kBad, "no place for a value");
  if (count) *count = 1;
  std::memcpy(values, &value, sizeof value);
  return 0;
}

// Fills the configurations that the caller made.
Status give_configs(const Object& from, int64_t most, int64_t* count, void* values) {
  const auto names = engines();
  if (!count) return refuse(kBad, "no place for a count");
  *count = static_cast<int64_t>(names.size());
  auto* raw = static_cast<Descriptor*>(values);
  for (size_t i = 0; i < std::min(names.size(), static_cast<size_t>(most)); ++i) {
    Object* config = find(raw[i]);
    if (!config || config->kind != Kind::engine_config || config->complete)
      return refuse(kBad, "no configuration to fill");
    config->complete = true;
    config->program = from.program;
    config->engine = names[i];
  }
  return 0;
}

Status give_notes(const Object& o, int64_t most, int64_t* count, void* values) {
  if (o.engine < 0 || !count) return refuse(kBad, "an engine that nothing filled");
  *count = o.engine == kRandom ? 2 : 1;
  const int32_t notes[] = {0, static_cast<int32_t>(Note::nondeterministic)};
  std::memcpy(values, notes, sizeof *notes * static_cast<size_t>(std::min(*count, most)));
  return 0;
}

// A run, complete: it is copied onto the stream.
struct Launch {
  const Program* program;
  void* workspace;
  float constants[8];
  int64_t n;
  int64_t ids[32];
  void* pointers[32];
};

// The plan must exist when it runs. Workspace is overwritten.
void launch(const void* at) {
  Launch run = *static_cast<const Launch*>(at);
  std::shared_ptr<const Program> program;
  {
    const std::lock_guard lock(loaded_mutex);
    for (const auto& p : loaded)
      if (p.get() == run.program) program = p;
  }
  if (!program) {
    std::fprintf(stderr, "[cuDNN emulator] a plan runs that does not exist any more\n");
    std::abort();
  }
  std::memset(run.workspace, 0xE1, kWorkspace);
  std::map<int64_t, void*> pointers;
  size_t constant = 0;
  for (int64_t i = 0; i < run.n; ++i) {
    void*& to = pointers[run.ids[i]] = run.pointers[i];
    if (!to) to = &run.constants[constant++];
  }
  execute(*program, pointers);
}

bool aligned(const void* p, int64_t to) {
  return p && reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(to) == 0;
}

Status prepare_launch(const Object& plan, const Object& pack, Launch& out) {
  const Program& p = *plan.program;
  const auto operands = p.operands();
  out.program = plan.program.get();
  out.n = pack.count(Attribute::pack_ids);
  if (out.n != static_cast<int64_t>(operands.size()) || out.n > 32)
    return refuse(kBad, "not the operands of the plan");
  size_t constants = 0;
  for (int64_t i = 0; i < out.n; ++i) {
    const auto id = pack.get<int64_t>(Attribute::pack_ids, i);
    auto* at = pack.get<void*>(Attribute::pack_pointers, i);
    const auto t = p.tensors.find(id);
    if (t == p.tensors.end() || t->second.is_virtual || !at)
      return refuse(kBad, "an operand that the plan does not have");
    out.ids[i] = id;
    out.pointers[i] = at;
    if (t->second.by_value) {
      if (constants == std::size(out.constants)) return refuse(kBad, "too many constants");
      std::memcpy(&out.constants[constants++], at, sizeof(float));
      out.pointers[i] = nullptr;
    } else if (!aligned(at, t->second.alignment)) {
      return refuse(2003, "an operand that is not aligned");
    }
  }
  out.workspace = pack.get<void*>(Attribute::pack_workspace);
  return aligned(out.workspace, 256) ? 0 : refuse(2003, "a workspace that is not aligned");
}

}  // namespace

EXPORTED size_t cudnnGetVersion() {
  const std::string set = setting("PLAIT_CUDA_EMULATOR_DNN_VERSION");
  return set.empty() ? 91900 : std::strtoul(set.c_str(), nullptr, 10);
}
EXPORTED const char* cudnnGetErrorString(Status s) {
  return s == 0 ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_OF_THE_EMULATOR";
}
EXPORTED void cudnnGetLastErrorString(char* text, size_t size) {
  const std::lock_guard lock(mutex);
  std::snprintf(text, size, "%s", last_error.c_str());
}

EXPORTED Status cudnnCreate(Handle* out) {
  ENTER(cudnnCreate);
  if (!load_code()) return refuse(kFailed, "a handle is made while a stream is recorded");
  *out = *handles.insert(new plait::cuda::dnn::HandleContents).first;
  return 0;
}
EXPORTED Status cudnnDestroy(Handle handle) {
  const std::lock_guard lock(mutex);
  if (!handles.erase(handle)) return refuse(kBad, "no handle");
  delete handle;
  return 0;
}
EXPORTED Status cudnnSetStream(Handle handle, Stream stream) {
  ENTER(cudnnSetStream);
  if (!handles.contains(handle)) return refuse(kBad, "no handle");
  handle->stream = stream;
  return 0;
}

EXPORTED Status cudnnBackendCreateDescriptor(Kind kind, Descriptor* out) {
  ENTER(cudnnBackendCreateDescriptor);
  *out = create(kind);
  return *out ? 0 : refuse(kBad, "a kind of descriptor that the emulator does not have");
}
EXPORTED Status cudnnBackendDestroyDescriptor(Descriptor d) {
  const std::lock_guard lock(mutex);
  if (const Object* o = find(d); o && o->kind == Kind::plan) {
    const std::lock_guard plans(loaded_mutex);
    loaded.erase(o->program);
  }
  return destroy(d) ? 0 : refuse(kBad, "no descriptor");
}
EXPORTED Status cudnnBackendSetAttribute(Descriptor d, Attribute name, Type type, int64_t count,
                                         const void* values) {
  ENTER(cudnnBackendSetAttribute);
  Object* o = find(d);
  if (!o) return refuse(kBad, "no descriptor");
  if (type == Type::handle && (!values || !handles.contains(*static_cast<const Handle*>(values))))
    return refuse(kBad, "no handle");
  return set(*o, name, type, count, values);
}
EXPORTED Status cudnnBackendFinalize(Descriptor d) {
  ENTER(cudnnBackendFinalize);
  Object* o = find(d);
  if (!o) return refuse(kBad, "no descriptor");
  if (const Status s = complete(*o); s != 0) return s;
  if (o->kind != Kind::plan) return 0;
  {
    const std::lock_guard plans(loaded_mutex);
    loaded.insert(o->program);
  }
  return load_code() ? 0 : refuse(kFailed, "a plan is made while a stream is recorded");
}
EXPORTED Status cudnnBackendGetAttribute(Descriptor d, Attribute name, Type type, int64_t most,
                                         int64_t* count, void* values) {
  ENTER(cudnnBackendGetAttribute);
  const Object* o = find(d);
  if (!o || (!o->complete && o->kind != Kind::engine)) return refuse(kNotFinal, "not finalized");
  const auto asks = [&](Kind kind, Attribute a, Type t) {
    return o->kind == kind && name == a && type == t;
  };
  if (asks(Kind::heuristics, Attribute::heuristics_results, Type::descriptor))
    return give_configs(*o, most, count, values);
  if (asks(Kind::engine_config, Attribute::config_workspace, Type::int64) ||
      asks(Kind::plan, Attribute::plan_workspace, Type::int64))
    return give(workspace_of(*o), most, count, values);
  if (asks(Kind::engine, Attribute::engine_notes, Type::numerical_note))
    return give_notes(*o, most, count, values);
  if (!asks(Kind::engine_config, Attribute::config_engine, Type::descriptor) || !values)
    return refuse(kBad, "no such question");
  Object* engine = find(*static_cast<Descriptor*>(values));
  if (!engine || engine->kind != Kind::engine) return refuse(kBad, "no engine to fill");
  engine->engine = o->engine;
  engine->complete = true;
  if (count) *count = 1;
  return 0;
}
EXPORTED Status cudnnBackendExecute(Handle handle, Descriptor plan, Descriptor pack) {
  ENTER(cudnnBackendExecute);
  const Object *p = find(plan), *v = find(pack);
  if (!handles.contains(handle) || !handle->stream) return refuse(kBad, "no handle with a stream");
  if (!p || !v || !p->complete || !v->complete || p->kind != Kind::plan ||
      v->kind != Kind::variant_pack)
    return refuse(kBad, "no plan and operands");
  if (p->engine != kGood) return refuse(kFailed, "a plan that should not have been taken");
  Launch run{};
  if (const Status s = prepare_launch(*p, *v, run); s != 0) return s;
  if (!load_code()) return refuse(kFailed, "code is loaded while a stream is recorded");
  return emulator_enqueue(handle->stream, launch, &run, sizeof run) == 0
             ? 0
             : refuse(kFailed, "the driver refused");
}

// For tests: how many descriptors and handles exist.
EXPORTED size_t cudnn_emulator_live() {
  const std::lock_guard lock(mutex);
  return count_objects() + handles.size();
}
