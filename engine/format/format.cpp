#include "engine/format/format.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/bind.hpp"
#include "engine/topology/box.hpp"
#include "kit/dtype.hpp"

namespace plait::format {
namespace {

// Collects what a plugin writes. No exception may pass through the plugin: the first one waits
// until it has returned.
class Collector {
 public:
  explicit Collector(std::string who) : who_(std::move(who)) {}

  plait_format_output output() {
    plait_format_output out{};
    out.struct_size = sizeof out;
    out.user = this;
    out.file = [](void* user, const char* name, const char* content, uint64_t size) {
      return self(user).keep([&](Collector& c) {
        if (size > 0 && !content) c.bad("gives a file without its content");
        c.add_file({c.text(name, "a file"), std::string(content ? content : "", size), ""});
      });
    };
    out.copy = [](void* user, const char* name, const char* path) {
      return self(user).keep([&](Collector& c) {
        c.add_file({c.text(name, "a file"), "", c.text(path, "a file to copy")});
      });
    };
    out.place = [](void* user, const plait_tensor_place* place) {
      return self(user).keep([&](Collector& c) { c.add_place(place); });
    };
    out.slices = [](void* user, const plait_tensor_slices* slices) {
      return self(user).keep([&](Collector& c) { c.add_slices(slices); });
    };
    out.ignore = [](void* user, const char* pattern) {
      return self(user).keep([&](Collector& c) {
        c.made_.map.ignored.push_back(c.text(pattern, "a pattern of tensors"));
      });
    };
    out.weights = [](void* user, const char* name) {
      return self(user).keep([&](Collector& c) { c.set_weights(c.text(name, "the weights")); });
    };
    out.block = [](void* user, const plait_tensor_block* block) {
      return self(user).keep([&](Collector& c) { c.add_block(block); });
    };
    return out;
  }

  Description take() {
    if (error_) std::rethrow_exception(error_);
    return std::move(made_);
  }

 private:
  static Collector& self(void* user) { return *static_cast<Collector*>(user); }

  uint32_t keep(const std::function<void(Collector&)>& add) noexcept {
    if (error_) return 1;
    try {
      add(*this);
    } catch (...) {
      error_ = std::current_exception();
    }
    return error_ ? 1 : 0;
  }

  [[noreturn]] void bad(const std::string& what) const {
    fail(PLAIT_ERR_PLUGIN, who_ + " " + what + "; tell its author");
  }
  std::string text(const char* given, const char* what) const {
    if (!given || !*given) bad(std::string("gives ") + what + " without a name");
    return given;
  }

  void check_file_name(const std::string& name) const {
    if (name == "." || name == ".." || name.find('/') != std::string::npos ||
        printable(name) != name)
      bad("gives the file name '" + printable(name) + "', expected a name without a folder");
  }

  void set_weights(const std::string& name) {
    check_file_name(name);
    if (!ends_with(name, ".safetensors") || !made_.map.weights.empty())
      bad("gives the weights the name '" + name + "', expected one NAME.safetensors");
    made_.map.weights = name;
  }

  void add_file(checkpoint::ExportFile file) {
    const std::string& name = file.name;
    check_file_name(name);
    if (name == kMapName || ends_with(name, ".safetensors") ||
        name == checkpoint::kWeightsIndexName)
      bad("gives the file '" + name + "', which the engine writes");
    if (std::any_of(made_.files.begin(), made_.files.end(),
                    [&](const checkpoint::ExportFile& other) { return other.name == name; }))
      bad("gives the file '" + name + "' twice");
    made_.files.push_back(std::move(file));
  }

  void add_place(const plait_tensor_place* place) {
    if (!place) bad("gives a place that is NULL");
    const std::string parameter = text(place->parameter, "a place of a parameter");
    add(parameter, {text(place->tensor, "a place in a tensor")}, *place);
  }

  void add_slices(const plait_tensor_slices* slices) {
    if (!slices) bad("gives slices that are NULL");
    const std::string parameter = text(slices->parameter, "slices of a parameter");
    if (!slices->tensors || slices->n_tensors == 0)
      bad("gives slices of '" + printable(parameter) + "' without tensors");
    checkpoint::TensorPlace to;
    for (uint64_t i = 0; i < slices->n_tensors; ++i)
      to.tensors.push_back(text(slices->tensors[i], "a slice in a tensor"));
    add(parameter, std::move(to),
        {nullptr, nullptr, slices->row, slices->n_rows, slices->flags, 0});
  }

