#include "tests/comm/host.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace comm_test {
namespace {

plait_error* error_text_of(uint32_t code, const std::string& text) {
  return abi_host::error_new(code, text.data(), text.size(), nullptr);
}

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
  const uint32_t code = abi_host::error_code(e);
  const std::string text = abi_host::error_text(e);
  abi_host::error_free(e);
  throw Failure(code, text);
}

Plugin::Plugin(const std::string& path) : host_{abi_host::table_of(add), this}, file_(path) {
  check(file_.open(host()));
  if (!item_) throw std::runtime_error(path + " offers no communication");
}

plait_comm* Plugin::open(const plait_comm_setup& setup, const GroupSettings& settings) const {
  plait_comm* comm = nullptr;
  with_options(settings, [&](const plait_options& options) {
    check(item_->open(host(), &options, &setup, &comm));
  });
  return comm;
}

void Plugin::with_options(const GroupSettings& settings,
                          const std::function<void(const plait_options&)>& f) const {
  f(abi_host::options_of(item_->options, item_->n_options, settings.options).head);
}

plait_error* Plugin::add(const plait_host* host, const char* kind, const void* item) {
  Plugin* self = reinterpret_cast<const Host*>(host)->plugin;
  if (std::strcmp(kind, PLAIT_KIND_COMM) == 0)
    self->item_ = static_cast<const plait_comm_item*>(item);
  return nullptr;
}

MemoryStore::MemoryStore(double timeout)
    : raw_{sizeof(plait_store), this, set, get, get_within}, timeout_(timeout) {}

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
  uint32_t found = 0;
  const double most = static_cast<MemoryStore*>(self)->timeout_.count();
  if (plait_error* e = get_within(self, key, most, data, capacity, size, &found)) return e;
  if (found) return nullptr;
  return error_text_of(PLAIT_ERR_PEER, std::string("[store] nobody laid down '") + key + "'");
}

plait_error* MemoryStore::get_within(void* self, const char* key, double seconds, void* data,
                                     uint64_t capacity, uint64_t* size, uint32_t* found) {
  auto* store = static_cast<MemoryStore*>(self);
  std::unique_lock lock(store->mutex_);
  const bool there = store->changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                                              [&] { return store->values_.count(key) != 0; });
  if (there)
    if (plait_error* e = deliver(store->values_[key], data, capacity, size)) return e;
  *found = there ? 1 : 0;
  return nullptr;
}

FileStore::FileStore(std::string folder, double timeout)
    : raw_{sizeof(plait_store), this, set, get, get_within},
      folder_(std::move(folder)),
      timeout_(timeout) {}

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

bool FileStore::wait_for(const std::string& path, std::chrono::duration<double> time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

plait_error* FileStore::get(void* self, const char* key, void* data, uint64_t capacity,
                            uint64_t* size) {
  uint32_t found = 0;
  const double most = static_cast<FileStore*>(self)->timeout_.count();
  if (plait_error* e = get_within(self, key, most, data, capacity, size, &found)) return e;
  if (found) return nullptr;
  return error_text_of(PLAIT_ERR_PEER, std::string("[store] nobody laid down '") + key + "'");
}

plait_error* FileStore::get_within(void* self, const char* key, double seconds, void* data,
                                   uint64_t capacity, uint64_t* size, uint32_t* found) {
  const auto* store = static_cast<const FileStore*>(self);
  const std::string path = store->folder_ + "/" + key;
  const bool there = store->wait_for(path, std::chrono::duration<double>(seconds));
  if (there) {
    std::ifstream file(path, std::ios::binary);
    const std::string value(std::istreambuf_iterator<char>(file), {});
    if (plait_error* e = deliver(value, data, capacity, size)) return e;
  }
  *found = there ? 1 : 0;
  return nullptr;
}

Comm::Comm(const Plugin& plugin, const plait_store* store, uint32_t rank, uint32_t size,
           const GroupSettings& settings)
    : item_(plugin.item()), rank_(rank), size_(size) {
  std::vector<std::string> texts;
  for (uint32_t r = 0; r < size; ++r)
    texts.push_back("rank " + std::to_string(r) + " (data " + std::to_string(r) + ")");
  std::vector<const char*> names;
  for (const std::string& text : texts) names.push_back(text.c_str());
  std::vector<std::string> where = settings.hosts;
  for (uint32_t r = static_cast<uint32_t>(where.size()); r < size; ++r)
    where.push_back(plugin.host_of_rank(r, size));
  std::vector<const char*> hosts;
  for (const std::string& text : where) hosts.push_back(text.c_str());
  const plait_comm_setup setup = {sizeof(plait_comm_setup),
                                  settings.name.c_str(),
                                  rank,
                                  size,
                                  hosts.data(),
                                  names.data(),
                                  store,
                                  settings.connect_timeout,
                                  settings.timeout,
                                  nullptr};
  comm_ = plugin.open(setup, settings);
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
