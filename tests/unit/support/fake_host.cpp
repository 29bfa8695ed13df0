#include "tests/unit/support/fake_host.hpp"

#include <dlfcn.h>
#include <plait/device.h>

#include <cstring>

#include "tests/support/plugin_folder.hpp"

namespace plait::fake {
namespace {

plait_error* make_error(uint32_t code, const char* text, uint64_t size, plait_error* cause) {
  delete cause;
  return new plait_error{code, size == PLAIT_NTS ? std::string(text) : std::string(text, size)};
}

// The fields that every item struct begins with.
struct ItemHead {
  size_t struct_size;
  const char* name;
};

}  // namespace

Host::Host() {
  host_.struct_size = sizeof host_;
  host_.abi = PLAIT_ABI_VERSION;
  host_.error_new = make_error;
  host_.error_code = [](const plait_error* e) { return e->code; };
  host_.error_text = [](const plait_error* e) { return e->text.c_str(); };
  host_.error_free = [](plait_error* e) { delete e; };
  host_.log = [](const plait_host*, uint32_t, const char*, uint64_t) {};
  host_.add = add;
  host_.extension = [](const plait_host*, const char*) -> const void* { return nullptr; };
}

plait_error* Host::add(const plait_host* host, const char* kind, const void* item) {
  auto* self = reinterpret_cast<Host*>(const_cast<plait_host*>(host));  // host_ is the first member
  std::string name = static_cast<const ItemHead*>(item)->name;
  if (kind == std::string_view(PLAIT_KIND_KERNEL))  // unique for an op alone
    name = static_cast<const plait_kernel_item*>(item)->op + (" " + name);
  self->items_[{kind, name}] = item;
  return nullptr;
}

void Host::load(const std::string& name) {
  const auto path = test::plugin_folder() / ("plait-" + name + ".so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: items are in it
  if (!library) throw std::runtime_error(dlerror());
  auto entry = reinterpret_cast<plait_plugin_entry>(dlsym(library, PLAIT_PLUGIN_ENTRY));
  if (!entry) throw std::runtime_error(dlerror());
  const plait_plugin* plugin = entry(PLAIT_ABI_VERSION);
  if (!plugin || name != plugin->name)
    throw std::runtime_error("plugin calls itself otherwise: " + name);
  void* state = nullptr;
  check(plugin->open(&host_, path.c_str(), &state));
}

const void* Host::find(const std::string& kind, const std::string& name) const {
  const auto i = items_.find({kind, name});
  if (i == items_.end()) throw std::runtime_error("no item " + kind + " " + name);
  return i->second;
}

std::vector<std::string> Host::names(const std::string& kind) const {
  std::vector<std::string> names;
  for (const auto& [key, item] : items_)
    if (key.first == kind) names.push_back(key.second);
  return names;
}

}  // namespace plait::fake
