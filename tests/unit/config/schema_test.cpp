// The declarations of keys, and the templates that are made of them.
#include "kit/option_decl.hpp"
#include "tests/unit/config/loaded.hpp"

using namespace plait;
using namespace plait::config;

namespace {

struct Fields {
  int64_t own = 0, agreed = 0;
};

}  // namespace

TEST_CASE("the engine's own tables are well-formed") {
  for (const Section& s : sections()) CHECK(defect_of(s.options) == "");
  const OptionView items[] = {layer_keys(),    loss_keys(),   metric_keys(),  optimizer_keys(),
                              schedule_keys(), group_keys(),  dataset_keys(), normalize_keys(),
                              model_keys(),    adapter_keys()};
  for (const OptionView& keys : items) CHECK(defect_of(keys) == "");
}

// What a resumed run compares, and what ranks need not agree on: a change here is on purpose.
TEST_CASE("the role of each key of a section") {
  std::vector<std::string> result, per_rank;
  for (const Section& s : sections())
    for (uint32_t i = 0; i < s.options.size(); ++i) {
      const std::string key = std::string(s.path) + "." + s.options[i].name;
      if (role_of(s.options[i]) == KeyRole::kResult) result.push_back(key);
      if (role_of(s.options[i]) == KeyRole::kPerRank) per_rank.push_back(key);
    }
  CHECK(result == std::vector<std::string>{"run.seed",
                                           "batch.global",
                                           "precision.compute",
                                           "precision.master",
                                           "precision.split_master",
                                           "precision.states",
                                           "precision.frozen",
                                           "precision.residual",
                                           "precision.tf32",
                                           "precision.tune",
                                           "precision.library_attention",
                                           "precision.products",
                                           "precision.scale.initial",
                                           "precision.scale.window",
                                           "precision.scale.hysteresis",
                                           "precision.scale.consecutive",
                                           "precision.scale.min",
                                           "precision.scale.factor",
                                           "precision.fp8.scaling",
                                           "precision.fp8.forward",
                                           "precision.fp8.grad_input",
                                           "precision.fp8.grad_weight",
                                           "precision.fp8.except"});
  CHECK(per_rank == std::vector<std::string>{
                        "run.out", "run.threads", "run.device_timeout", "run.plugin_timeout",
                        "run.log_every", "run.log_level", "run.rank_metrics", "run.metrics_ranks",
                        "run.peak_tflops", "run.progress", "wandb.write", "wandb.project",
                        "wandb.entity", "wandb.group", "plugins.paths", "plugins.allow"});
  const auto of = [](const OptionView& keys, const char* name) {
    return role_of(*keys.find(name));
  };
  CHECK(of(layer_keys(), "parallel") == KeyRole::kAgreed);
  CHECK(of(layer_keys(), "from") == KeyRole::kResult);
  CHECK(of(dataset_keys(), "prefetch") == KeyRole::kAgreed);
  CHECK(of(dataset_keys(), "limit") == KeyRole::kResult);
  CHECK(of(model_keys(), "load") == KeyRole::kAgreed);
  CHECK(of(optimizer_keys(), "weight_decay") == KeyRole::kResult);
}

TEST_CASE("the role of a key is read off its own line, in any table") {
  static constexpr Key<Fields> kTable[] = {
      key<&Fields::own>(kit::int_option("own", "0", "of this rank"), KeyRole::kPerRank),
      key<&Fields::agreed>(kit::int_option("agreed", "0", "of all ranks"))};
  const OptionView view = table_of(kTable);
  CHECK(role_of(view[0]) == KeyRole::kPerRank);
  CHECK(role_of(view[1]) == KeyRole::kAgreed);
  // An option of an item, also of one whose declarations are as large as a key.
  struct Larger {
    plait_option option;
    uint64_t more[4];
  };
  Larger later{kit::int_option("later", "0", "of a newer plugin"), {2, 2, 2, 2}};
  later.option.struct_size = sizeof later;
  CHECK(role_of(later.option) == KeyRole::kResult);
  CHECK(role_of(kit::int_option("short", "0", "of this ABI")) == KeyRole::kResult);
}
