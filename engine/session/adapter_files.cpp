#include "engine/session/adapter_files.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/probe_weights.hpp"
#include "engine/config/schema.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/base_weights.hpp"

namespace plait::session {

namespace {

// The leader's path, which another rank may not be able to choose: a run may be writing others.
// Its error is that of all ranks.
std::string checkpoint_on_all_ranks(SessionContext& c, const std::string& given) {
  std::string told;
  std::optional<Error> failed;
  if (c.ranks.is_leader()) try {
      checkpoint::require_weights(c.files, "path", given);
      if (checkpoint::names_checkpoint(c.files, given))
        told = "+" + checkpoint::open_checkpoint(c.files, given, c.log)->path();
    } catch (const Error& e) {
      failed = e;
      told = strf("%u ", e.code()) + e.text();
    }
  told = c.ranks.broadcast(told);
  if (failed) throw Error(*failed);
  if (told.empty() || told[0] == '+') return told.empty() ? "" : told.substr(1);
  const auto code = static_cast<uint32_t>(std::strtoul(told.c_str(), nullptr, 10));
  fail(code, told.substr(told.find(' ') + 1));
}

// Equal as texts, or as numbers: 8 and 8.0.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char *end_a = nullptr, *end_b = nullptr;
  const double of_a = std::strtod(a.c_str(), &end_a), of_b = std::strtod(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && !*end_a && !*end_b && of_a == of_b;
}

}  // namespace

AdapterFiles::AdapterFiles(SessionContext& context, BaseWeights& bases, const AdapterSource& source)
    : c_(context), bases_(bases), source_(source), recorded_(source.recorded) {
  if (source.map) {
    weights_ = std::make_unique<checkpoint::Weights>(c_.files, source.map->weights, *source.map,
                                                     source.path);
    return;
  }
  const std::string path = checkpoint_on_all_ranks(c_, source.path);
  if (path.empty()) {
    weights_ = std::make_unique<checkpoint::Weights>(c_.files, source.path);
    return;
  }
  checkpoint_ = std::make_unique<checkpoint::Checkpoint>(c_.files, path,
                                                         checkpoint::Checkpoint::Verify::kLater);
  recorded_ = adapters_in(checkpoint_->state().settings);
}

std::vector<std::string> AdapterFiles::names() const {
  if (weights_) return weights_->names();
  std::vector<std::string> names;
  for (const checkpoint::TensorRecord& t : checkpoint_->tensors())
    if (checkpoint::is_parameter(t)) names.push_back(t.name);
  return names;
}

std::string AdapterFiles::find(const std::string& parameter, const std::string& model) const {
  for (const std::string& name : checkpoint::names_in_file(parameter, model, {}))
    if (weights_ ? weights_->find(name).entry != nullptr : checkpoint_->find(name) != nullptr)
      return name;
  return {};
}

// Adapters are known by tensors TARGET.NAME.OWN, whose TARGET and OWN our parameters have.
std::string AdapterFiles::name_there(const config::ModelConfig& model,
                                     const std::string& adapter) const {
  const std::vector<std::string> stored = names();
  std::set<std::string> there;
  for (const plan::Parameter& p : c_.plan.parameters) {
    if (p.model != model.name || p.adapter != adapter) continue;
    for (const std::string& own : checkpoint::names_in_file(p.name, model.name, {})) {
      const size_t at = own.rfind("." + adapter + ".");
      const std::string front = own.substr(0, at + 1), end = own.substr(at + 1 + adapter.size());
      for (const std::string& name : stored) {
        if (name.size() <= front.size() + end.size() || !starts_with(name, front) ||
            !ends_with(name, end))
          continue;
        const std::string between =
            name.substr(front.size(), name.size() - front.size() - end.size());
        if (between.find('.') == std::string::npos) there.insert(between);
      }
    }
  }
  const std::string& wanted = source_.from.empty() ? adapter : source_.from;
  if (there.contains(wanted)) return wanted;
  if (there.size() == 1 && source_.from.empty()) return *there.begin();
  const std::vector<std::string> all(there.begin(), there.end());
  if (all.empty())
    fail_not_found("[session] '" + source_.path + "' has no parameter of an adapter of what '" +
                   adapter + "' changes; name files of an adapter of the same `match`");
  fail_not_found("[session] '" + source_.path + "' has no adapter '" + wanted + "'" +
                 did_you_mean(nearest(wanted, all)) + "; there are: " + join(all) +
                 "; say which one with `from`");
}

void AdapterFiles::check_record(const config::ModelConfig& model, const std::string& adapter,
                                const std::string& there) const {
  // Entries of one name in their order.
  std::vector<const config::AdapterConfig*> own;
  for (const config::AdapterConfig& a : model.adapters)
    if (a.name == adapter) own.push_back(&a);
  std::vector<const RecordedAdapter*> theirs;
  for (const RecordedAdapter& a : recorded_)
    if (a.name == there && (a.model.empty() || a.model == model.path)) theirs.push_back(&a);
  for (size_t i = 0; i < std::min(own.size(), theirs.size()); ++i) {
    const std::string what = "[session] adapter '" + there + "' of '" + source_.path + "'";
    if (theirs[i]->type != own[i]->type)
      fail_config(what + " is " + theirs[i]->type + ", and '" + adapter + "' (" + own[i]->path +
                  ") is " + own[i]->type + "; load it into an adapter of its type");
    std::vector<std::string> differing;
    for (const config::OptionValue& value : own[i]->options.values()) {
      const auto was = theirs[i]->options.find(value.declared->name);
      const std::string is = config::value_toml(value);
      if (was != theirs[i]->options.end() && !same_value(was->second, is))
        differing.push_back(std::string(value.declared->name) + " was " + was->second + ", is " +
                            is);
    }
    if (!differing.empty() && c_.ranks.is_leader())
      c_.log.warn(what + " was trained with other options than " + own[i]->path + ": " +
                  join(differing, "; ") + "; set them as they were, unless that is meant");
  }
}

void AdapterFiles::check_all_read(const config::ModelConfig& model, const std::string& adapter,
                                  const std::string& there) const {
  const std::string part = "." + there + ".", front = model.name + ".";
  for (const std::string& name : names()) {
    const std::string full = starts_with(name, front) ? name : front + name;
    const size_t at = full.rfind(part);
    if (const plan::Parameter* own = c_.plan.parameter(full);
        own && own->adapter.empty() && weights_ && weights_->is_mapped())
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[session] '" + source_.path + "' has '" + printable(name) +
               "' of the model itself, which was trained beside adapter '" + there +
               "', and an adapter is exchanged alone; import it (plait import) and start a run "
               "from that experiment");
    if (at == std::string::npos || c_.plan.parameter(full)) continue;
    const std::string ours = as_named(full, there, adapter);
    if (!c_.plan.parameter(ours))
      fail_data("[session] '" + source_.path + "' has '" + printable(name) + "' of adapter '" +
                there + "', and '" + adapter + "' has nothing there; let its `match` name '" +
                printable(full.substr(0, at)) + "', with the same method");
  }
}

