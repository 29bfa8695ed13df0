#include "engine/plan/field_texts.hpp"

#include <charconv>
#include <iterator>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/shape.hpp"
#include "kit/dtype.hpp"

namespace plait::plan {
namespace {

constexpr const char* kRoles[] = {"", "input", "target", "weight"};  // by PLAIT_FIELD_*

uint32_t role_named(const std::string& name) {
  for (uint32_t role = PLAIT_FIELD_INPUT; role < std::size(kRoles); ++role)
    if (name == kRoles[role]) return role;
  return 0;
}

// "[28,28]", "[]". False: it is none.
bool read_extents(const std::string& text, program::Dims& dims) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  const std::string inside = text.substr(1, text.size() - 2);
  if (inside.empty()) return true;
  for (const std::string& one : split(inside, ',')) {
    int64_t extent = 0;
    const char* end = one.data() + one.size();
    const auto [at, fault] = std::from_chars(one.data(), end, extent);
    if (fault != std::errc() || at != end || extent < 0) return false;
    dims.push_back(extent);
  }
  return dims.size() < PLAIT_MAX_NDIM;
}

}  // namespace

std::string field_text(const plait_field& field) {
  std::string extents;
  for (uint32_t d = 0; d < field.shape.ndim; ++d)
    extents += (d ? "," : "") + std::to_string(field.shape.dims[d]);
  return std::string(field.name) + ": " + kRoles[field.role] + " " +
         kit::dtype_name(field.shape.dtype) + " [" + extents + "]";
}

ParsedField parse_field(const std::string& text) {
  ParsedField parsed;
  program::Dims dims;
  const size_t colon = text.rfind(": ");
  if (colon != std::string::npos && colon > 0) {
    const std::vector<std::string> words = split(text.substr(colon + 2), ' ');
    const uint32_t role = words.size() == 3 ? role_named(words[0]) : 0,
                   dtype = words.size() == 3 ? kit::dtype_named(words[1]) : 0;
    if (role != 0 && dtype != 0 && read_extents(words[2], dims)) {
      parsed.name = text.substr(0, colon);
      parsed.field.role = role;
      parsed.field.shape = program::make_shape(dtype, dims);
      return parsed;
    }
  }
  fail_config("[data] found \"" + printable(text) +
              "\", expected a field as \"x: input f32 [28,28]\": name, input, target or weight, "
              "type, and shape of a sample");
}

}  // namespace plait::plan
