#include "bindings/cli/replaced.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

CliError exists(const std::string& verb, const std::string& path, const std::string& what_to_do) {
  return {kUsage, "[" + verb + "] '" + path + "' exists; " + what_to_do};
}

}  // namespace

void check_replaced(const Context& context, const std::string& verb, const std::string& path) {
  std::error_code ignored;
  if (path != "-" && !context.yes && fs::is_regular_file(path, ignored))
    throw exists(verb, path, "choose another name, or replace it with --yes");
}

void check_output(const Context& context, const std::string& verb, const std::string& option,
                  const std::string& path) {
  check_replaced(context, verb, path);
  if (path == "-" && context.terminal.json) throw both_print(verb, option + " -", "--json");
}

CliError both_print(const std::string& verb, const std::string& one, const std::string& other) {
  return {kUsage, "[" + verb + "] " + one + " and " + other +
                      " would both write to standard output; name a file, or leave one of them "
                      "out"};
}

Replaced::Replaced(const Context& context, std::string verb, const std::string& path, When when)
    : path_(path) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (path_.empty()) throw CliError(kUsage, "[" + verb + "] the name of the result is empty");
  if (!is_there(path_)) return;
  std::error_code ignored;
  if (fs::is_directory(path_, ignored) && !fs::is_empty(path_, ignored))
    throw exists(verb, path_,
                 "choose another name, or remove this folder: --yes replaces files alone");
  if (!context.yes) throw exists(verb, path_, "choose another name, or replace it with --yes");
  if (when == kLook) return;
  const fs::path at(path_);
  aside_ = (at.parent_path() / ("." + at.filename().string() + ".replaced-")).string() +
           std::to_string(getpid());
  std::error_code reason;
  fs::rename(path_, aside_, reason);
  if (!reason) return;
  aside_.clear();
  throw CliError(kEnvironment,
                 "[" + verb + "] '" + path_ + "' cannot be replaced: " + reason.message());
}

Replaced::~Replaced() {
  if (aside_.empty()) return;
  std::error_code ignored;
  if (!is_there(path_)) fs::rename(aside_, path_, ignored);
}

void Replaced::done() {
  std::error_code ignored;
  if (!aside_.empty()) fs::remove_all(aside_, ignored);
  aside_.clear();
}

}  // namespace plait::cli
