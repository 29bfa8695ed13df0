// Declarations of the engine's own keys: the option, the field that receives its value, and what it
// means to a job and to a resumed run.
#pragma once

#include <plait/option.h>

#include <cstdint>
#include <span>
#include <type_traits>

#include "engine/config/option_set.hpp"
#include "engine/config/option_view.hpp"

namespace plait::config {

enum class KeyRole : uint32_t {
  kAgreed,  // all ranks must have the same value
  kResult,  // the same, and it decides the result: checkpoints record it, a resumed run compares it
  kPerRank,  // ranks may differ: folders, display, threads of a machine
};

namespace detail {

// Its address marks the engine's own declarations: an option of an item cannot contain it.
inline constexpr char kOwnKey = 0;

}  // namespace detail

// The part of a key that is the same for all tables.
struct KeyDeclaration {
  plait_option option;  // struct_size is the size of the whole Key, the stride of an OptionView
  KeyRole role;
  const char* mark;  // &detail::kOwnKey
};

// One key of a table that is read into a C.
template <class C>
struct Key {
  KeyDeclaration declaration;
  void (*assign)(C& to, const OptionValue& value);
};

namespace detail {

template <class T>
void assign(T& to, const OptionValue& value) {
  if constexpr (std::is_same_v<T, bool>)
    to = value.integer != 0;
  else if constexpr (std::is_integral_v<T>)
    to = value.integer;
  else if constexpr (std::is_floating_point_v<T>)
    to = value.real;
  else if constexpr (std::is_same_v<T, std::string>)
    to = value.text;
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
    to = value.integers;
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    to = value.reals;
  else
    to = value.texts;
}

template <class T>
constexpr bool fits(uint32_t type) {
  if (std::is_same_v<T, bool>) return type == PLAIT_OPT_BOOL;
  if (std::is_same_v<T, int64_t>) return type == PLAIT_OPT_INT;
  if (std::is_same_v<T, double>) return type == PLAIT_OPT_REAL;
  if (std::is_same_v<T, std::string>) return type == PLAIT_OPT_TEXT || type == PLAIT_OPT_PATH;
  if (std::is_same_v<T, std::vector<int64_t>>) return type == PLAIT_OPT_INTS;
  if (std::is_same_v<T, std::vector<double>>) return type == PLAIT_OPT_REALS;
  if (std::is_same_v<T, std::vector<std::string>>) return type == PLAIT_OPT_TEXTS;
  return false;
}

template <class M>
struct MemberPointer;
template <class T, class C>
struct MemberPointer<T C::*> {
  using Member = T;
  using Class = C;
};

}  // namespace detail

// `Field` is a member pointer. C: the struct that the table is read into, if the field belongs to a
// base of it. Does not compile (a throw in a constant expression) where type and field disagree.
template <auto Field, class C = typename detail::MemberPointer<decltype(Field)>::Class>
consteval Key<C> key(plait_option option, KeyRole role = KeyRole::kAgreed) {
  if (!detail::fits<typename detail::MemberPointer<decltype(Field)>::Member>(option.type))
    throw "the field's type is not the option's";
  option.struct_size = sizeof(Key<C>);
  return {{option, role, &detail::kOwnKey},
          [](C& to, const OptionValue& value) { detail::assign(to.*Field, value); }};
}

// The keys of one table of an experiment.
template <class C>
struct KeyTable {
  std::span<const Key<C>> keys;

  operator OptionView() const {  // NOLINT(google-explicit-constructor): a table is a view
    return {&keys[0].declaration.option, static_cast<uint32_t>(keys.size())};
  }
  // Writes the values into the fields. `values` was checked against this table.
  void read(const OptionSet& values, C& to) const {
    for (const Key<C>& k : keys)
      if (const OptionValue* value = values.find(k.declaration.option.name)) k.assign(to, *value);
  }
};

template <class C, size_t N>
constexpr KeyTable<C> table_of(const Key<C> (&keys)[N]) {
  return {keys};
}

}  // namespace plait::config
