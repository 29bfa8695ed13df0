#include "engine/session/weight_source.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/name_rules.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::session {
namespace {

using Names = std::vector<std::string>;
using Parameters = std::vector<const plan::Parameter*>;

constexpr size_t kNamesShown = 8;

// The first ones: "a, b and 3 more".
std::string shortened(Names names, const char* quote = "") {
  if (names.empty()) return "none";
  const size_t n = names.size();
  if (n > kNamesShown) names.resize(kNamesShown);
  for (std::string& name : names) name = quote + printable(name) + quote;
  return join(names) + (n > kNamesShown ? strf(" and %zu more", n - kNamesShown) : "");
}

Names names_of(const Parameters& parameters) {
  Names names;
  for (const plan::Parameter* p : parameters) names.push_back(p->name);
  return names;
}

bool matches_any(const Names& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

// Whether it is named as one of several files of weights: model-00001-of-00002.safetensors.
bool is_shard(const std::string& path) {
  const std::string name = name_of(path);
  const size_t of = name.rfind("-of-");
  constexpr size_t kDigits = 5;
  const auto are_digits = [&](size_t at) {
    const std::string part = name.substr(std::min(at, name.size()), kDigits);
    return part.size() == kDigits && part.find_first_not_of("0123456789") == std::string::npos;
  };
  return of != std::string::npos && of > kDigits && are_digits(of - kDigits) && are_digits(of + 4);
}

class Assignment {
 public:
  Assignment(const WeightSource& source, const plan::Plan& plan, const Names& names,
             const std::vector<checkpoint::BaseRecord>& bases)
      : source_(source),
        plan_(plan),
        names_(names),
        known_(names.begin(), names.end()),
        bases_(bases) {}

  std::vector<GivenTensor> run(Log* log, std::vector<std::string>& initial) {
    check_rules();
    for (const plan::Parameter& p : plan_.parameters)
      if (source_.gives(p))
        assign(p);
      else if (is_beside(p))
        take_beside(p);
    if (!missing_.empty()) fail_missing();
    for (const auto& [adapter, parameters] : without_)
      if (there_.contains(adapter)) fail_part(adapter, parameters);
    check_patterns();
    check_unexpected();
    if (log) tell(*log);
    for (const auto& [adapter, parameters] : without_)
      initial.push_back(
          where() + "has nothing of adapter '" + adapter +
          strf("', which starts with its initial values: %zu parameters", parameters.size()));
    return std::move(given_);
  }

 private:
  void assign(const plan::Parameter& p) {
    const Names wanted = source_.names(p);
    const auto name = std::find_if(wanted.begin(), wanted.end(),
                                   [&](const std::string& one) { return known_.contains(one); });
    if (name != wanted.end()) {
      given_.push_back({&p, *name});
      if (!p.adapter.empty()) there_.insert(p.adapter);
    } else if (matches_any(source_.may_be_missing(), p.name)) {
      allowed_.push_back(&p);
    } else if (!source_.adapter && !p.adapter.empty()) {
      without_[p.adapter].push_back(&p);
    } else {
      missing_.push_back(&p);
    }
  }

  // A map of an adapter names parameters of the model itself that were trained with it.
  bool is_beside(const plan::Parameter& p) const {
    if (!source_.beside || p.model != source_.model.name || !p.adapter.empty()) return false;
    const Names wanted = source_.names(p);
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const std::string& one) { return known_.contains(one); });
  }
  void take_beside(const plan::Parameter& p) {
    // A session that generates alone trains nothing.
    if (p.frozen && !matches_any(source_.model.train, p.name))
      fail_config(where() + "has '" + printable(p.name) +
                  "', which was trained beside the adapter and is frozen here; name it in " +
                  source_.model.path + ".train");
    assign(p);
  }

  std::string where() const { return "[session] '" + source_.path + "' (" + source_.key + ") "; }

  [[noreturn]] void fail_missing() const {
    const plan::Parameter& p = *missing_[0];
    const std::string wanted = source_.names(p)[0];
    const std::string what = where() + "has no tensor '" + wanted + "'";
    if (!bases_.empty() && p.adapter.empty())
      fail_data(what + ": it holds what was trained beside '" + printable(bases_[0].path) +
                "'; name these weights there, and '" + source_.path +
                "' in `load` of the adapters");
    if (is_shard(source_.path))
      fail_data(what + ", as it is one of several files of weights; name their folder: " +
                source_.key + " = \"" + printable(folder_of(source_.path)) + "\"");
    const Parameters others(missing_.begin() + 1, missing_.end());
    fail_data(what + did_you_mean(nearest(wanted, names_)) +
              (wanted == p.name ? "" : " for '" + p.name + "'") +
              (others.empty() ? "" : ", and none for " + shortened(names_of(others), "'")) +
              "; it has " + shortened(names_) + "; " +
              (source_.adapter
                   ? "name the adapter as it was named there, and let `match` name the same "
                     "parameters; "
                   : source_.key + "_names = [\"OURS=THEIRS\"] says which is which; ") +
              source_.key + "_missing = [PATTERN] lets parameters keep their initial values");
  }