void AdapterFiles::check_shape(const plan::Parameter& p, const std::string& stored) const {
  std::vector<int64_t> shape;
  uint32_t dtype = 0;
  if (weights_) {
    const checkpoint::Weights::Place place = weights_->find(stored);
    shape = place.shape;
    dtype = place.entry->dtype;
  } else {
    const checkpoint::TensorRecord* t = checkpoint_->find(stored);
    shape = t->shape;
    dtype = t->dtype;
  }
  if (checkpoint::is_convertible(dtype, p.shape.dtype) && shape == program::dims_of(p.shape))
    return;
  fail_data("[session] tensor '" + printable(stored) + "' of '" + source_.path + "' is " +
            program::dtype_name(dtype) + " " + checkpoint::shape_text(shape) + ", expected " +
            program::text(p.shape) + ", as parameter '" + p.name +
            "' has; load it into an adapter with its options, such as its rank, on the same base");
}

void AdapterFiles::read_block(const plan::Parameter& p, const std::string& stored,
                              const plan::LocalBlock& block, std::vector<char>& to) const {
  if (checkpoint_)
    checkpoint_->read_block(stored, block.dtype, program::dims_of(p.shape), block.box, to.data());
  else if (!to.empty())
    checkpoint::Weights::read(weights_->find(stored), block.box, block.dtype,
                              reinterpret_cast<std::byte*>(to.data()));
}

std::vector<AdapterFiles::Block> AdapterFiles::read(const config::ModelConfig& model,
                                                    const std::string& adapter) const {
  const std::string there = name_there(model, adapter);
  check_record(model, adapter, there);
  if (checkpoint_ && c_.ranks.is_leader()) bases_.check(*checkpoint_);
  check_all_read(model, adapter, there);
  std::vector<Block> blocks;
  for (const plan::Parameter& p : c_.plan.parameters) {
    if (p.model != model.name || p.adapter != adapter) continue;
    const std::string wanted = as_named(p.name, adapter, there), stored = find(wanted, model.name);
    if (stored.empty())
      fail_data("[session] '" + source_.path + "' has no tensor '" + wanted + "' for '" + p.name +
                "', and others of adapter '" + there +
                "'; load it into an adapter of the same method, whose `match` names the same");
    check_shape(p, stored);
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p)) {
      const uint64_t bytes = program::bytes_of(topology::elements(held.box), held.dtype);
      std::vector<char> values = with_memory("session", "hold the parameter", p.name, bytes,
                                             [&] { return std::vector<char>(bytes); });
      read_block(p, stored, held, values);
      blocks.emplace_back(held, std::move(values));
    }
  }
  return blocks;
}

}  // namespace plait::session
