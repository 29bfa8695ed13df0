#include "engine/program/text/print.hpp"

#include <algorithm>

#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/text/expression.hpp"
#include "engine/program/text/lexer.hpp"
#include "kit/op_attrs.hpp"

namespace plait::program {
namespace {

using text_form::quoted;

std::string id(ValueId v) { return "%" + std::to_string(v); }

std::string word_or_text(const std::string& t) { return text_form::is_word(t) ? t : quoted(t); }

// implied: the memory that its op gives it anyway; 0: none.
std::string result(const Graph& g, ValueId v, ValueId implied) {
  const Value& value = g.value(v);
  std::string t = id(v) + " " + text(value.shape);
  if (value.role == Role::kPersistent)
    t += value.buffer == BufferRef{} ? " at none"
                                     : strf(" at %d:%llu", value.buffer.segment,
                                            static_cast<unsigned long long>(value.buffer.offset));
  if (value.alias_of && (value.alias_of != implied || value.byte_offset)) {
    t += " in " + id(value.alias_of);
    if (value.byte_offset) t += "+" + std::to_string(value.byte_offset);
  }
  if (value.requires_grad) t += " grad";
  if (value.weak) t += " weak";
  return t;
}

std::string attr_value(const Attr& a) {
  switch (a.type) {
    case PLAIT_OPT_BOOL:
      return a.i ? "true" : "false";
    case PLAIT_OPT_REAL:
      return real_text(a.f);
    case PLAIT_OPT_TEXT:
      return quoted(a.text);
    case PLAIT_OPT_INTS: {
      std::vector<std::string> all;
      for (const int64_t i : a.ints) all.push_back(std::to_string(i));
      return "[" + join(all) + "]";
    }
    default:
      return std::to_string(a.i);
  }
}

bool is_default(const plait_option& decl, const Attr& a) {
  if (!decl.default_value || a.type != decl.type) return false;
  const kit::AttrValue v = kit::default_of(decl);
  return attr_value({a.name, a.type, v.i, v.f, v.text, v.ints}) == attr_value(a);
}

// In the order in which they are declared.
std::string attributes(const Op& op) {
  std::vector<std::string> all;
  const auto add = [&](const Attr& a) {
    all.push_back(word_or_text(a.name) + ": " + attr_value(a));
  };
  const auto declared = [&](AttrDecls decls, const std::string& name) {
    return std::any_of(decls.begin(), decls.end(),
                       [&](const plait_option& decl) { return name == decl.name; });
  };
  for (const plait_option& decl : op.def->attrs)
    if (const Attr* a = op.attrs.find(decl.name); a && !is_default(decl, *a)) add(*a);
  for (const plait_option& decl : op.def->rewrite_attrs)
    if (const Attr* a = op.attrs.find(decl.name)) add(*a);
  for (const Attr& a : op.attrs.all())
    if (!declared(op.def->attrs, a.name) && !declared(op.def->rewrite_attrs, a.name)) add(a);
  return all.empty() ? "" : " {" + join(all) + "}";
}

std::string in_place(const Op& op) {
  if (std::all_of(op.alias.begin(), op.alias.end(), [](int32_t i) { return i < 0; })) return "";
  std::vector<std::string> all;
  for (const int32_t i : op.alias) all.push_back(std::to_string(i));
  return " in_place [" + join(all) + "]";
}

std::string without_producer(const Graph& g, ValueId v) {
  const Value& value = g.value(v);
  const std::string head = result(g, v, 0) + " = ";
  if (value.role == Role::kPersistent) return head + "persistent " + quoted(value.name);
  return head + (value.alias_of ? "view" : "buffer");
}

class Printer {
 public:
  Printer(const Graph& g, const PrintOptions& options)
      : g_(g), options_(options), used_(g.n_values(), 0), told_(g.n_values(), 0) {}
  std::string run() {
    text_ = "program " + quoted(options_.name) + " " + dtype_name(g_.float_type()) + " {\n";
    for (const Op& op : g_.ops())
      for (const auto* list : {&op.out, &op.in})
        for (ValueId v : *list)
          for (; v && !used_[v]; v = g_.value(v).alias_of) used_[v] = 1;
    for (ValueId v = 1; v < g_.n_values(); ++v) {
      const Value& value = g_.value(v);
      const bool named = value.role == Role::kPersistent && !value.name.empty();
      if (!value.alias_of && (used_[v] || named)) tell(v);
    }
    for (size_t i = 0; i < g_.ops().size(); ++i) op(i);
    return text_ + "}\n";
  }

 private:
  void line(const std::string& t) { text_ += "  " + t + "\n"; }
  // What no op makes, before it is first spoken of.
  void tell(ValueId v) {
    for (; v && !told_[v]; v = g_.value(v).alias_of) {
      told_[v] = 1;
      if (g_.value(v).producer < 0) line(without_producer(g_, v));
    }
  }
  void op(size_t i) {
    for (const auto* list : {&g_.ops()[i].in, &g_.ops()[i].out})
      for (ValueId v : *list) tell(v);
    std::string t = op_line(g_, i);
    if (options_.comment)
      if (const std::string c = options_.comment(i); !c.empty()) t += "  # " + printable(c);
    line(t);
  }

  const Graph& g_;
  const PrintOptions& options_;
  std::vector<char> used_, told_;
  std::string text_;
};

}  // namespace

std::string op_line(const Graph& g, size_t i) {
  const Op& op = g.ops().at(i);
  if (!op.def) return "removed";
  std::vector<std::string> out, in;
  for (ValueId v : op.out)
    out.push_back(result(g, v, op.def->is_view && !op.in.empty() ? op.in[0] : 0));
  for (ValueId v : op.in) in.push_back(id(v));
  std::string t = join(out) + " = " + word_or_text(op.name) + "(" + join(in) + ")";
  t += attributes(op);
  if (!op.map.outputs.empty()) t += " [" + text_form::expression_text(op.map, op.in.size()) + "]";
  t += in_place(op);
  if (!op.scope.empty()) t += " @" + word_or_text(op.scope);
  if (op.stage != 0) t += " stage " + std::to_string(op.stage);
  if (op.backward) t += " backward";
  return t + (op.not_deferred ? " not_deferred" : "");
}

std::string print(const Graph& g, const PrintOptions& options) { return Printer(g, options).run(); }

}  // namespace plait::program
