// Runs a graph that a test wrote, on a device plugin of the build tree.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/plugin/registry.hpp"
#include "engine/runtime/executor.hpp"
#include "tests/support/plugin_folder.hpp"

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
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path(),
                              folder = test::plugin_folder();
  for (const auto& name : names) {
    std::filesystem::path file = folder / ("plait-" + name + ".so");
    if (!std::filesystem::exists(file)) file = own / "../../plugins-aside" / file.filename();
    plugins->registry.load(std::filesystem::canonical(file).string());
  }
  return {plugins, &plugins->registry};
}

// A graph that a test wrote, compiled, with its memory: run as often as wanted.
class Runnable {
 public:
  using Values = std::vector<std::vector<double>>;

  // build(graph, inputs) writes the graph and returns its outputs.
  template <class Build>
  Runnable(std::shared_ptr<plugin::Registry> registry, const std::string& device,
           const std::vector<plait_shape>& shapes, Build&& build)
      : plan_(std::make_shared<plan::PlanDraft>()), shapes_(shapes) {
    plan_->registry = std::move(registry);
    plan_->ops = std::make_shared<const program::OpRegistry>(*plan_->registry);
    plan_->device = device;
    const plait_device_item& item = plan_->registry->device(device);
    config::Problems problems;
    plan_->device_options =
        config::OptionSet::check(config::Node::table(config::Origin::none()),
                                 {item.options, item.n_options}, {}, "device", {}, problems);
    auto graph = std::make_unique<program::Graph>(plan_->ops.get());
    graph->scope = "test";
    const int32_t segment = plan_->storage.add("values", plan::Category::kInputs);
    std::vector<program::ValueId> ids;
    for (size_t i = 0; i < shapes.size(); ++i) {
      places_.push_back(plan_->storage.allocate(segment, program::bytes(shapes[i])));
      ids.push_back(graph->persistent("in" + std::to_string(i), shapes[i], places_.back()));
      graph->value(ids.back()).requires_grad = program::is_float(shapes[i].dtype);
    }
    for (program::ValueId v : build(*graph, ids)) {
      out_shapes_.push_back(graph->shape(v));
      out_places_.push_back(plan_->storage.allocate(segment, program::bytes(out_shapes_.back())));
      graph->bind(v, out_places_.back());
    }
    program_ = plan_->add(plan::compile("test", std::move(graph), *plan_));
    plan_->storage.lay_out();
    plan_->transient_bytes = plan_->programs[0].transient_bytes;
    executor_ = std::make_unique<runtime::Executor>(plan_);
  }

  void set(size_t input, const std::vector<double>& values) {
    write(*executor_, places_[input], shapes_[input], values);
  }
  Values run() {
    executor_->launch(program_);
    executor_->sync();
    Values out;
    for (size_t i = 0; i < out_places_.size(); ++i)
      out.push_back(read(*executor_, out_places_[i], out_shapes_[i]));
    return out;
  }
  const plan::Program& program() const { return plan_->programs[0]; }

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

  std::shared_ptr<plan::PlanDraft> plan_;
  std::vector<plait_shape> shapes_, out_shapes_;
  std::vector<plan::BufferRef> places_, out_places_;
  int32_t program_ = 0;
  std::unique_ptr<runtime::Executor> executor_;
};

class Runner {
 public:
  explicit Runner(std::string device)
      : registry_(load_plugins({"device-" + device})), device_(std::move(device)) {}

  using Values = Runnable::Values;
  template <class Build>
  Runnable prepare(const std::vector<plait_shape>& shapes, Build&& build) {
    return Runnable(registry_, device_, shapes, std::forward<Build>(build));
  }
  // Once, with these inputs.
  template <class Build>
  Values run(const std::vector<plait_shape>& shapes, const Values& inputs, Build&& build) {
    last_ = std::make_unique<Runnable>(registry_, device_, shapes, std::forward<Build>(build));
    for (size_t i = 0; i < shapes.size(); ++i) last_->set(i, inputs[i]);
    return last_->run();
  }
  const plan::Program& last_program() const { return last_->program(); }

 private:
  std::shared_ptr<plugin::Registry> registry_;
  std::string device_;
  std::unique_ptr<Runnable> last_;
};

}  // namespace plait::test
