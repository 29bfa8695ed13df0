// Attributes of an op against their declarations.
#include <plait/option.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"
#include "kit/op_attrs.hpp"

namespace plait::program {
namespace {

const plait_option* declared(AttrDecls decls, std::string_view name) {
  for (const plait_option& one : decls)
    if (name == one.name) return &one;
  return nullptr;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

[[noreturn]] void refuse_unknown(const OpDef& def, const Attr& a, const std::string& where) {
  std::vector<std::string> names;
  for (const plait_option& one : def.attrs) names.emplace_back(one.name);
  fail_invalid(where + " has no attribute '" + a.name + "'" +
               did_you_mean(nearest(lower(a.name), names)) +
               (names.empty() ? "; it takes none" : "; it takes " + join(names)));
}

// The value as its declaration types it: integers are reals where reals are expected.
void check_value(const plait_option& decl, Attr& a, const std::string& where) {
  if (decl.type == PLAIT_OPT_REAL && a.type == PLAIT_OPT_INT) {
    a.f = static_cast<double>(a.i);
    a.i = 0;
    a.type = PLAIT_OPT_REAL;
  }
  if (a.type != decl.type)
    fail_invalid(where + " attribute '" + a.name + "' is " + kit::attr_type_name(a.type) +
                 ", expected " + kit::attr_type_name(decl.type) + ": " + decl.help);
  if (a.type == PLAIT_OPT_REAL && !std::isfinite(a.f))
    fail_invalid(where + " attribute '" + a.name + "' is " + strf("%g", a.f) +
                 ", expected a finite number: " + decl.help);
  const std::string fault = kit::fault_of(decl, {a.i, a.f, a.text, a.ints});
  if (!fault.empty()) fail_invalid(where + " " + a.name + " " + fault);
}

Attr default_attr(const plait_option& decl, const std::string& where) {
  if (!decl.default_value)
    fail_invalid(where + " needs the attribute '" + decl.name + "' (" +
                 kit::attr_type_name(decl.type) + "): " + decl.help);
  const kit::AttrValue v = kit::default_of(decl);
  return {decl.name, decl.type, v.i, v.f, v.text, v.ints};
}

}  // namespace

Attrs checked(const OpDef& def, Attrs attrs, const std::string& where) {
  if (def.takes_any_attr) return attrs;
  for (const Attr& a : attrs.all())
    if (!declared(def.attrs, a.name) && !declared(def.rewrite_attrs, a.name))
      refuse_unknown(def, a, where);
  Attrs all;
  for (const plait_option& decl : def.attrs) {
    const Attr* given = attrs.find(decl.name);
    Attr a = given ? *given : default_attr(decl, where);
    if (given) check_value(decl, a, where);
    all.set(std::move(a));
  }
  for (const plait_option& decl : def.rewrite_attrs)
    if (const Attr* given = attrs.find(decl.name)) {
      Attr a = *given;
      check_value(decl, a, where);
      all.set(std::move(a));
    }
  return all;
}

void check_audience(const OpDef& def, const Attrs& attrs, const std::string& where) {
  if (def.audience == Audience::kEngine)
    fail_not_found(where + " is the engine's own and can't be written by a plugin");
  for (const Attr& a : attrs.all())
    if (declared(def.rewrite_attrs, a.name)) refuse_unknown(def, a, where);
}

}  // namespace plait::program
