#include "tests/unit/support/fake_host.hpp"

namespace plait::fake {
namespace {

std::string unquoted(const std::string& toml) {
  if (toml.size() < 2 || toml.front() != '"' || toml.back() != '"')
    throw std::invalid_argument("no TOML text: " + toml);
  return toml.substr(1, toml.size() - 2);
}

// Splits "[a, b]" into its elements. Elements contain no commas here.
std::vector<std::string> elements(const std::string& toml) {
  if (toml.size() < 2 || toml.front() != '[' || toml.back() != ']')
    throw std::invalid_argument("no TOML list: " + toml);
  std::vector<std::string> all;
  std::string one;
  for (const char c : toml.substr(1, toml.size() - 2)) {
    if (c == ',') {
      all.push_back(std::exchange(one, ""));
    } else if (c != ' ') {
      one += c;
    }
  }
  if (!one.empty()) all.push_back(one);
  return all;
}

double number(const std::string& toml) {
  size_t used = 0;
  const double v = std::stod(toml, &used);
  if (used != toml.size()) throw std::invalid_argument("no TOML number: " + toml);
  return v;
}

}  // namespace

Options::Options(const plait_option* declared, uint32_t n, const Given& given) {
  base_.table = table();
  Given rest = given;
  for (uint32_t i = 0; i < n; ++i) {
    const plait_option& o = declared[i];
    const auto g = rest.find(o.name);
    if (g == rest.end() && !o.default_value)
      throw std::invalid_argument(std::string("missing option ") + o.name);
    values_[o.name] = parse(o, g == rest.end() ? o.default_value : g->second);
    if (g != rest.end()) rest.erase(g);
  }
  if (!rest.empty()) throw std::invalid_argument("unknown option " + rest.begin()->first);
}

void Options::check_range(const plait_option& o, double v) {
  const bool low = (o.flags & PLAIT_OPT_HAS_MIN) &&
                   (v < o.min || (v == o.min && (o.flags & PLAIT_OPT_MIN_EXCLUSIVE)));
  const bool high = (o.flags & PLAIT_OPT_HAS_MAX) &&
                    (v > o.max || (v == o.max && (o.flags & PLAIT_OPT_MAX_EXCLUSIVE)));
  if (low || high) throw std::invalid_argument(std::string("out of range: ") + o.name);
}

Options::Value Options::parse(const plait_option& o, const std::string& toml) {
  Value v;
  v.type = o.type;
  switch (o.type) {
    case PLAIT_OPT_BOOL:
      if (toml != "true" && toml != "false") throw std::invalid_argument("no TOML bool: " + toml);
      v.i = toml == "true";
      break;
    case PLAIT_OPT_INT:
      v.i = std::stoll(toml);
      check_range(o, static_cast<double>(v.i));
      break;
    case PLAIT_OPT_REAL:
      v.f = number(toml);
      check_range(o, v.f);
      break;
    case PLAIT_OPT_TEXT:
    case PLAIT_OPT_PATH:
      v.text = toml == "true" || toml == "false" ? toml : unquoted(toml);
      if (o.choices &&
          ("|" + std::string(o.choices) + "|").find("|" + v.text + "|") == std::string::npos)
        throw std::invalid_argument(std::string("unknown choice for ") + o.name + ": " + v.text);
      break;
    case PLAIT_OPT_INTS:
    case PLAIT_OPT_REALS:
      for (const auto& e : elements(toml)) {
        v.ints.push_back(static_cast<int64_t>(number(e)));
        v.reals.push_back(number(e));
        check_range(o, v.reals.back());
      }
      break;
    case PLAIT_OPT_TEXTS:
      for (const auto& e : elements(toml)) v.texts.push_back(unquoted(e));
      break;
    default:
      throw std::invalid_argument("unknown option type");
  }
  return v;
}

const Options::Value& Options::get(const plait_options* o, const char* name, uint32_t type) {
  const auto& values = reinterpret_cast<const Options*>(o)->values_;  // base_ is the first member
  const auto i = values.find(name);
  if (i == values.end())
    throw std::logic_error(std::string("the plugin asks for an undeclared option ") + name);
  const bool path = i->second.type == PLAIT_OPT_PATH && type == PLAIT_OPT_TEXT;
  if (i->second.type != type && !path)
    throw std::logic_error(std::string("the plugin asks for the wrong type of ") + name);
  return i->second;
}

const plait_options_table* Options::table() {
  static const plait_options_table table = {
      sizeof(plait_options_table),
      [](const plait_options* o, const char* name, uint32_t* out) -> plait_error* {
        *out = static_cast<uint32_t>(get(o, name, PLAIT_OPT_BOOL).i);
        return nullptr;
      },
      [](const plait_options* o, const char* name, int64_t* out) -> plait_error* {
        *out = get(o, name, PLAIT_OPT_INT).i;
        return nullptr;
      },
      [](const plait_options* o, const char* name, double* out) -> plait_error* {
        *out = get(o, name, PLAIT_OPT_REAL).f;
        return nullptr;
      },
      [](const plait_options* o, const char* name, const char** out,
         uint64_t* size) -> plait_error* {
        const std::string& text = get(o, name, PLAIT_OPT_TEXT).text;
        *out = text.c_str();
        *size = text.size();
        return nullptr;
      },
      [](const plait_options* o, const char* name, const int64_t** out,
         uint64_t* n) -> plait_error* {
        const auto& ints = get(o, name, PLAIT_OPT_INTS).ints;
        *out = ints.data();
        *n = ints.size();
        return nullptr;
      },
      [](const plait_options* o, const char* name, const double** out,
         uint64_t* n) -> plait_error* {
        const auto& reals = get(o, name, PLAIT_OPT_REALS).reals;
        *out = reals.data();
        *n = reals.size();
        return nullptr;
      },
      [](const plait_options* o, const char* name, uint64_t i, const char** out, uint64_t* size,
         uint64_t* n) -> plait_error* {
        const auto& texts = get(o, name, PLAIT_OPT_TEXTS).texts;
        *n = texts.size();
        *out = i < texts.size() ? texts[i].c_str() : nullptr;
        *size = i < texts.size() ? texts[i].size() : 0;
        return nullptr;
      },
      [](const plait_options*, const char*) -> const char* { return "experiment.toml:7:1"; },
      // No option of these tests is an item.
      [](const plait_options*, const char* name, uint64_t, const char**, const plait_options**,
         uint64_t*) -> plait_error* {
        throw std::logic_error(std::string("the plugin asks for items of ") + name);
      },
  };
  return &table;
}

}  // namespace plait::fake
