#include "engine/plugin/registry.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/checks.hpp"
#include "engine/plugin/loaded.hpp"
#include "engine/plugin/plugin_file.hpp"
#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {

Registry::Registry(Log& log, FileSystem& files, Extensions extensions, RegistrySettings settings)
    : log_(log),
      files_(files),
      extensions_(std::move(extensions)),
      settings_(std::move(settings)) {}

Registry::~Registry() { close(); }

const Registry::Plugin* Registry::plugin_named(std::string_view name) const {
  for (const auto& plugin : plugins_)
    if (plugin->host.plugin() == name) return plugin.get();
  return nullptr;
}

// Calls open() of a plugin whose table is valid; after a failure nothing of the plugin remains.
void Registry::open(std::unique_ptr<Library> library, const plait_plugin* table,
                    const std::string& path) {
  auto plugin = std::make_unique<Plugin>(*this, log_, extensions_, table, path);
  plugin->library = std::move(library);
  std::string threw;
  plait_error* failed = nullptr;
  plugin->host.begin_open();
  try {
    failed = table->open(&plugin->host, path.c_str(), &plugin->state);
  } catch (const std::bad_alloc&) {
    threw = "an exception: out of memory";
  } catch (const std::exception& e) {
    threw = std::string("an exception: ") + e.what();
  } catch (...) {
    threw = "an exception";
  }
  plugin->host.end_open();
  if (!failed && threw.empty()) {
    if (!settings_.unload && plugin->library) plugin->library->keep();
    plugins_.push_back(std::move(plugin));
    return;
  }
  items_.remove(plugin->host);
  if (!failed)
    throw PluginLoadError(
        path, "open() threw " + threw + ", expected a plait_error",
        "report it to the plugin's author: a plugin must not let exceptions escape");
  const Error cause = from_c(failed);
  throw PluginLoadError(path, "open() failed: " + cause.full_text(), "see the plugin's own error",
                        cause.code());
}

// The table returned by the library's entry function.
static const plait_plugin* enter(const Library& library, const std::string& path) {
  // POSIX allows dlsym() to return a function's address as an object pointer.
  const auto entry = reinterpret_cast<plait_plugin_entry>(library.symbol(PLAIT_PLUGIN_ENTRY));
  if (!entry)
    throw PluginLoadError(path,
                          "found no symbol " PLAIT_PLUGIN_ENTRY ", expected it as the one export",
                          "define it with PLAIT_PLUGIN");
  try {
    return entry(PLAIT_ABI_VERSION);
  } catch (...) {
    throw PluginLoadError(path, PLAIT_PLUGIN_ENTRY " threw an exception, expected a plugin table",
                          "report it to the plugin's author");
  }
}

// Items whose names other plugins had: the rest of the plugin is there.
static void tell_left_out(const Host& host, LoadEntry& entry, Log& log) {
  if (host.left_out().empty()) return;
  const std::string what = "left out items: " + join(host.left_out());
  entry.reason += (entry.reason.empty() ? "" : "; ") + what;
  entry.fix = "rename the items of one of the plugins, or load only one of them";
  log.warn("[plugin " + entry.name + "] " + what + "; " + entry.fix);
}

void Registry::load_checked(LoadEntry& entry) {
  const std::string& path = entry.path;
  if (!is_absolute(path))
    throw PluginLoadError(path, "found a relative path, expected an absolute one",
                          "give the full path");
  const PluginFile file(path);
  const Inspection found = inspect(file.bytes(), path);
  const std::string& real = file.real_path();
  if (found.note) {
    entry.name = found.note->name;
    entry.version = found.note->version;
  }
  file.check_permissions();
  check_inspection(found);
  const auto& allow = settings_.allow;
  if (!allow.empty() && std::find(allow.begin(), allow.end(), entry.name) == allow.end()) {
    entry.outcome = Outcome::kForbidden;
    entry.reason =
        "plugin '" + entry.name + "' is not in the list of allowed plugins: " + join(allow);
    entry.fix = "add it to [plugins].allow";
    return;
  }
  if (const Plugin* first = plugin_named(entry.name)) {
    entry.outcome = Outcome::kShadowed;
    entry.reason = "a plugin named '" + entry.name + "' is already loaded from " + first->path;
    entry.fix =
        first->path == real ? "" : "remove one of the two files, or name the one you want first";
    return;
  }
  auto library = std::make_unique<Library>(real);
  if (!library->is_loaded_from(file.bytes()))
    throw PluginLoadError(path,
                          "the library in memory is another one: the file was replaced while it "
                          "was loaded, or since this process loaded it before",
                          "load it again; if that does not help, start the process anew");
  const plait_plugin* table = enter(*library, path);
  check_table(table, found);
  open(std::move(library), table, real);
  entry.outcome = Outcome::kLoaded;
  entry.items = items_.of(plugins_.back()->host);
  if (std::vector<std::string> surplus = surplus_exports(found); !surplus.empty()) {
    const size_t n = surplus.size();
    surplus.resize(std::min<size_t>(n, 5));
    entry.reason = "exports " + std::to_string(n) + " symbols besides " PLAIT_PLUGIN_ENTRY ": " +
                   join(surplus);
    entry.fix = "hide them with a version script; plait_add_plugin() does";
    log_.warn("[plugin] '" + path + "' " + entry.reason + "; " + entry.fix);
  }
  tell_left_out(plugins_.back()->host, entry, log_);
}

