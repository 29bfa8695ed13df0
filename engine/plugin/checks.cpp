#include "engine/plugin/checks.hpp"

#include <algorithm>
#include <cstddef>

#include "engine/base/text.hpp"
#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {
namespace {

// Size of plait_plugin in ABI 1, up to its last member at that time. Never changes.
constexpr size_t kPluginV1 = offsetof(plait_plugin, close) + sizeof(plait_plugin::close);

std::string abi_text(uint32_t abi) { return "ABI " + std::to_string(abi); }

}  // namespace

void check_inspection(const Inspection& found) {
  if (!found.matches_this_machine())
    throw PluginLoadError(found.path,
                          "found a file for " + found.machine_name + ", " +
                              std::to_string(found.bits) + " bit, this engine runs " +
                              own_machine(),
                          "build the plugin for this machine");
  if (!found.shared)
    throw PluginLoadError(found.path, "found an object file or program, expected a shared library",
                          "link it with -shared");
  if (!found.note)
    throw PluginLoadError(
        found.path,
        "found no Plait note (section " PLAIT_NOTE_SECTION
        "), expected one with abi=" PLAIT_STR(PLAIT_ABI_VERSION),
        "build it with plait_add_plugin() and PLAIT_PLUGIN, or add PLAIT_PLUGIN_NOTE");
  const uint32_t abi = found.note->abi;
  if (abi != PLAIT_ABI_VERSION)
    throw PluginLoadError(
        found.path,
        "found " + abi_text(abi) + ", this engine supports " + abi_text(PLAIT_ABI_VERSION) +
            ": the " + (abi > PLAIT_ABI_VERSION ? "engine" : "plugin") + " is the older side",
        abi > PLAIT_ABI_VERSION
            ? "use a newer engine, or build the plugin against this one's headers"
            : "build the plugin against this engine's headers");
  const std::string own = own_sanitizer();
  if (found.note->sanitizer != "none" && found.note->sanitizer != own)
    throw PluginLoadError(found.path,
                          "found a plugin built with the " + found.note->sanitizer +
                              " sanitizer, this engine is built with " +
                              (own == "none" ? "none" : "the " + own + " sanitizer"),
                          "build both with the same one");
}

void check_table(const plait_plugin* table, const Inspection& found) {
  const std::string entry = PLAIT_PLUGIN_ENTRY;
  if (!table)
    throw PluginLoadError(
        found.path,
        entry + " returned NULL for " + abi_text(PLAIT_ABI_VERSION) + ", expected a plugin table",
        "use a newer engine, or a build of the plugin for this one");
  const std::string fix = "correct the plugin's table";
  if (table->struct_size < kPluginV1)
    throw PluginLoadError(found.path,
                          "found a table with struct_size " + std::to_string(table->struct_size) +
                              ", expected at least " + std::to_string(kPluginV1),
                          fix);
  if (table->abi != PLAIT_ABI_VERSION)
    throw PluginLoadError(found.path,
                          "found a table of " + abi_text(table->abi) + ", this engine supports " +
                              abi_text(PLAIT_ABI_VERSION),
                          "build the plugin against this engine's headers");
  if (!table->name || found.note->name != table->name)
    throw PluginLoadError(
        found.path,
        "found " + (table->name ? "the name '" + printable(table->name) + "'" : "no name") +
            " in its table, expected '" + found.note->name + "' as in its note",
        fix);
  const struct {
    const char *what, *text;
  } texts[] = {
      {"version", table->version}, {"license", table->license}, {"summary", table->summary}};
  for (const auto& [what, text] : texts)
    if (!text)
      throw PluginLoadError(found.path, std::string("found a table without a ") + what, fix);
  if (!table->open || !table->close)
    throw PluginLoadError(found.path, "found a table without open() or close(), expected both",
                          fix);
}

std::vector<std::string> surplus_exports(const Inspection& found) {
  std::vector<std::string> surplus = found.exports;
  // The runtime of a sanitizer or of coverage may export names of its own.
  std::erase_if(surplus, [](const std::string& name) {
    return name == PLAIT_PLUGIN_ENTRY || name.starts_with("__asan") ||
           name.starts_with("__odr_asan") || name.starts_with("__gcov");
  });
  return surplus;
}

}  // namespace plait::plugin
