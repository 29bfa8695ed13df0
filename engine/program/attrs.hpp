// Attributes of an op, by name.
#pragma once

#include <plait/op.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace plait::program {

// One attribute; the type is a PLAIT_OPT_* constant.
struct Attr {
  std::string name;
  uint32_t type = PLAIT_OPT_INT;
  int64_t i = 0;
  double f = 0;
  std::string text;
  std::vector<int64_t> ints;
};

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<Attr> list) : list_(list) {}
  static Attrs copy(const plait_attr* attrs, uint32_t n, const std::string& where = "[program]");
  const Attr* find(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  const std::vector<int64_t>& ints(std::string_view name) const;  // empty when absent
  void set(Attr a);
  const std::vector<Attr>& all() const { return list_; }
  std::string key() const;  // equal attributes, equal keys

 private:
  std::vector<Attr> list_;
};

Attr attr(std::string name, int64_t v);
Attr attr(std::string name, bool v);
Attr attr(std::string name, double v);
Attr attr(std::string name, std::string text);
Attr attr(std::string name, std::vector<int64_t> v);

}  // namespace plait::program
