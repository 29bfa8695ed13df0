#include "engine/config/declarations.hpp"

#include <plait/comm.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/optimizer.h>
#include <plait/peft.h>
#include <plait/tokenizer.h>

#include <string>
#include <vector>

#include "engine/base/text.hpp"
#include "engine/config/option_set.hpp"
#include "engine/config/schema.hpp"

namespace plait::config {

void write_option(JsonWriter& json, const plait_option& option) {
  json.object()
      .field("name", option.name)
      .field("type", type_name(option.type))
      .field("help", option.help);
  json.key("default");
  option.default_value ? json.value(option.default_value) : json.null();
  if (option.flags & PLAIT_OPT_HAS_MIN)
    json.field(option.flags & PLAIT_OPT_MIN_EXCLUSIVE ? "above" : "min", option.min);
  if (option.flags & PLAIT_OPT_HAS_MAX)
    json.field(option.flags & PLAIT_OPT_MAX_EXCLUSIVE ? "below" : "max", option.max);
  if (is_item_type(option.type))
    json.field("kind", option.choices);
  else if (option.choices)
    json.texts("choices", split(option.choices, '|'));
  if (option.unit) json.field("unit", option.unit);
  const std::string expected = describe_option(option);
  json.field("expected", expected);
  const std::string default_value =
      option.default_value ? std::string("default ") + option.default_value : "required";
  json.field("text", std::string(option.name) + ": " + expected + "; " + default_value + "; " +
                         option.help);
  json.end_object();
}

namespace {

struct Table {
  const char* path;
  std::vector<const char*> also;
  const char* help;
  const char* kind;      // "": none
  const char* named_by;  // "": the key "type"
  const char* type;      // "": any
  OptionView keys;
};

void write_table(JsonWriter& json, const Table& table) {
  json.object().field("path", table.path).texts("also", table.also).field("help", table.help);
  if (*table.kind) json.field("kind", table.kind);
  if (*table.named_by) json.field("named_by", table.named_by);
  if (*table.type) json.field("type", table.type);
  json.key("keys").array();
  for (uint32_t i = 0; i < table.keys.size(); ++i) write_option(json, table.keys[i]);
  json.end_array().end_object();
}

std::vector<Table> tables() {
  return {
      {"model",
       {"models.NAME"},
       "a model; [models.NAME] where there are several",
       "",
       "",
       "",
       model_keys()},
      {"model.layers[]",
       {"models.NAME.layers[]"},
       "the layers, in order",
       PLAIT_KIND_LAYER,
       "",
       "",
       layer_keys()},
      {"model.layers[]",
       {"models.NAME.layers[]"},
       "layers that are written once, in a list `layers` of their own",
       "",
       "",
       "block",
       block_keys()},
      {"model.layers[].tie",
       {"models.NAME.layers[].tie"},
       "parameters that another layer has, too: its own name = full name of the other",
       "",
       "",
       "",
       OptionView()},
      {"model.adapters[]",
       {"models.NAME.adapters[]"},
       "few parameters that are trained beside the model's own, which are frozen then",
       PLAIT_KIND_PEFT,
       "",
       "",
       adapter_keys()},
      {"loss",
       {"losses[]", "model.loss", "model.losses[]", "models.NAME.loss", "models.NAME.losses[]"},
       "what training minimises; [[losses]] where there are several",
       PLAIT_KIND_LOSS,
       "",
       "",
       loss_keys()},
      {"metrics[]",
       {"model.metrics[]", "models.NAME.metrics[]"},
       "what evaluations measure",
       PLAIT_KIND_METRIC,
       "",
       "",
       metric_keys()},
      {"optimizer",
       {"model.optimizer", "models.NAME.optimizer"},
       "how parameters are updated",
       PLAIT_KIND_OPTIMIZER,
       "",
       "",
       optimizer_keys()},
      {"optimizer.schedule",
       {"model.optimizer.schedule", "models.NAME.optimizer.schedule", "optimizer.groups[].schedule",
        "model.optimizer.groups[].schedule", "models.NAME.optimizer.groups[].schedule"},
       "the learning rate over the run",
       PLAIT_KIND_SCHEDULE,
       "",
       "",
       schedule_keys()},
      {"optimizer.groups[]",
       {"model.optimizer.groups[]", "models.NAME.optimizer.groups[]"},
       "settings of some of the parameters",
       PLAIT_KIND_OPTIMIZER,
       "",
       "",
       group_keys()},
      {"data.NAME",
       {},
       "a dataset; `train` is trained on, `eval` evaluated",
       PLAIT_KIND_DATASET,
       "",
       "",
       dataset_keys()},
      {"data.NAME.normalize.FIELD",
       {},
       "numbers of a field become (x / divide - mean) / std",
       "",
       "",
       "",
       normalize_keys()},
      {"tokenizer",
       {},
       "the tokenizer of the model's token ids",
       PLAIT_KIND_TOKENIZER,
       "",
       "",
       tokenizer_keys()},
      {"device",
       {},
       "options of the device that run.device names",
       PLAIT_KIND_DEVICE,
       "run.device",
       "",
       OptionView()},
      {"comm",
       {},
       "options of the backend that topology.backend names",
       PLAIT_KIND_COMM,
       "topology.backend",
       "",
       OptionView()},
  };
}

}  // namespace

void write_tables(JsonWriter& json) {
  json.array();
  for (const Section& s : sections())
    write_table(json, {s.path, {}, s.help, "", "", "", s.options});
  for (const Table& table : tables()) write_table(json, table);
  json.end_array();
}

}  // namespace plait::config
