#include "engine/program/op_reference.hpp"

#include "engine/base/json.hpp"
#include "kit/op_attrs.hpp"

namespace plait::program {
namespace {

// The text about sharding over tensor ranks.
const char* sharding_of(const OpDef& def) {
  if (def.lower) return "elements, where the result has them from a sharded operand";
  if (def.grouping != Grouping::kNone && def.write_sharded)
    return def.shard ? "over groups, and by a rule" : "over groups";
  if (def.shard && def.write_sharded) return "by a rule, and over a sharded vocabulary";
  if (def.write_sharded) return "over a sharded vocabulary";
  return def.shard ? "by a rule" : "none: it takes replicated operands";
}

std::string choices_of(const plait_option& a) {
  std::string text = a.choices ? a.choices : "";
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, ", ");
  return text;
}

std::string section(const OpDef& def) {
  std::string t = std::string("## ") + def.name + "\n\n" + def.help + "\n\n";
  if (*def.signature) t += std::string("- Signature: `") + def.signature + "`\n";
  if (*def.dtypes) t += std::string("- Types: ") + def.dtypes + "\n";
  t += std::string("- Gradient: ") + (def.vjp ? "yes" : "no") + "\n";
  t += std::string("- Sharding: ") + sharding_of(def) + "\n";
  for (const plait_option& a : def.attrs) {
    t += std::string("- Attribute `") + a.name + "` (" + kit::attr_type_name(a.type) + ", " +
         (a.default_value ? std::string("default `") + a.default_value + "`" : "required") +
         "): " + a.help;
    if (a.choices) t += "; one of " + choices_of(a);
    t += "\n";
  }
  return t + "\n";
}

}  // namespace

std::string op_page(const std::vector<const OpDef*>& ops) {
  std::string t =
      "# Ops\n\n"
      "What `plait_builder`'s `op()` writes (build.h). Generated from the definitions in\n"
      "`engine/program/ops/`; a test compares this page with them. Dims stand in parentheses; "
      "`..`\n"
      "are any number of them, the same wherever they stand in one line. Element-wise operands\n"
      "broadcast as in NumPy. An attribute that is not listed is an error with the nearest "
      "name.\n\n";
  for (const OpDef* def : ops) t += section(*def);
  t.pop_back();
  return t;
}

std::string op_json(const std::vector<const OpDef*>& ops) {
  JsonWriter w;
  w.object().field("schema", 1).key("ops").array();
  for (const OpDef* def : ops) {
    w.object().field("name", def->name).field("help", def->help);
    w.field("signature", def->signature).field("dtypes", def->dtypes);
    w.field("gradient", def->vjp != nullptr).field("sharding", sharding_of(*def));
    w.field("core", def->item == nullptr).field("any_attribute", def->takes_any_attr);
    w.key("attributes").array();
    for (const plait_option& a : def->attrs) {
      w.object().field("name", a.name).field("type", kit::attr_type_name(a.type));
      w.key("default");
      a.default_value ? w.value(a.default_value) : w.null();
      w.field("choices", choices_of(a)).field("help", a.help ? a.help : "").end_object();
    }
    w.end_array().end_object();
  }
  w.end_array().end_object();
  return w.text();
}

}  // namespace plait::program
