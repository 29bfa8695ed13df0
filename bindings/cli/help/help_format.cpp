#include "bindings/cli/help/help_format.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>

#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/definitions.hpp"

namespace plait::cli {
namespace {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat(int columns, bool utf8) : columns_(columns), utf8_(utf8) {}

  std::string make_description(const CLI::App* app) const override {
    return fitted(Formatter::make_description(app));
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return fitted(Formatter::make_usage(app, std::move(name)));
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = make_option_desc(option);
    if (const std::string value = option->get_default_str(); !value.empty())
      text += "; default: " + value;
    for (const CLI::Option* other : option->get_needs()) text += "; only with " + other->get_name();
    return row(make_option_name(option, is_positional) + make_option_opts(option), text);
  }
  // Without the names that CLI11 has for types and checks.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || is_named_words(option)) return "";
    std::string text = type_of(option);
    if (option->nonpositional() && !text.empty()) text = " " + text;
    if (!option->nonpositional()) text.clear();  // its name says what it is
    if (option->get_items_expected_max() > 1 && !option->nonpositional()) text += " ...";
    return text;
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    return is_named_words(option) ? make_option_name(option, true)
                                  : Formatter::make_option_usage(option);
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return row(verb->get_display_name(true), verb->get_description());
  }
  // Examples, which are indented, are commands: they stay some where they are broken.
  std::string make_footer(const CLI::App* app) const override {
    std::istringstream lines(Formatter::make_footer(app));
    std::string all;
    for (std::string line; std::getline(lines, line);)
      all += (line.starts_with("  ") ? command(line) : fitted(line)) + "\n";
    return all;
  }

 private:
  static bool is_named_words(const CLI::Option* option) {
    return option->get_positional() && option->get_required() &&
           option->get_name(true).find(' ') != std::string::npos;
  }
  // "N", "DIR", "auto|never|must".
  static std::string type_of(const CLI::Option* option) {
    const std::string all = option->get_type_name();
    std::string type = all.substr(0, all.find(':'));
    const bool is_number = type == "INT" || type == "UINT" || type == "FLOAT";
    if (const size_t begin = all.find(":{"); type == "TEXT" && begin != all.npos) {
      type = all.substr(begin + 2, all.find('}', begin) - begin - 2);
      std::replace(type.begin(), type.end(), ',', '|');
    }
    return is_number ? "N" : type;
  }
  std::string fitted(const std::string& text) const { return wrapped(text, columns_, utf8_); }
  std::string row(const std::string& name, const std::string& text) const {
    return definition(name, text, static_cast<int>(get_column_width()), columns_, utf8_);
  }
  std::string command(const std::string& line) const {
    constexpr const char* kContinues = " \\";
    std::string all = wrapped(line, columns_ > 0 ? columns_ - 2 : 0, utf8_);
    for (size_t at = all.find('\n'); at != std::string::npos; at = all.find('\n', at + 3))
      all.insert(at, kContinues);
    return all;
  }

  int columns_;
  bool utf8_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format(int columns, bool utf8) {
  return std::make_shared<HelpFormat>(columns, utf8);
}

}  // namespace plait::cli
