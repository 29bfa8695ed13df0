// A host in place of the engine, for tests of plugins: loads a built plugin and keeps the items it
// adds; options come from TOML texts.
#pragma once

#include <plait/dataset.h>
#include <plait/layer.h>
#include <plait/optimizer.h>
#include <plait/plugin.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// In the engine this is opaque and has more members.
struct plait_error {
  uint32_t code;
  std::string text;
};

namespace plait::fake {

// A plait_error returned to the test, as an exception; the error is freed.
class Failure : public std::runtime_error {
 public:
  explicit Failure(plait_error* e) : std::runtime_error(e->text), code(e->code) { delete e; }
  uint32_t code;
};
inline void check(plait_error* e) {
  if (e) throw Failure(e);
}

class Host {
 public:
  Host();
  Host(const Host&) = delete;
  const plait_host* raw() const { return &host_; }
  // Loads plait-<name>.so from the build tree, or from the folder in PLAIT_TEST_PLUGINS, and adds
  // its items.
  void load(const std::string& name);
  // The item of that kind and name; throws if there is none.
  template <class Item>
  const Item& item(const std::string& kind, const std::string& name) const {
    return *static_cast<const Item*>(find(kind, name));
  }
  std::vector<std::string> names(const std::string& kind) const;

 private:
  const void* find(const std::string& kind, const std::string& name) const;
  static plait_error* add(const plait_host* host, const char* kind, const void* item);

  plait_host host_{};
  std::map<std::pair<std::string, std::string>, const void*> items_;
};

// The options of an item: defaults, then the given ones, all as TOML texts. Unknown names, missing
// required options, values out of range and unknown choices throw std::invalid_argument.
class Options {
 public:
  using Given = std::map<std::string, std::string>;
  Options(const plait_option* declared, uint32_t n, const Given& given);
  Options(const Options&) = delete;
  const plait_options* raw() const { return &base_; }

 private:
  struct Value {
    uint32_t type = 0;
    int64_t i = 0;
    double f = 0;
    std::string text;
    std::vector<int64_t> ints;
    std::vector<double> reals;
    std::vector<std::string> texts;
  };
  static Value parse(const plait_option& o, const std::string& toml);
  static void check_range(const plait_option& o, double v);
  static const Value& get(const plait_options* o, const char* name, uint32_t type);
  static const plait_options_table* table();

  plait_options base_{};
  std::map<std::string, Value> values_;
};

// The options of any item struct.
template <class Item>
std::unique_ptr<Options> options_of(const Item& item, const Options::Given& given = {}) {
  return std::make_unique<Options>(item.options, item.n_options, given);
}

}  // namespace plait::fake
