#include "bindings/cli/predictions/progress.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bindings/cli/context.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {

// Of one length whatever the numbers, so that they can be written in place, and the begin of a JSON
// object.
std::string head_of(const Reached& now) {
  return strf("{\"samples\": %20lld, \"bytes\": %20llu,\n\"subject\": ",
              static_cast<long long>(now.samples), static_cast<unsigned long long>(now.bytes));
}

// "settings/data.eval.path": where two objects differ first.
std::string first_difference(const Json& a, const Json& b) {
  const Json patch = Json::diff(a, b);
  std::string path = patch.empty() ? "" : patch.front().at("path").get<std::string>();
  return path.empty() ? path : path.substr(1);
}

std::string value_at(const Json& all, const std::string& path) {
  const auto at = Json::json_pointer("/" + path);
  return all.contains(at) ? all.at(at).dump() : "nothing";
}

}  // namespace

std::string progress_path(const std::string& path) { return partial_path(path) + ".json"; }

Reached left_of(const std::string& path, const Json& subject) {
  std::ifstream file(progress_path(path), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Json left = Json::parse(text, nullptr, false);
  struct stat now {};
  if (!left.is_object() || stat(partial_path(path).c_str(), &now) != 0) return {};
  const Reached reached{left.value("samples", int64_t{0}), left.value("bytes", uint64_t{0})};
  if (reached.samples <= 0 || static_cast<uint64_t>(now.st_size) < reached.bytes) return {};
  const Json before = left.value("subject", Json::object());
  const std::string other = first_difference(before, subject);
  if (!other.empty())
    throw CliError(kUsage, "[predict] " + partial_path(path) +
                               " has predictions of something else: " + other + " was " +
                               value_at(before, other) + ", is now " + value_at(subject, other) +
                               "; give the same arguments as before, or leave out --resume to "
                               "begin anew");
  return reached;
}

Progress::Progress(const std::string& path, const Json& subject, const Reached& from)
    : path_(progress_path(path)), worth_(from.samples > 0) {
  if (!worth_) unlink(path_.c_str());  // that of an earlier command with another subject
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  write(head_of(from) + subject.dump(-1, ' ', false, Json::error_handler_t::replace) + "}\n");
}

Progress::~Progress() {
  if (fd_ >= 0) close(fd_);
  if (!worth_) unlink(path_.c_str());
}

void Progress::reached(const Reached& now) {
  write(head_of(now));
  worth_ = true;
}

void Progress::write(const std::string& text) {
  if (fd_ >= 0 && pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
    return;
  throw CliError(kEnvironment, "[cli] cannot write '" + path_ + "': " + std::strerror(errno));
}

}  // namespace plait::cli
