#include "engine/plugin/checks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {
namespace {

// Size of plait_plugin in ABI 1, up to its last member at that time. Never changes.
constexpr size_t kPluginV1 = offsetof(plait_plugin, close) + sizeof(plait_plugin::close);

bool ours_or_roots(const FileInfo& info) { return info.owner == 0 || info.owner == geteuid(); }

// Group write permission is harmless for the user's own group (a private group has the user's
// number).
bool others_may_write(const FileInfo& info) {
  const bool private_group = info.group == info.owner && info.group == getegid();
  return (info.mode & 002) != 0 || ((info.mode & 020) != 0 && !private_group);
}

// As in /tmp: others cannot replace our files.
bool is_sticky(const FileInfo& info) { return (info.mode & 01000) != 0; }

std::string mode_text(const FileInfo& info) {
  return strf("owner %u, mode %04o", info.owner, info.mode);
}

std::string abi_text(uint32_t abi) { return "ABI " + std::to_string(abi); }

}  // namespace

void check_permissions(FileSystem& files, const std::string& path) {
  const FileInfo file = files.info(path);
  if (!ours_or_roots(file) || others_may_write(file))
    throw PluginLoadError(path,
                          "found " + mode_text(file) +
                              ", expected a file owned by you or root that nobody else may write",
                          "run chmod go-w on it, or install it as its owner");
  std::string folder = folder_of(path);
  const FileInfo own = files.info(folder);
  if (!ours_or_roots(own) || (others_may_write(own) && !is_sticky(own)))
    throw PluginLoadError(path,
                          "its folder has " + mode_text(own) +
                              ", expected one owned by you or root that nobody else may write",
                          "run chmod go-w on the folder, or move the plugin");
  // Whoever may write to a folder can replace its files, and the folder below.
  while (folder != "/" && folder != ".") {
    folder = folder_of(folder);
    const FileInfo above = files.info(folder);
    if ((above.mode & 002) != 0 && !is_sticky(above))
      throw PluginLoadError(path,
                            "the folder '" + folder + "' above it has " + mode_text(above) +
                                ", expected one that not everybody may write",
                            "run chmod o-w on that folder, or move the plugin");
  }
}

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