  // to: the tensors; of: the rows of each, and flags.
  void add(const std::string& parameter, checkpoint::TensorPlace to, const plait_tensor_place& of) {
    if (of.row < 0 || of.n_rows < 0 || of.n_rows > INT64_MAX - of.row)
      bad(strf("gives '%s' %lld rows from row %lld on", printable(parameter).c_str(),
               static_cast<long long>(of.n_rows), static_cast<long long>(of.row)));
    if (const uint32_t unknown =
            of.flags & ~(PLAIT_PLACE_TRANSPOSED | PLAIT_PLACE_COLUMN | PLAIT_PLACE_COLUMNS))
      bad(strf("gives '%s' the unknown flags 0x%x", printable(parameter).c_str(), unknown));
    if (of.row > 0 && of.n_rows == 0)
      bad("does not say how many rows '" + printable(parameter) + "' has");
    to.row = of.row;
    to.n_rows = of.n_rows;
    to.transposed = (of.flags & PLAIT_PLACE_TRANSPOSED) != 0;
    to.column = (of.flags & PLAIT_PLACE_COLUMN) != 0;
    to.of_columns = (of.flags & PLAIT_PLACE_COLUMNS) != 0;
    if (to.of_columns && (to.transposed || to.column || to.n_rows == 0))
      bad("takes columns of '" + printable(to.all_tensors()[0]) + "' for '" + printable(parameter) +
          "' and does not say how many, or transposes them");
    check_new(parameter);
    made_.map.parameters[parameter] = std::move(to);
  }

  void add_block(const plait_tensor_block* block) {
    if (!block) bad("gives a block that is NULL");
    const std::string parameter = text(block->parameter, "a block of a parameter");
    const std::string tensor = text(block->tensor, "a block in a tensor");
    check_new(parameter);
    if (block->row < 0 || block->column < 0 || block->rows < 0 || block->columns < 0)
      bad("puts '" + printable(parameter) + "' outside of '" + printable(tensor) + "'");
    made_.map.blocks[parameter] = {tensor, block->row, block->column, block->rows, block->columns};
  }

  void check_new(const std::string& parameter) const {
    if (made_.map.parameters.contains(parameter) || made_.map.blocks.contains(parameter))
      bad("gives '" + printable(parameter) + "' two places");
  }

