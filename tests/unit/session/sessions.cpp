#include "tests/unit/session/sessions.hpp"

#include <algorithm>
#include <filesystem>

#include "engine/checkpoint/store.hpp"
#include "engine/config/bind.hpp"
#include "engine/program/op_def.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace plait::test {
namespace {

// Two stages' worth of layers, an optimizer with two states, dropout, clipping.
const char* const kExperiment = R"([run]
steps = 12
seed = 5
threads = 1
progress = false
[topology]
timeout = 60.0
[batch]
global = 8
[checkpoint]
keep = 100
[data.train]
type = "synthetic"
samples = 60
shape = [6]
classes = 4
[model]
layers = [{type = "linear", out = 16, parallel = "column"}, {type = "relu"},
          {type = "dropout", p = 0.1}, {type = "linear", out = 4, parallel = "row"}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
clip_grad_norm = 1.0
)";

class HookedOutput : public OutputFile {
 public:
  HookedOutput(const HookedFiles& files, std::string path, std::unique_ptr<OutputFile> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}
  void write(const void* data, size_t size) override {
    files_.before("write", path_);
    file_->write(data, size);
  }
  uint64_t written() const override { return file_->written(); }
  void write_at(uint64_t offset, const void* data, size_t size) override {
    files_.before("write", path_);
    file_->write_at(offset, data, size);
  }
  void sync() override {
    files_.before("sync", path_);
    file_->sync();
  }
  void close() override { file_->close(); }

 private:
  const HookedFiles& files_;
  const std::string path_;
  const std::unique_ptr<OutputFile> file_;
};

std::shared_ptr<plugin::Registry> plugins() {
  // A sanitizer must still know their frames at exit, and cannot see that two threads unload one
  // file in turn.
  plugin::RegistrySettings settings;
  settings.unload = false;
  auto registry = load_plugins(
      {"device-reference", "device-async", "layer-dense", "layer-activation", "layer-dropout",
       "layer-embedding", "layer-transformer", "layer-loss", "layer-metric", "peft-adalora",
       "data-csv", "data-synthetic", "optimizer-adamw", "optimizer-sgd", "comm-threads"},
      settings);
  if (extra_plugin) registry->load_static(*extra_plugin);
  return registry;
}

}  // namespace

std::unique_ptr<OutputFile> HookedFiles::open(const std::string& path, OpenMode mode) {
  before("open", path);
  return std::make_unique<HookedOutput>(*this, path, real_.open(path, mode));
}

std::unique_ptr<const plan::Plan> make_plan(const std::vector<std::string>& keys, FileSystem& files,
                                            int rank, int ranks, Log& log) {
  plan::PlanContext context = context_of(plugins(), rank, &log);
  context.resolver.files = &files;
  context.world = ranks;
  return plan_of(kExperiment, keys, context);
}

Rank::Rank(const std::vector<std::string>& keys, FileSystem& files, session::Settings settings) {
  plan = make_plan(keys, files, settings.job.rank, settings.job.size, log);
  settings.resolved_toml = config::bind(plan->experiment, *plan->registry);
  session = std::make_unique<session::Session>(plan, std::move(settings), log, files);
}

std::vector<Outcome> run_all(const std::vector<std::string>& keys, int ranks,
                             const std::string& folder,
                             const std::function<FileSystem&(int rank)>& files,
                             const SettingsOf& settings) {
  const Folder rendezvous;
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  on_threads(ranks, [&](int rank) {
    Outcome& o = outcomes[static_cast<size_t>(rank)];
    session::Settings s;
    s.run_dir = folder;
    s.job.rank = s.job.local_rank = rank;
    s.job.size = s.job.local_size = ranks;
    if (ranks > 1) s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    if (settings) settings(rank, s);
    try {
      const Rank one(keys, files(rank), std::move(s));
      o.last = one.session->run();
      for (const plan::Parameter& p : one.plan->parameters) {
        std::vector<float>& values = o.weights[p.name];
        values.resize(static_cast<size_t>(program::elements(p.shape)));
        one.session->read(p.name, values.data(), values.size() * sizeof(float));
      }
    } catch (const Error& e) {
      o.code = e.code();
      o.error = e.full_text();
    }
  });
  return outcomes;
}

std::map<std::string, std::string> tensors_of(const std::string& run_dir) {
  std::map<std::string, std::string> all;
  const std::filesystem::path folder = run_dir + "/ckpt";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".safetensors")
      all[entry.path().lexically_relative(folder)] =
          FileSystem::posix().read_all(entry.path(), 1 << 24);
  return all;
}

std::vector<int64_t> steps_of(const std::string& run_dir) {
  std::vector<int64_t> steps;
  FileSystem& files = FileSystem::posix();
  for (const auto& c : checkpoint::list_checkpoints(files, run_dir + "/ckpt")) {
    const checkpoint::Checkpoint opened(files, run_dir + "/ckpt/" + c.name);
    CHECK(opened.state().step == c.step);
    steps.push_back(c.step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace plait::test
