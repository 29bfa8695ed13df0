// A minimal host for communication plugins: loads one file, takes its item, and provides a store in
// memory. It uses abi/ and no part of the engine.
#pragma once

#include <plait/comm.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/abi_host.hpp"

namespace comm_test {

// An error of a plugin, as a C++ exception.
struct Failure : std::runtime_error {
  Failure(uint32_t c, const std::string& text) : std::runtime_error(text), code(c) {}
  uint32_t code;
};
void check(plait_error* e);  // throws Failure

using abi_host::live_errors;

struct GroupSettings;

// One loaded plugin with one backend.
class Plugin {
 public:
  explicit Plugin(const std::string& path);
  virtual ~Plugin() = default;
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const plait_host* host() const { return &host_.head; }
  virtual const plait_comm_item& item() const { return *item_; }
  virtual std::string name() const { return item_->name; }
  // The host of a rank, unless the test sets it.
  virtual std::string host_of_rank(uint32_t, uint32_t) const { return "localhost"; }
  virtual plait_comm* open(const plait_comm_setup& setup, const GroupSettings& settings) const;
  void with_options(const GroupSettings& settings,
                    const std::function<void(const plait_options&)>& f) const;

 private:
  static plait_error* add(const plait_host* host, const char* kind, const void* item);

  struct Host {
    plait_host head;
    Plugin* plugin;
  } host_;
  abi_host::PluginFile file_;
  const plait_comm_item* item_ = nullptr;
};

// A store for threads of one process: values by key.
class MemoryStore {
 public:
  explicit MemoryStore(double timeout = 10);
  const plait_store* raw() const { return &raw_; }

 private:
  static plait_error* set(void* self, const char* key, const void* data, uint64_t size);
  static plait_error* get(void* self, const char* key, void* data, uint64_t capacity,
                          uint64_t* size);
  static plait_error* get_within(void* self, const char* key, double seconds, void* data,
                                 uint64_t capacity, uint64_t* size, uint32_t* found);
  plait_store raw_;
  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// A store for processes: values as files of a folder.
class FileStore {
 public:
  FileStore(std::string folder, double timeout = 10);
  const plait_store* raw() const { return &raw_; }

 private:
  static plait_error* set(void* self, const char* key, const void* data, uint64_t size);
  static plait_error* get(void* self, const char* key, void* data, uint64_t capacity,
                          uint64_t* size);
  static plait_error* get_within(void* self, const char* key, double seconds, void* data,
                                 uint64_t capacity, uint64_t* size, uint32_t* found);
  bool wait_for(const std::string& path, std::chrono::duration<double> time) const;
  plait_store raw_;
  const std::string folder_;
  std::chrono::duration<double> timeout_;
};

// How a group is opened: name, time-outs in seconds.
struct GroupSettings {
  std::string name = "test[0]";
  double connect_timeout = 20, timeout = 20;
  std::vector<std::string> hosts = {};  // of each rank; empty: the plugin's choice
  abi_host::OptionValues options = {};  // unset options have their defaults
};

// One rank's endpoint of a group; messages call rank 2 "rank 2 (data 2)". All functions throw
// Failure.
class Comm {
 public:
  Comm(const Plugin& plugin, const plait_store* store, uint32_t rank, uint32_t size,
       const GroupSettings& settings = {});
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  const plait_comm_item& item() const { return item_; }
  plait_comm* raw() const { return comm_; }
  // Symmetric memory with space for n of T; NULL if the backend provides none.
  template <class T>
  T* memory(uint64_t n) {
    void* memory = nullptr;
    if (item_.memory) check(item_.memory(comm_, n * sizeof(T), &memory));
    return static_cast<T*>(memory);
  }
  void abort(const std::string& text) { item_.abort(comm_, text.data(), text.size()); }

 private:
  const plait_comm_item& item_;
  uint32_t rank_, size_;
  plait_comm* comm_ = nullptr;
};

class Call {
 public:
  Call(Comm& comm, const plait_comm_desc& desc);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  void start() { check(item_.start(call_, nullptr)); }
  void finish() { check(item_.finish(call_, nullptr)); }
  void run() {
    start();
    finish();
  }

 private:
  const plait_comm_item& item_;
  plait_comm_call* call_ = nullptr;
};

inline plait_comm_desc desc(uint32_t kind, uint32_t dtype, uint64_t n, const void* in, void* out,
                            uint32_t reduction = 0, uint32_t peer = 0) {
  return {sizeof(plait_comm_desc), kind, dtype, reduction, peer, n, in, out};
}

// Creates the plugin for an argument of main(); each program built of these files has its own
// definition.
std::unique_ptr<Plugin> make_plugin(const std::string& argument);
// The plugins under test.
const std::vector<std::unique_ptr<Plugin>>& plugins();
void load_plugins(const std::vector<std::string>& paths);
void unload_plugins();

}  // namespace comm_test
