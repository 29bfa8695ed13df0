#include "bindings/cli/replaced.hpp"

#include <unistd.h>

#include <algorithm>
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

bool is_inside(const std::string& path, const std::string& folder) {
  std::error_code ignored;
  const fs::path below = fs::weakly_canonical(path, ignored);
  const fs::path above = fs::weakly_canonical(folder, ignored);
  return std::mismatch(above.begin(), above.end(), below.begin(), below.end()).first == above.end();
}

}  // namespace

void check_replaced(const Context& context, const std::string& verb, const std::string& path) {
  std::error_code ignored;
  if (!context.yes && fs::is_regular_file(path, ignored))
    throw exists(verb, path, "choose another name, or replace it with --yes");
}

Replaced::Replaced(const Context& context, std::string verb, const std::string& path,
                   std::initializer_list<const char*> marks, const std::string& source, When when)
    : path_(path) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  if (path_.empty()) throw CliError(kUsage, "[" + verb + "] the name of the result is empty");
  if (!is_there(path_)) return;
  std::error_code ignored;
  if (!context.yes) throw exists(verb, path_, "choose another name, or replace it with --yes");
  if (fs::is_directory(path_, ignored)) {
    const bool ours = std::any_of(marks.begin(), marks.end(), [&](const char* name) {
      return fs::exists(fs::path(path_) / name, ignored);
    });
    if (!ours)
      throw exists(verb, path_,
                   "--yes replaces only what plait " + verb +
                       " has made, and this folder has other files; choose another name");
    if (is_inside(source, path_))
      throw exists(verb, path_, "it holds '" + source + "', which is read; choose another name");
  }
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
