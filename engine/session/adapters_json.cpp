#include "engine/session/adapters_json.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/json.hpp"
#include "engine/config/bind.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/adapter_record.hpp"

namespace plait::session {
namespace {

class Writer {
 public:
  explicit Writer(const plan::Plan& plan) : plan_(plan) {}

  std::string write() {
    w_.object().field("schema", 1).key("adapters").array();
    for (const config::ModelConfig& model : plan_.experiment.models) {
      int64_t number = 0;
      for (const std::string& name : config::adapter_names(model)) one(model, name, number++);
    }
    return w_.end_array().end_object().text();
  }

 private:
  void one(const config::ModelConfig& model, const std::string& name, int64_t number) {
    int64_t elements = 0, trained = 0;
    uint64_t bytes = 0;
    for (const plan::Parameter& p : plan_.parameters) {
      if (p.model != model.name || p.adapter != name) continue;
      const int64_t n = topology::elements(program::dims_of(p.shape));
      elements += n;
      if (!p.frozen) trained += n;
      for (const plan::LocalBlock& held : plan::stored_blocks(plan_, p))
        bytes += program::bytes_of(topology::elements(held.box), held.dtype);
    }
    w_.object().field("model", model.name).field("name", name).field("number", number);
    w_.field("parameters", elements).field("trained", trained).field("bytes", bytes);
    w_.key("entries").array();
    for (size_t i = 0; i < model.adapters.size(); ++i)
      if (model.adapters[i].name == name) entry(model, i);
    w_.end_array().end_object();
  }

  void entry(const config::ModelConfig& model, size_t i) {
    const config::AdapterConfig& adapter = model.adapters[i];
    w_.object().field("key", model.path + ".adapters[" + std::to_string(i) + "]");
    w_.field("type", adapter.type).key("options").object();
    for (const config::OptionValue& value : adapter.options.values()) {
      w_.key(value.declared->name);
      config::write_value(w_, value);
    }
    std::vector<std::string> targets;
    for (const plan::Parameter& p : plan_.parameters) {
      if (p.model != model.name || p.adapter != adapter.name) continue;
      const std::string target = target_of(p.name, adapter.name);
      if (adapter.holds(target) &&
          std::find(targets.begin(), targets.end(), target) == targets.end())
        targets.push_back(target);
    }
    w_.end_object().texts("targets", targets).end_object();
  }

  const plan::Plan& plan_;
  JsonWriter w_;
};

}  // namespace

std::string adapters_json(const plan::Plan& plan) { return Writer(plan).write(); }

}  // namespace plait::session