  [[noreturn]] void fail_part(const std::string& adapter, const Parameters& parameters) const {
    fail_data(where() + "has a part of adapter '" + adapter + "' only: it lacks " +
              shortened(names_of(parameters), "'") +
              "; take weights with all of it, or with none, or name what may be missing in " +
              source_.key + "_missing");
  }

  void check_patterns() const {
    for (const std::string& pattern : source_.may_be_unexpected())
      if (std::none_of(names_.begin(), names_.end(),
                       [&](const std::string& name) { return glob_match(pattern, name); }))
        fail_config("[session] " + source_.key + "_unexpected: pattern '" + pattern +
                    "' matches no tensor of '" + source_.path + "'" +
                    did_you_mean(nearest(pattern, names_)) + "; it has " + shortened(names_));
  }

  // A rule whose own side names no parameter does nothing: it has a typing error.
  void check_rules() const {
    if (source_.adapter || plan_.experiment.generate.only) return;
    Names own;
    for (const plan::Parameter& p : plan_.parameters)
      if (p.model == source_.model.name) own.push_back(p.name);
    for (const std::string& rule : source_.model.load_names) {
      if (is_used(rule, source_.model.name, own)) continue;
      const std::string ours(trim(std::string_view(rule).substr(0, rule.find('='))));
      fail_config("[session] " + source_.key + "_names: '" + printable(ours) + "' of '" +
                  printable(rule) + "' matches no parameter of model '" + source_.model.name + "'" +
                  did_you_mean(nearest(ours, own)) + "; its parameters are " + shortened(own));
    }
  }

  // Tensors of other models, and of adapters with a `load` of their own, belong to those. A plan
  // that only generates leaves out a part of the model.
  void check_unexpected() const {
    if (plan_.experiment.generate.only) return;
    std::set<std::string> expected;
    for (const GivenTensor& t : given_) expected.insert(t.name);
    const WeightSource of_model{source_.model, nullptr, "", ""};
    for (const plan::Parameter& p : plan_.parameters)
      if (p.model == source_.model.name && !source_.gives(p))
        for (const std::string& name : of_model.names(p)) expected.insert(name);
    Names unexpected;
    for (const std::string& name : names_)
      if (!expected.contains(name) && !is_of_another(name) &&
          !matches_any(source_.may_be_unexpected(), name))
        unexpected.push_back(name);
    if (unexpected.empty()) return;
    fail_data(
        where() + "has " + shortened(unexpected, "'") + ", for which " +
        (source_.adapter ? "adapter '" + source_.adapter->name : "model '" + source_.model.name) +
        "' has no parameter; take weights of the same layers" +
        (source_.adapter ? ""
                         : " and adapters, say which is which with " + source_.key + "_names") +
        ", or ignore them with " + source_.key + "_unexpected = [PATTERN]");
  }

  bool is_of_another(const std::string& name) const {
    if (source_.adapter) return name.find("." + source_.adapter->name + ".") == std::string::npos;
    const auto& models = plan_.experiment.models;
    return std::any_of(models.begin(), models.end(), [&](const config::ModelConfig& m) {
      return m.name != source_.model.name && starts_with(name, m.name + ".");
    });
  }

  void tell(Log& log) const {
    if (!allowed_.empty())
      log.info(where() + "lacks " + shortened(names_of(allowed_)) + ": initial values, by " +
               source_.key + "_missing");
  }

  const WeightSource& source_;
  const plan::Plan& plan_;
  const Names& names_;
  const std::set<std::string> known_;
  const std::vector<checkpoint::BaseRecord>& bases_;
  std::vector<GivenTensor> given_;
  std::set<std::string> there_;                // adapters of which it has parameters
  std::map<std::string, Parameters> without_;  // by adapter, which may start beside these weights
  Parameters allowed_, missing_;
};

}  // namespace

bool is_used(const std::string& rule, const std::string& model,
             const std::vector<std::string>& parameters) {
  const NameRules one({rule});
  return std::any_of(parameters.begin(), parameters.end(), [&](const std::string& name) {
    const std::string_view full(name);
    return one.find({full, full.substr(model.size() + 1)}).has_value();
  });
}

bool WeightSource::gives(const plan::Parameter& p) const {
  if (p.model != model.name) return false;
  if (adapter) return p.adapter == adapter->name;
  return std::none_of(model.adapters.begin(), model.adapters.end(),
                      [&](const auto& own) { return own.name == p.adapter && !own.load.empty(); });
}

std::vector<std::string> WeightSource::names(const plan::Parameter& p) const {
  return checkpoint::names_in_file(p.name, model.name,
                                   adapter ? std::vector<std::string>() : model.load_names);
}

const std::vector<std::string>& WeightSource::may_be_missing() const {
  return adapter ? adapter->load_missing : model.load_missing;
}

const std::vector<std::string>& WeightSource::may_be_unexpected() const {
  return adapter ? adapter->load_unexpected : model.load_unexpected;
}

std::vector<GivenTensor> tensors_of(const WeightSource& source, const plan::Plan& plan,
                                    const std::vector<std::string>& names,
                                    const std::vector<checkpoint::BaseRecord>& bases, Log* log,
                                    std::vector<std::string>& initial) {
  return Assignment(source, plan, names, bases).run(log, initial);
}

}  // namespace plait::session
