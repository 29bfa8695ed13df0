// Calls the entry of every plugin of the build as a host of any version would: the entry is pure,
// repeatable, and never returns a table newer than the host.
//
//   abi_entry FOLDER     of plait-*.so
#include <dlfcn.h>
#include <plait/plugin.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

int faults = 0;

void expect(bool fine, const std::string& plugin, const std::string& what) {
  if (fine) return;
  std::printf("%s: %s\n", plugin.c_str(), what.c_str());
  ++faults;
}

void check(const std::string& path, plait_plugin_entry entry) {
  constexpr uint32_t kHosts[] = {0, 1, 2, 1, 0, 1000, UINT32_MAX, 1, 2};
  const plait_plugin* const table = entry(PLAIT_ABI_VERSION);
  expect(table != nullptr, path, "no table for a host of its own ABI");
  if (!table) return;
  const plait_plugin before = *table;
  for (const uint32_t host : kHosts) {
    const std::string when = "for host ABI " + std::to_string(host);
    const plait_plugin* found = entry(host);
    expect(found == entry(host), path, "another answer the second time " + when);
    if (host < PLAIT_ABI_VERSION) {
      expect(!found || found->abi <= host, path, "a table newer than the host " + when);
      continue;
    }
    expect(found == table, path, "another table than its newest " + when);
  }
  expect(std::memcmp(&before, table, sizeof before) == 0, path, "its table has changed");
  expect(table->abi == PLAIT_ABI_VERSION && table->reserved == 0, path,
         "its table is of ABI " + std::to_string(table->abi));
  expect(table->struct_size >= sizeof(plait_plugin), path, "its table is too small");
  expect(table->open && table->close, path, "its table has no open or close");
  for (const char* text : {table->name, table->version, table->license, table->summary})
    expect(text && *text, path, "its table lacks a text");
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return std::puts("usage: abi_entry FOLDER"), 2;
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(values[1]))
    if (file.path().extension() == ".so") paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void* symbol = library ? dlsym(library, PLAIT_PLUGIN_ENTRY) : nullptr;
    expect(symbol != nullptr, path, library ? "no " PLAIT_PLUGIN_ENTRY : dlerror());
    if (symbol) check(path, reinterpret_cast<plait_plugin_entry>(symbol));
  }
  std::printf("%zu plugins, %d faults\n", paths.size(), faults);
  return faults || paths.empty() ? 1 : 0;
}
