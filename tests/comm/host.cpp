#include "tests/comm/host.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace comm_test {
namespace {

plait_error* error_text_of(uint32_t code, const std::string& text) {
  return error_new(code, text.data(), text.size(), nullptr);
}
void log(const plait_host*, uint32_t, const char*, uint64_t) {}
const void* extension(const plait_host*, const char*) { return nullptr; }

// Options as given, else as declared.
struct Values {
  plait_options head;
  const plait_comm_item* item;
  const std::map<std::string, std::string>* given;
};
const char* value(const plait_options* o, const char* name) {
  const Values& values = *reinterpret_cast<const Values*>(o);
  if (const auto one = values.given->find(name); one != values.given->end())
    return one->second.c_str();
  const plait_comm_item& item = *values.item;
  for (uint32_t i = 0; i < item.n_options; ++i)
    if (!std::strcmp(item.options[i].name, name)) return item.options[i].initial;
  throw std::logic_error(std::string("undeclared option ") + name);
}
plait_error* get_bool(const plait_options* o, const char* name, uint32_t* out) {
  *out = std::strcmp(value(o, name), "true") == 0;
  return nullptr;
}
plait_error* get_int(const plait_options* o, const char* name, int64_t* out) {
  *out = std::stoll(value(o, name));
  return nullptr;
}
plait_error* get_real(const plait_options* o, const char* name, double* out) {
  *out = std::stod(value(o, name));
  return nullptr;
}
plait_error* get_text(const plait_options* o, const char* name, const char** out, uint64_t* size) {
  const char* quoted = value(o, name);
  *out = quoted + 1;
  *size = std::strlen(quoted) - 2;
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
const plait_options_table kTable = {
    sizeof(plait_options_table), get_bool,         get_int,   get_real, get_text,
    get_none<int64_t>,           get_none<double>, get_texts, origin};

plait_error* deliver(const std::string& value, void* data, uint64_t capacity, uint64_t* size) {
  if (value.size() > capacity)
    return error_text_of(PLAIT_ERR_INVALID, "[store] the value is larger than the memory for it");
  std::memcpy(data, value.data(), value.size());
  *size = value.size();
  return nullptr;
}

std::vector<std::unique_ptr<Plugin>> the_plugins;

}  // namespace

void check(plait_error* e) {
  if (!e) return;
  const Failure failure(error_code(e), error_text(e));
  error_free(e);
  throw failure;
}

Plugin::Plugin(const std::string& path) {
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<plait_plugin_entry>(dlsym(library_, PLAIT_PLUGIN_ENTRY));
  if (!entry) throw std::runtime_error(path + " exports no " PLAIT_PLUGIN_ENTRY);
  table_ = entry(PLAIT_ABI_VERSION);
  if (!table_) throw std::runtime_error(path + " serves another ABI");
  host_.head = {sizeof(plait_host), PLAIT_ABI_VERSION, 0,   error_new, error_code,
                error_text,         error_free,        log, add,       extension};
  host_.plugin = this;
  check(table_->open(host(), path.c_str(), &state_));
  if (!item_) throw std::runtime_error(path + " offers no communication");
}

Plugin::~Plugin() {
  if (table_) table_->close(state_);
  if (library_) dlclose(library_);
}

plait_comm* Plugin::open(const plait_comm_setup& setup, const Terms& terms) const {
  plait_comm* comm = nullptr;
  with_options(terms, [&](const plait_options& options) {
    check(item_->open(host(), &options, &setup, &comm));
  });
  return comm;
}

void Plugin::with_options(const Terms& terms,
                          const std::function<void(const plait_options&)>& f) const {
  const Values options{{&kTable}, item_, &terms.options};
  f(options.head);
}

plait_error* Plugin::add(const plait_host* host, const char* kind, const void* item) {
  Plugin* self = reinterpret_cast<const Host*>(host)->plugin;
  if (std::strcmp(kind, PLAIT_KIND_COMM) == 0)
    self->item_ = static_cast<const plait_comm_item*>(item);
  return nullptr;
}

MemoryStore::MemoryStore(double timeout)
    : raw_{sizeof(plait_store), this, set, get}, timeout_(timeout) {}

plait_error* MemoryStore::set(void* self, const char* key, const void* data, uint64_t size) {
  auto* store = static_cast<MemoryStore*>(self);
  const std::lock_guard lock(store->mutex_);
  if (!store->values_.emplace(key, std::string(static_cast<const char*>(data), size)).second)
    return error_text_of(PLAIT_ERR_INVALID, std::string("[store] '") + key + "' is taken");
  store->changed_.notify_all();
  return nullptr;
}

plait_error* MemoryStore::get(void* self, const char* key, void* data, uint64_t capacity,
                              uint64_t* size) {
  auto* store = static_cast<MemoryStore*>(self);
  std::unique_lock lock(store->mutex_);
  if (!store->changed_.wait_for(lock, store->timeout_,
                                [&] { return store->values_.count(key) != 0; }))
    return error_text_of(PLAIT_ERR_PEER, std::string("[store] nobody laid down '") + key + "'");
  return deliver(store->values_[key], data, capacity, size);
}

FileStore::FileStore(std::string folder, double timeout)
    : raw_{sizeof(plait_store), this, set, get}, folder_(std::move(folder)), timeout_(timeout) {}

plait_error* FileStore::set(void* self, const char* key, const void* data, uint64_t size) {
  const std::string path = static_cast<FileStore*>(self)->folder_ + "/" + key;
  // Linked when it is whole, and only where there is none: the first of several wins.
  const std::string draft = path + ".draft." + std::to_string(getpid());
  std::ofstream(draft, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  std::error_code taken;
  std::filesystem::create_hard_link(draft, path, taken);
  std::filesystem::remove(draft);
  if (taken) return error_text_of(PLAIT_ERR_INVALID, std::string("[store] '") + key + "' is taken");
  return nullptr;
}

plait_error* FileStore::get(void* self, const char* key, void* data, uint64_t capacity,
                            uint64_t* size) {
  auto* store = static_cast<FileStore*>(self);
  const auto end = std::chrono::steady_clock::now() + store->timeout_;
  const std::string path = store->folder_ + "/" + key;
  while (!std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() > end)
      return error_text_of(PLAIT_ERR_PEER, std::string("[store] nobody laid down '") + key + "'");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::ifstream file(path, std::ios::binary);
  return deliver(std::string(std::istreambuf_iterator<char>(file), {}), data, capacity, size);
}

Comm::Comm(const Plugin& plugin, const plait_store* store, uint32_t rank, uint32_t size,
           const Terms& terms)
    : item_(plugin.item()), rank_(rank), size_(size) {
  std::vector<std::string> texts;
  for (uint32_t r = 0; r < size; ++r)
    texts.push_back("rank " + std::to_string(r) + " (data " + std::to_string(r) + ")");
  std::vector<const char*> names;
  for (const std::string& text : texts) names.push_back(text.c_str());
  std::vector<std::string> where = terms.hosts;
  for (uint32_t r = static_cast<uint32_t>(where.size()); r < size; ++r)
    where.push_back(plugin.host_of_rank(r, size));
  std::vector<const char*> hosts;
  for (const std::string& text : where) hosts.push_back(text.c_str());
  const plait_comm_setup setup = {
      sizeof(plait_comm_setup), terms.name.c_str(), rank, size, hosts.data(), names.data(), store,
      terms.connect_timeout,    terms.timeout};
  comm_ = plugin.open(setup, terms);
}

Comm::~Comm() { item_.close(comm_); }

Call::Call(Comm& comm, const plait_comm_desc& desc) : item_(comm.item()) {
  check(item_.prepare(comm.raw(), &desc, &call_));
}
Call::~Call() { item_.release(call_); }

const std::vector<std::unique_ptr<Plugin>>& plugins() { return the_plugins; }
void load_plugins(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) the_plugins.push_back(make_plugin(path));
}
void unload_plugins() { the_plugins.clear(); }

}  // namespace comm_test