  std::string who_;
  Description made_;
  std::exception_ptr error_;
};

}  // namespace

Format::Format(const config::ItemConfig& config, std::shared_ptr<const plugin::Registry> registry)
    : config_(config),
      registry_(std::move(registry)),
      item_(registry_->format(config.type)),
      host_(registry_->host_of(&item_)),
      plugin_(registry_->plugin_of(&item_)) {}

Description Format::read(const std::string& folder) const {
  if (!item_.read)
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[format] '" + std::string(item_.name) + "' writes models and does not read them");
  const std::string who = "[plugin " + plugin_ + "] format '" + item_.name + "'";
  Collector collector(who);
  const plait_format_output out = collector.output();
  check_plugin({plugin_, "read", "format", item_.name}, "",
               [&] { return item_.read(host_, &config_.options, folder.c_str(), &out); });
  Description made = collector.take();
  if (std::none_of(made.files.begin(), made.files.end(),
                   [](const checkpoint::ExportFile& f) { return f.name == kExperimentName; }))
    fail(PLAIT_ERR_PLUGIN,
         who + " read '" + folder + "' and gave no " + kExperimentName + "; tell its author");
  return made;
}

Description Format::write(const std::string& model_json) const {
  if (!item_.write)
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[format] '" + std::string(item_.name) + "' reads models and does not write them");
  Collector collector("[plugin " + plugin_ + "] format '" + item_.name + "'");
  const plait_format_output out = collector.output();
  check_plugin({plugin_, "write", "format", item_.name}, "", [&] {
    return item_.write(host_, &config_.options, model_json.data(), model_json.size(), &out);
  });
  return collector.take();
}

namespace {

// The float type of most elements of a model's parameters: norms may have one of their own.
uint32_t main_dtype(const checkpoint::Checkpoint& from, const std::string& prefix,
                    const checkpoint::WrittenTypes& types) {
  std::map<uint32_t, int64_t> elements;
  for (const checkpoint::TensorRecord& t : from.tensors())
    if (checkpoint::is_parameter(t) && starts_with(t.name, prefix) && kit::is_float(t.dtype))
      elements[types.of(t)] += topology::elements(t.shape);
  uint32_t most = 0;
  for (const auto& [dtype, n] : elements)
    if (most == 0 || n > elements[most]) most = dtype;
  return most;
}

// The file that a tokenizer is read from; "" if it is none of a file.
std::string file_of(const std::optional<config::ItemConfig>& tokenizer) {
  if (tokenizer)
    for (const config::OptionValue& value : tokenizer->options.values())
      if (value.declared->type == PLAIT_OPT_PATH) return value.text;
  return "";
}

}  // namespace

checkpoint::WrittenTypes types_of_source(FileSystem& files, const config::ModelConfig& model,
                                         const checkpoint::Checkpoint& from, Log& log) {
  checkpoint::WrittenTypes types;
  if (model.load.empty() || checkpoint::names_checkpoint(files, model.load)) return types;
  try {
    const checkpoint::Weights weights(files, model.load);
    for (const checkpoint::TensorRecord& t : from.tensors()) {
      if (!checkpoint::is_parameter(t) || !starts_with(t.name, model.name + ".")) continue;
      for (const std::string& name :
           checkpoint::names_in_file(t.name, model.name, model.load_names))
        if (const auto place = weights.find(name); place.entry && kit::is_float(place.entry->dtype))
          types.each.emplace(t.name, place.entry->dtype);
    }
  } catch (const Error& e) {
    log.warn("[export] the weights that the model began with cannot be read (" +
             without_part(e.text()) +
             "), so tensors are written in the type that the checkpoint has; plait export --dtype "
             "chooses another one");
    return {};
  }
  return types;
}

std::string model_json(const config::ModelConfig& model,
                       const std::optional<config::ItemConfig>& tokenizer,
                       const checkpoint::Checkpoint& from, const checkpoint::WrittenTypes& types) {
  const std::string prefix = model.name + ".";
  const auto without_prefix = [&](const std::string& name) {
    return starts_with(name, prefix) ? name.substr(prefix.size()) : name;
  };
  JsonWriter w;
  w.object().field("schema", 1).field("name", model.name).field("load", model.load);
  w.field("tokenizer", file_of(tokenizer));
  w.field("dtype", kit::dtype_name(main_dtype(from, prefix, types))).key("layers").array();
  for (const config::LayerConfig& layer : model.layers) {
    w.object().field("type", layer.type).field("name", layer.name);
    w.texts("from", layer.from).texts("as", layer.as).key("options").object();
    for (const config::OptionValue& value : layer.options.values()) {
      w.key(value.declared->name);
      config::write_value(w, value);
    }
    w.end_object().key("tie").object();
    for (const config::TieConfig& tie : layer.tie) w.field(tie.own, without_prefix(tie.full));
    w.end_object().end_object();
  }
  w.end_array().key("adapters").array();
  for (const config::AdapterConfig& adapter : model.adapters) {
    w.object().field("type", adapter.type).field("name", adapter.name).key("options").object();
    for (const config::OptionValue& value : adapter.options.values()) {
      w.key(value.declared->name);
      config::write_value(w, value);
    }
    w.end_object().end_object();
  }
  w.end_array().texts("train", model.train).key("parameters").object();
  for (const checkpoint::TensorRecord& t : from.tensors()) {
    if (!checkpoint::is_parameter(t) || !starts_with(t.name, prefix)) continue;
    w.key(without_prefix(t.name)).array();
    for (const int64_t extent : t.shape) w.value(extent);
    w.end_array();
  }
  return w.end_object().end_object().text();
}

Imported import_model(FileSystem& files, const Format& format, const std::string& folder,
                      const std::string& out,
                      const std::function<void(const Description&)>& check) {
  if (!files.is_folder(folder))
    fail_not_found(
        "[format] '" + folder +
        "' is not a folder here. Plait does not download models: fetch it first, then give its "
        "folder");
  if (files.exists(out) || files.is_link(out))
    fail_invalid("[format] '" + out + "' exists; remove it, or choose another name");
  Description made = format.read(folder);
  const std::string at = files.real_path(folder);
  made.map.weights = made.map.weights.empty() ? at : join_path(at, made.map.weights);
  // The map is tried on the files before anything is written.
  const std::string map_text = checkpoint::tensor_map_text(made.map);
  const checkpoint::Weights weights(files, made.map.weights, made.map, kMapName);
  if (check) check(made);
  made.files.push_back({kMapName, map_text, ""});
  Imported done;
  done.parameters = made.map.parameters.size();
  done.bytes = weights.bytes();
  done.files = checkpoint::write_new_folder(files, out, made.files);
  return done;
}

}  // namespace plait::format
