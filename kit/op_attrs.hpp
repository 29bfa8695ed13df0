// Attributes of ops: how they are declared, and how both sides read them. A declaration is a
// plait_option of type BOOL, INT, REAL, TEXT or INTS; its default is TOML text, nullptr: the
// attribute must be given.
#pragma once

#include <plait/op.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kit/option_decl.hpp"
#include "kit/shape.hpp"

namespace plait::kit {

using AttrDecls = std::span<const plait_option>;

// Of ops whose first result may have another float type than its operands.
inline constexpr plait_option kResultType =
    int_option("dtype", "0", "PLAIT_F32, ...: the type of y; 0: as the definition says");

// One value, of the type that a declaration names.
struct AttrValue {
  int64_t i = 0;  // of BOOL and INT
  double f = 0;
  std::string text;
  std::vector<int64_t> ints;
};

const char* attr_type_name(uint32_t type);  // "bool", "int", ...
// The declared default. Throws Invalid when the attribute must be given.
AttrValue default_of(const plait_option& decl);
// Refuses a value that is none of the choices or beyond the bounds: what is wrong, empty when
// nothing is.
std::string fault_of(const plait_option& decl, const AttrValue& value);

// The attributes of one op, defaults filled in. The desc and the declarations outlive it.
class AttrReader {
 public:
  AttrReader(const plait_op_desc& d, AttrDecls decls) : d_(d), decls_(decls) {}
  bool flag(std::string_view name) const { return value(name, PLAIT_OPT_BOOL).i != 0; }
  int64_t integer(std::string_view name) const { return value(name, PLAIT_OPT_INT).i; }
  double real(std::string_view name) const { return value(name, PLAIT_OPT_REAL).f; }
  std::string text(std::string_view name) const { return value(name, PLAIT_OPT_TEXT).text; }
  std::vector<int64_t> ints(std::string_view name) const {
    return value(name, PLAIT_OPT_INTS).ints;
  }

 private:
  AttrValue value(std::string_view name, uint32_t type) const;
  const plait_op_desc& d_;
  AttrDecls decls_;
};

// Throws Invalid(what) unless ok.
inline void need(bool ok, const std::string& what) {
  if (!ok) throw Invalid(what);
}
// While shapes are being inferred a desc has no outputs: what is checked of them is left out then.
inline bool has_outputs(const plait_op_desc& d) { return d.outputs != nullptr; }
// The number of inputs and outputs, and that their shapes are sound.
void need_operands(const plait_op_desc& d, uint32_t inputs, uint32_t outputs);
void need_same(const plait_shape& a, const plait_shape& b);
void need_floats(const plait_shape& s, const char* what);
void need_index(const plait_shape& s, const char* what);
void need_count(const plait_shape& s, int64_t n, const char* what);
// n floats of any type: a result whose dims the engine chooses.
void need_n_floats(const plait_shape& s, int64_t n, const char* what);

}  // namespace plait::kit
