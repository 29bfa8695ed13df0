#include "tests/support/abi_host.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>

namespace abi_host {
namespace {

void log(const plait_host*, uint32_t, const char*, uint64_t) {}
const void* extension(const plait_host*, const char*) { return nullptr; }

const std::string* find(const plait_options* o, const char* name) {
  const auto& values = reinterpret_cast<const Options*>(o)->values;
  const auto it = values.find(name);
  return it == values.end() ? nullptr : &it->second;
}
plait_error* undeclared(const char* name) {
  const std::string text = std::string("[test] undeclared option ") + name;
  return error_new(PLAIT_ERR_INVALID, text.data(), text.size(), nullptr);
}

template <class T, class Convert>
plait_error* get(const plait_options* o, const char* name, T* out, Convert convert) {
  const std::string* v = find(o, name);
  if (!v) return undeclared(name);
  *out = convert(*v);
  return nullptr;
}
plait_error* get_bool(const plait_options* o, const char* name, uint32_t* out) {
  return get(o, name, out, [](const std::string& v) { return v == "true" ? 1u : 0u; });
}
plait_error* get_int(const plait_options* o, const char* name, int64_t* out) {
  return get(o, name, out,
             [](const std::string& v) { return static_cast<int64_t>(std::stoll(v)); });
}
plait_error* get_real(const plait_options* o, const char* name, double* out) {
  return get(o, name, out, [](const std::string& v) { return std::stod(v); });
}
plait_error* get_text(const plait_options* o, const char* name, const char** out, uint64_t* size) {
  const std::string* v = find(o, name);
  if (!v) return undeclared(name);
  const bool quoted = v->size() >= 2 && v->front() == '"';
  *out = v->data() + (quoted ? 1 : 0);
  *size = v->size() - (quoted ? 2 : 0);
  return nullptr;
}
template <class T>
plait_error* get_none(const plait_options*, const char*, const T** out, uint64_t* n) {
  *out = nullptr;
  *n = 0;
  return nullptr;
}
plait_error* get_texts(const plait_options*, const char*, uint64_t, const char** out,
                       uint64_t* size, uint64_t* n) {
  *out = nullptr;
  *size = *n = 0;
  return nullptr;
}
const char* origin(const plait_options*, const char*) { return "default"; }

// No item here has items as options.
const plait_options_table kTable = {offsetof(plait_options_table, get_item),
                                    get_bool,
                                    get_int,
                                    get_real,
                                    get_text,
                                    get_none<int64_t>,
                                    get_none<double>,
                                    get_texts,
                                    origin,
                                    nullptr};

}  // namespace

plait_host table_of(Add add) {
  return {sizeof(plait_host), PLAIT_ABI_VERSION, 0,   error_new, error_code,
          error_text,         error_free,        log, add,       extension};
}

Options options_of(const plait_option* declared, uint32_t n, const OptionValues& given) {
  Options o{{&kTable}, {}};
  for (uint32_t i = 0; i < n; ++i) {
    const auto one = given.find(declared[i].name);
    o.values[declared[i].name] = one == given.end() ? declared[i].default_value : one->second;
  }
  return o;
}

PluginFile::PluginFile(const std::string& path)
    : path_(path), library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<plait_plugin_entry>(dlsym(library_, PLAIT_PLUGIN_ENTRY));
  if (!entry) throw std::runtime_error(path + " exports no " PLAIT_PLUGIN_ENTRY);
  table_ = entry(PLAIT_ABI_VERSION);
  if (!table_) throw std::runtime_error(path + " serves another ABI");
}

PluginFile::~PluginFile() {
  if (open_) table_->close(state_);
  dlclose(library_);
}

plait_error* PluginFile::open(const plait_host* host) {
  plait_error* const e = table_->open(host, path_.c_str(), &state_);
  open_ = !e;
  return e;
}

}  // namespace abi_host