void Registry::load_file(const SearchPath& location, const std::string& path,
                         bool found_in_folder) {
  LoadEntry entry{path, location.source, Outcome::kRejected, "", "", "", "", {}};
  std::exception_ptr failure;
  try {
    // A plugin's folder may also contain libraries that it depends on.
    if (found_in_folder && is_no_plugin(path)) {
      entry.outcome = Outcome::kIgnored;
      entry.reason = "a library without a Plait note";
    } else {
      load_checked(entry);
    }
  } catch (const PluginFolderError& refusal) {
    failure = std::current_exception();
    entry.reason = refusal.reason();
    entry.fix = refusal.fix();
    entry.folder = {refusal.folder(), refusal.fault(), refusal.fix_of_all()};
  } catch (const PluginLoadError& refusal) {
    failure = std::current_exception();
    entry.outcome = refusal.code() == PLAIT_ERR_NOT_FOUND ? Outcome::kAbsent : Outcome::kRejected;
    entry.reason = refusal.reason();
    entry.fix = refusal.fix();
  } catch (const Error& error) {
    failure = std::current_exception();
    entry.reason = error.text();
  }
  const bool named = location.must && !found_in_folder;
  if (named) entry.folder.reset();  // it is thrown, of this file alone
  report_.entries.push_back(entry);

  if (entry.outcome == Outcome::kLoaded && !found_in_folder)
    log_.debug("[plugin] loaded " + entry.name + " " + entry.version + " from " + path);
  else if (failure && named)
    std::rethrow_exception(failure);
  else if (failure && !entry.folder)  // else load_all() tells it, once for all below it
    log_.warn("[plugin] '" + path + "': " + entry.reason + (entry.fix.empty() ? "" : "; ") +
              entry.fix);
  else if (named && !entry.fix.empty())  // without a fix it is the same file again
    throw PluginLoadError(path, entry.reason, entry.fix);
}

bool Registry::is_no_plugin(const std::string& path) const {
  const Inspection found = inspect_file(path);
  const bool entry = std::binary_search(found.exports.begin(), found.exports.end(),
                                        std::string(PLAIT_PLUGIN_ENTRY));
  return !found.note && !entry && !name_of(path).starts_with("plait-");
}

void Registry::load(const std::string& path) { load_file({path, "given", true}, path, false); }

bool Registry::is_closed(const SearchPath& location) {
  if (location.must) return false;
  try {
    if (files_.is_folder(location.path)) files_.list(location.path);
    return false;
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    report_.entries.push_back(
        {location.path, location.source, Outcome::kAbsent, "", "", e.text(), "", {}});
    if (location.source == "PLAIT_PLUGIN_PATH")
      log_.warn("[plugin] '" + location.path + "' of PLAIT_PLUGIN_PATH is left out: " + e.text());
    return true;
  }
}

void Registry::load_place(const SearchPath& location) {
  if (is_closed(location)) return;
  const bool folder = is_absolute(location.path) && files_.is_folder(location.path);
  if (!folder && !location.must && !files_.exists(location.path)) {
    report_.entries.push_back({location.path,
                               location.source,
                               Outcome::kAbsent,
                               "",
                               "",
                               "there is no such file or folder",
                               "",
                               {}});
    if (location.source == "PLAIT_PLUGIN_PATH")
      log_.warn("[plugin] '" + location.path +
                "' of PLAIT_PLUGIN_PATH: there is no such file or folder");
    return;
  }
  const std::vector<std::string> found =
      folder ? plugin_files(files_, location) : std::vector{location.path};
  const size_t before = plugins_.size();
  for (const std::string& path : found) load_file(location, path, folder);
  if (folder && plugins_.size() > before)
    log_.debug("[plugin] " + std::to_string(plugins_.size() - before) + " plugins loaded from " +
               location.path);
}

void Registry::load_all(const std::vector<SearchPath>& locations) {
  const size_t first = report_.entries.size();
  const auto tell_folders = [&] {
    for (const std::string& line : report_.folder_lines(first)) log_.warn("[plugin] " + line);
  };
  try {
    for (const SearchPath& location : locations) load_place(location);
  } catch (...) {
    tell_folders();
    throw;
  }
  tell_folders();
}

void Registry::load_static(const plait_plugin& plugin) {
  const std::string path = std::string("static:") + (plugin.name ? plugin.name : "");
  Inspection found;
  found.path = path;
  found.note = Note{PLAIT_ABI_VERSION, plugin.name ? plugin.name : "",
                    plugin.version ? plugin.version : "", "none"};
  check_table(&plugin, found);
  if (plugin_named(found.note->name))
    throw PluginLoadError(path, "a plugin of that name is already loaded",
                          "give each a different name");
  open(nullptr, &plugin, path);
  report_.entries.push_back({path, "program", Outcome::kLoaded, found.note->name,
                             found.note->version, "", "", items_.of(plugins_.back()->host), false});
  tell_left_out(plugins_.back()->host, report_.entries.back(), log_);
}

void Registry::close() noexcept {
  while (!plugins_.empty()) {
    Plugin& last = *plugins_.back();
    try {
      last.table->close(last.state);
    } catch (...) {
      log_.error("[plugin " + last.host.plugin() +
                 "] close() threw an exception; report it to the plugin's author");
    }
    items_.remove(last.host);
    plugins_.pop_back();
  }
}

}  // namespace plait::plugin
