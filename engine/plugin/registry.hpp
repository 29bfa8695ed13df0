// The plugins of one engine: loading, refusing, finding items, closing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/config/catalog.hpp"
#include "engine/plugin/host.hpp"
#include "engine/plugin/items.hpp"
#include "engine/plugin/job_place.hpp"
#include "engine/plugin/report.hpp"
#include "engine/plugin/search.hpp"

namespace plait {
class FileSystem;
}

namespace plait::plugin {

class Library;

struct RegistrySettings {
  std::vector<std::string> allow;  // names of plugins that may be loaded; empty: all
  bool unload = true;  // dlclose() when closing; off for leak checkers and for plugins that cannot
                       // be unloaded
};

// Owner thread only, except where noted. Two registries of one process share nothing.
class Registry : public config::Catalog {
 public:
  Registry(Log& log, FileSystem& files, Extensions extensions, RegistrySettings settings = {});
  ~Registry() override;  // close()
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Loads one plugin, by absolute path. Errors: PLAIT_ERR_PLUGIN or PLAIT_ERR_NOT_FOUND with file,
  // found, supported and fix; the registry is as before then. One of a name already loaded is
  // refused.
  void load(const std::string& path);
  // Loads every plugin of these places. A failure goes into the report and the log (WARN; one line
  // where a folder is the reason for several); in a place that `must` be, it is thrown.
  void load_all(const std::vector<SearchPath>& places);
  // Adds items that are part of the program itself, as if a plugin called `name` had been loaded:
  // tests, and hosts that link their plugins statically.
  void load_static(const plait_plugin& plugin);

  // Last loaded first: close(), then dlclose(). Nothing of a plugin may be in use.
  void close() noexcept;

  // What plugins learn of the job outside of a JobScope. Before anything is loaded.
  void set_job(const JobPlace& job) { job_ = job; }

  const LoadReport& report() const { return report_; }
  std::vector<std::string> plugin_names() const;

  // Items by name. Throw PLAIT_ERR_NOT_FOUND with the nearest name and the load summary. [any
  // thread after loading]
  const plait_layer_item& layer(std::string_view name) const;
  const plait_loss_item& loss(std::string_view name) const;
  const plait_metric_item& metric(std::string_view name) const;
  const plait_optimizer_item& optimizer(std::string_view name) const;
  const plait_schedule_item& schedule(std::string_view name) const;
  const plait_peft_item& peft(std::string_view name) const;
  const plait_dataset_item& dataset(std::string_view name) const;
  const plait_tokenizer_item& tokenizer(std::string_view name) const;
  const plait_format_item& format(std::string_view name) const;
  const plait_device_item& device(std::string_view name) const;
  const plait_comm_item& comm(std::string_view name) const;
  const plait_op_item* find_op(std::string_view name) const;  // NULL when there is none
  // Best first; empty when there is none.
  const std::vector<const plait_kernel_item*>& kernels(std::string_view op,
                                                       std::string_view device) const {
    return items_.kernels(op, device);
  }
  std::vector<std::string> devices() const { return items_.names(PLAIT_KIND_DEVICE); }
  std::vector<std::string> comms() const { return items_.names(PLAIT_KIND_COMM); }

  // Of an item's table: the host to hand to its functions, and the plugin's name for messages.
  const plait_host* host_of(const void* item) const;
  const std::string& plugin_of(const void* item) const;

  // Catalog.
  bool find_item(std::string_view kind, std::string_view name,
                 config::CatalogItem& out) const override;
  std::vector<std::string> item_names(std::string_view kind) const override;
  std::string load_summary() const override { return report_.summary(); }

  // {"plugins": [{name, version, license, summary, path, items: [{kind, name, help, options:
  // [...]}]}], "report": [...]}
  std::string describe_json() const;

 private:
  struct Plugin;
  friend struct HostCalls;

  // found_in_folder: nobody named this very file.
  void load_file(const SearchPath& place, const std::string& path, bool found_in_folder);
  void load_checked(LoadEntry& entry);
  void load_place(const SearchPath& place);
  void open(std::unique_ptr<Library> library, const plait_plugin* table, const std::string& path);
  bool is_no_plugin(const std::string& path) const;
  // A place that nobody named and that this process may not look into; it is reported.
  bool is_closed(const SearchPath& location);
  const ItemHead& find(std::string_view kind, std::string_view name) const;
  const Plugin* plugin_named(std::string_view name) const;

  Log& log_;
  FileSystem& files_;
  Extensions extensions_;
  RegistrySettings settings_;
  JobPlace job_;
  Items items_;
  std::vector<std::unique_ptr<Plugin>> plugins_;
  LoadReport report_;
};

}  // namespace plait::plugin
