#include "engine/program/attrs.hpp"

#include <plait/option.h>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::program {

Attr attr(std::string name, int64_t v) { return {std::move(name), PLAIT_OPT_INT, v, 0, {}, {}}; }
Attr attr(std::string name, bool v) { return {std::move(name), PLAIT_OPT_BOOL, v, 0, {}, {}}; }
Attr attr(std::string name, double v) { return {std::move(name), PLAIT_OPT_REAL, 0, v, {}, {}}; }
Attr attr(std::string name, std::string t) {
  return {std::move(name), PLAIT_OPT_TEXT, 0, 0, std::move(t), {}};
}
Attr attr(std::string name, std::vector<int64_t> v) {
  return {std::move(name), PLAIT_OPT_INTS, 0, 0, {}, std::move(v)};
}

namespace {

// What is wrong with attribute k as it was written; "" if nothing is.
std::string fault_of(const plait_attr& a) {
  constexpr uint32_t kMost = 65536;
  if (a.type < PLAIT_OPT_BOOL || a.type > PLAIT_OPT_INTS)
    return strf("has type %u, which is none of PLAIT_OPT_BOOL to _INTS", a.type);
  if (a.type == PLAIT_OPT_TEXT && !a.text) return "is a text, but `text` is NULL";
  if (a.type != PLAIT_OPT_INTS) return "";
  if (a.n > kMost) return strf("has %u integers, expected at most %u", a.n, kMost);
  return a.n > 0 && !a.ints ? strf("has %u integers, but `ints` is NULL", a.n) : "";
}

}  // namespace

Attrs Attrs::copy(const plait_attr* attrs, uint32_t n, const std::string& where) {
  Attrs all;
  for (uint32_t k = 0; k < n; ++k) {
    const plait_attr& a = attrs[k];
    if (!a.name) fail_invalid(where + strf(" attribute %u is without a name", k));
    std::string fault = fault_of(a);
    if (fault.empty() && all.find(a.name)) fault = "is there twice";
    if (!fault.empty()) fail_invalid(where + " attribute '" + printable(a.name) + "' " + fault);
    Attr copy{a.name, a.type, a.i, a.f, a.type == PLAIT_OPT_TEXT ? a.text : "", {}};
    if (a.type == PLAIT_OPT_INTS) copy.ints.assign(a.ints, a.ints + a.n);
    all.set(std::move(copy));
  }
  return all;
}

const Attr* Attrs::find(std::string_view name) const {
  for (const Attr& a : list_)
    if (a.name == name) return &a;
  return nullptr;
}
int64_t Attrs::integer(std::string_view name, int64_t fallback) const {
  const Attr* a = find(name);
  return a ? a->i : fallback;
}
double Attrs::real(std::string_view name, double fallback) const {
  const Attr* a = find(name);
  return a ? (a->type == PLAIT_OPT_REAL ? a->f : static_cast<double>(a->i)) : fallback;
}
std::string Attrs::text(std::string_view name, std::string_view fallback) const {
  const Attr* a = find(name);
  return a ? a->text : std::string(fallback);
}
const std::vector<int64_t>& Attrs::ints(std::string_view name) const {
  static const std::vector<int64_t> kNone;
  const Attr* a = find(name);
  return a ? a->ints : kNone;
}
void Attrs::set(Attr a) {
  for (Attr& old : list_) {
    if (old.name == a.name) {
      old = std::move(a);
      return;
    }
  }
  list_.push_back(std::move(a));
}
std::string Attrs::key() const {
  std::string k;
  for (const Attr& a : list_) {
    k += ";" + a.name + "=" + std::to_string(a.i) + "," + strf("%a", a.f) + "," + a.text;
    for (int64_t i : a.ints) k += "," + std::to_string(i);
  }
  return k;
}

}  // namespace plait::program
