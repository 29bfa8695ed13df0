// Runs a graph that a test wrote, on a device plugin of the build tree.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plugin/registry.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::test {

// Log and registry in one, so that whoever holds the registry holds the log.
struct Plugins {
  explicit Plugins(plugin::RegistrySettings settings)
      : registry(log, FileSystem::posix(), {}, std::move(settings)) {}
  Log log;
  plugin::Registry registry;
};

inline std::shared_ptr<plugin::Registry> load_plugins(const std::vector<std::string>& names,
                                                      plugin::RegistrySettings settings = {}) {
  auto plugins = std::make_shared<Plugins>(std::move(settings));
  const char* given = std::getenv("PLAIT_TEST_PLUGINS");
  const std::filesystem::path folder =
      given ? std::filesystem::path(given)
            : std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                  "../../lib/plait/plugins-1";
  for (const auto& name : names)
    plugins->registry.load(std::filesystem::canonical(folder / ("plait-" + name + ".so")).string());
  return {plugins, &plugins->registry};
}

// inputs: values by name, f64; build writes the graph and returns its outputs.
class Runner {
 public:
  explicit Runner(std::string device)
      : registry_(load_plugins({"device-" + device})), device_(std::move(device)) {}

  using Values = std::vector<std::vector<double>>;
  template <class Build>
  Values run(const std::vector<plait_shape>& shapes, const Values& inputs, Build&& build) {
    auto p = std::make_shared<plan::Plan>();
    p->registry = registry_;
    p->rules = std::make_unique<program::RuleBook>(*registry_);
    p->device = device_;
    const plait_device_item& item = registry_->device(device_);
    config::Problems problems;
    p->device_options =
        config::OptionSet::check(config::Node::table(config::Origin::none()),
                                 {item.options, item.n_options}, {}, "device", {}, problems);
    auto graph = std::make_unique<program::Graph>(p->rules.get());
    graph->scope = "test";
    const int32_t segment = p->storage.add("values", plan::Category::kInputs);
    std::vector<program::ValueId> ids;
    std::vector<plan::BufferRef> places;
    for (size_t i = 0; i < shapes.size(); ++i) {
      places.push_back(p->storage.allocate(segment, program::bytes(shapes[i])));
      ids.push_back(graph->persistent("in" + std::to_string(i), shapes[i], places.back()));
      graph->value(ids.back()).requires_grad = program::is_float(shapes[i].dtype);
    }
    std::vector<plan::BufferRef> out_places;
    std::vector<plait_shape> out_shapes;
    for (program::ValueId v : build(*graph, ids)) {
      out_shapes.push_back(graph->shape(v));
      out_places.push_back(p->storage.allocate(segment, program::bytes(out_shapes.back())));
      graph->bind(v, out_places.back());
    }
    const int32_t program = p->add(plan::compile("test", std::move(graph), *p));
    p->storage.lay_out();
    p->transient_bytes = p->programs[0].transient_bytes;
    runtime::Executor executor(p);
    for (size_t i = 0; i < shapes.size(); ++i) write(executor, places[i], shapes[i], inputs[i]);
    executor.launch(program);
    executor.sync();
    Values out;
    for (size_t i = 0; i < out_places.size(); ++i)
      out.push_back(read(executor, out_places[i], out_shapes[i]));
    last_ = p;
    return out;
  }
  const plan::Program& last_program() const { return last_->programs[0]; }

 private:
  template <class T>
  static void put(runtime::Executor& e, plan::BufferRef at, const std::vector<double>& values) {
    const std::vector<T> typed(values.begin(), values.end());
    e.write(at, typed.data(), typed.size() * sizeof(T));
    e.sync();
  }
  static void write(runtime::Executor& e, plan::BufferRef at, const plait_shape& s,
                    const std::vector<double>& v) {
    if (s.dtype == PLAIT_F64) put<double>(e, at, v);
    if (s.dtype == PLAIT_F32) put<float>(e, at, v);
    if (s.dtype == PLAIT_I32) put<int32_t>(e, at, v);
    if (s.dtype == PLAIT_I64) put<int64_t>(e, at, v);
  }
  static std::vector<double> read(runtime::Executor& e, plan::BufferRef at, const plait_shape& s) {
    const auto n = static_cast<size_t>(program::elements(s));
    std::vector<double> out(n);
    if (s.dtype == PLAIT_F64) {
      e.read(at, out.data(), n * sizeof(double));
    } else {
      std::vector<float> typed(n);
      e.read(at, typed.data(), n * sizeof(float));
      out.assign(typed.begin(), typed.end());
    }
    return out;
  }

  std::shared_ptr<plugin::Registry> registry_;
  std::string device_;
  std::shared_ptr<plan::Plan> last_;
};

}  // namespace plait::test
