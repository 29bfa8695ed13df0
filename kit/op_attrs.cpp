#include "kit/op_attrs.hpp"

#include <charconv>
#include <cstring>

namespace plait::kit {
namespace {

// A number of a list or alone; `at` moves behind it.
template <class T>
bool number(std::string_view& at, T& out) {
  const auto end = std::from_chars(at.data(), at.data() + at.size(), out);
  if (end.ec != std::errc{}) return false;
  at.remove_prefix(static_cast<size_t>(end.ptr - at.data()));
  return true;
}

std::string bound(double v) {
  std::string t = std::to_string(v);
  t.erase(t.find_last_not_of('0') + 1);
  return t.back() == '.' ? t.substr(0, t.size() - 1) : t;
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, end) == text) return true;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return false;
}

std::string beyond(const plait_option& decl, double v) {
  const bool low = (decl.flags & PLAIT_OPT_HAS_MIN) != 0 &&
                   !((decl.flags & PLAIT_OPT_MIN_EXCLUSIVE) != 0 ? v > decl.min : v >= decl.min);
  const bool high = (decl.flags & PLAIT_OPT_HAS_MAX) != 0 &&
                    !((decl.flags & PLAIT_OPT_MAX_EXCLUSIVE) != 0 ? v < decl.max : v <= decl.max);
  if (low)
    return std::string("must be ") +
           ((decl.flags & PLAIT_OPT_MIN_EXCLUSIVE) != 0 ? "above " : "at least ") +
           bound(decl.min) + ", found " + bound(v);
  if (high)
    return std::string("must be ") +
           ((decl.flags & PLAIT_OPT_MAX_EXCLUSIVE) != 0 ? "below " : "at most ") + bound(decl.max) +
           ", found " + bound(v);
  return {};
}

}  // namespace

const char* attr_type_name(uint32_t type) {
  switch (type) {
    case PLAIT_OPT_BOOL:
      return "bool";
    case PLAIT_OPT_INT:
      return "int";
    case PLAIT_OPT_REAL:
      return "real";
    case PLAIT_OPT_TEXT:
      return "string";
    case PLAIT_OPT_INTS:
      return "ints";
    default:
      return "?";
  }
}

AttrValue default_of(const plait_option& decl) {
  if (!decl.default_value)
    throw Invalid(std::string("attribute '") + decl.name + "' must be given");
  std::string_view text = decl.default_value;
  AttrValue v;
  bool ok = true;
  switch (decl.type) {
    case PLAIT_OPT_BOOL:
      v.i = text == "true";
      break;
    case PLAIT_OPT_INT:
      ok = number(text, v.i);
      break;
    case PLAIT_OPT_REAL:
      ok = number(text, v.f);
      break;
    case PLAIT_OPT_TEXT:
      v.text = text.size() >= 2 ? text.substr(1, text.size() - 2) : text;
      break;
    default:
      for (text.remove_prefix(1); ok && !text.empty() && text.front() != ']';) {
        int64_t i = 0;
        ok = number(text, i);
        v.ints.push_back(i);
        while (!text.empty() && (text.front() == ',' || text.front() == ' ')) text.remove_prefix(1);
      }
  }
  if (!ok) throw Invalid(std::string("attribute '") + decl.name + "' has a malformed default");
  return v;
}

std::string fault_of(const plait_option& decl, const AttrValue& value) {
  if (decl.type == PLAIT_OPT_TEXT && decl.choices && !is_choice(decl.choices, value.text)) {
    std::string list = decl.choices;
    for (size_t at = 0; (at = list.find('|', at)) != std::string::npos;) list.replace(at, 1, ", ");
    return "'" + value.text + "' is none of " + list;
  }
  if (decl.type == PLAIT_OPT_INT) return beyond(decl, static_cast<double>(value.i));
  if (decl.type == PLAIT_OPT_REAL) return beyond(decl, value.f);
  for (const int64_t i : value.ints)
    if (std::string what = beyond(decl, static_cast<double>(i)); !what.empty()) return what;
  return {};
}

AttrValue AttrReader::value(std::string_view name, uint32_t type) const {
  const plait_option* decl = nullptr;
  for (const plait_option& one : decls_)
    if (name == one.name) decl = &one;
  if (!decl || decl->type != type)
    throw Invalid("attribute '" + std::string(name) + "' is not declared as " +
                  attr_type_name(type));
  for (uint32_t k = 0; k < d_.n_attrs; ++k) {
    const plait_attr& a = d_.attrs[k];
    if (name != a.name) continue;
    const bool counts = type == PLAIT_OPT_REAL && a.type == PLAIT_OPT_INT;
    if (a.type != type && !counts)
      throw Invalid("attribute '" + std::string(name) + "' is " + attr_type_name(a.type) +
                    ", expected " + attr_type_name(type));
    AttrValue v{a.i, counts ? static_cast<double>(a.i) : a.f, a.text ? a.text : "", {}};
    if (type == PLAIT_OPT_INTS) v.ints.assign(a.ints, a.ints + a.n);
    if (const std::string what = fault_of(*decl, v); !what.empty())
      throw Invalid(std::string(name) + " " + what);
    return v;
  }
  return default_of(*decl);
}

void need_operands(const plait_op_desc& d, uint32_t inputs, uint32_t outputs) {
  need(d.n_inputs == inputs,
       "takes " + std::to_string(inputs) + " inputs, found " + std::to_string(d.n_inputs));
  need(!has_outputs(d) || d.n_outputs == outputs,
       "has " + std::to_string(outputs) + " outputs, found " + std::to_string(d.n_outputs));
  const auto check = [](const plait_shape& s) {
    need(dtype_bytes(s.dtype) != 0 && s.ndim <= PLAIT_MAX_NDIM, "malformed shape");
    for (uint32_t i = 0; i < s.ndim; ++i) need(s.dims[i] >= 0, "negative extent in " + text(s));
    bytes(s);
  };
  for (uint32_t i = 0; i < inputs; ++i) check(d.inputs[i]);
  for (uint32_t i = 0; has_outputs(d) && i < outputs; ++i) check(d.outputs[i]);
}

void need_same(const plait_shape& a, const plait_shape& b) {
  need(same(a, b), "shapes differ: " + text(a) + " and " + text(b));
}
void need_floats(const plait_shape& s, const char* what) {
  need(is_float(s.dtype), std::string(what) + " needs floats, found " + text(s));
}
void need_index(const plait_shape& s, const char* what) {
  need(is_index(s.dtype), std::string(what) + " needs integer indices, found " + text(s));
}
void need_count(const plait_shape& s, int64_t n, const char* what) {
  need(elements(s) == n, std::string(what) + " has shape " + text(s) + ", expected " +
                             std::to_string(n) + " elements");
}
void need_n_floats(const plait_shape& s, int64_t n, const char* what) {
  need_floats(s, what);
  need_count(s, n, what);
}

}  // namespace plait::kit
