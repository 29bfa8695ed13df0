#include "engine/plugin/host.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/c_error.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::plugin {

// The functions of plait_host.
struct HostCalls {
  static const Host& of(const plait_host* host) { return *static_cast<const Host*>(host); }

  static plait_error* error_new(uint32_t code, const char* text, uint64_t size,
                                plait_error* cause) {
    return new_plugin_error(code, text, size, cause);
  }
  static uint32_t error_code(const plait_error* e) { return e ? e->code : PLAIT_OK; }
  static const char* error_text(const plait_error* e) { return e ? e->text.c_str() : ""; }
  static void error_free(plait_error* e) { free_c_error(e); }

  static void log(const plait_host* host, uint32_t level, const char* text, uint64_t size) {
    const Host& self = of(host);
    if (!text || !self.log_.wants(level)) return;
    try {
      const size_t length = size == PLAIT_NTS ? std::strlen(text) : static_cast<size_t>(size);
      self.log_.write(level, "[" + self.plugin_ + "] " + std::string(text, length));
    } catch (...) {
      // Out of memory: the line is lost, the plugin continues.
    }
  }
  static plait_error* add(const plait_host* host, const char* kind, const void* item) {
    return guard_c([&] {
      if (!host)
        fail_invalid("[plugin] add() was called with NULL for the host; pass the host of open()");
      const Host& self = of(host);
      if (!self.opening_)
        fail(PLAIT_ERR_STATE,
             "[plugin " + self.plugin_ + "] added an item outside open(); add all items in open()");
      if (!kind)
        fail(PLAIT_ERR_PLUGIN,
             "[plugin " + self.plugin_ + "] added an item without a kind; pass PLAIT_KIND_...");
      const std::string taken = self.registry_.items_.add(kind, item, self);
      if (!taken.empty()) self.left_out_.push_back(taken);
    });
  }
  static const void* extension(const plait_host* host, const char* id) {
    static const plait_job_table kJob = {sizeof(plait_job_table), job};
    if (!id) return nullptr;
    for (const auto& [name, table] : of(host).extensions_)
      if (name == id) return table;
    return std::strcmp(id, PLAIT_EXTENSION_JOB) == 0 ? &kJob : nullptr;
  }
  static void job(const plait_host* host, plait_job_place* out) {
    const JobPlace* scope = JobScope::current();
    const JobPlace place = scope ? *scope : of(host).registry_.job_;
    const plait_job_place all = {out->struct_size, place.rank, place.world, place.local_rank,
                                 place.local_size};
    std::memcpy(out, &all, std::min(out->struct_size, sizeof all));
  }
};

Host::Host(Registry& registry, Log& log, const Extensions& extensions, std::string plugin)
    : plait_host{sizeof(plait_host),    PLAIT_ABI_VERSION,     0,
                 HostCalls::error_new,  HostCalls::error_code, HostCalls::error_text,
                 HostCalls::error_free, HostCalls::log,        HostCalls::add,
                 HostCalls::extension},
      registry_(registry),
      log_(log),
      extensions_(extensions),
      plugin_(std::move(plugin)) {}

}  // namespace plait::plugin
