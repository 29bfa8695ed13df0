#include "engine/runtime/control/rendezvous.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {
namespace {

constexpr std::string_view kFilePrefix = "file:";
constexpr std::string_view kFirstLine = "plait rendezvous 1";
constexpr int32_t kMaxRanks = 65536;

// "HOST:PORT", "[V6]:PORT".
bool parse_address(std::string_view text, std::string& host, uint16_t& port) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view name = text.substr(0, colon);
  const std::string_view number = text.substr(colon + 1);
  if (name.front() == '[' && name.back() == ']')
    name = name.substr(1, name.size() - 2);
  else if (name.find(':') != std::string_view::npos)
    return false;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
  if (name.empty() || error != std::errc() || end != number.data() + number.size() || port == 0)
    return false;
  host = name;
  return true;
}

bool is_duration(double seconds) { return std::isfinite(seconds) && seconds > 0; }

}  // namespace

Rendezvous parse_rendezvous(const Job& job) {
  if (job.size < 1 || job.size > kMaxRanks || job.rank < 0 || job.rank >= job.size)
    fail_invalid(strf("[control] rank %d of %d is invalid; a rank is at least 0 and below the size",
                      job.rank, job.size));
  if (!is_duration(job.timeout) || !is_duration(job.connect_timeout))
    fail_invalid("[control] timeout and connect_timeout must be more than 0 seconds");
  Rendezvous rendezvous;
  rendezvous.text = job.rendezvous;
  if (job.size == 1) return rendezvous;
  if (job.rendezvous.empty())
    fail_invalid(
        strf("[control] the %d ranks of the job have no rendezvous; set HOST:PORT or file:PATH",
             job.size));
  if (starts_with(job.rendezvous, kFilePrefix)) {
    rendezvous.path = job.rendezvous.substr(kFilePrefix.size());
    if (rendezvous.path.empty() || rendezvous.path.back() == '/')
      fail_invalid("[control] the rendezvous '" + job.rendezvous + "' names no file");
    return rendezvous;
  }
  if (!parse_address(job.rendezvous, rendezvous.host, rendezvous.port))
    fail_invalid("[control] the rendezvous '" + job.rendezvous +
                 "' is neither HOST:PORT nor file:PATH");
  if (job.secret.size() < kMinSecret)
    fail_invalid(
        strf("[control] the rendezvous %s has a secret of %zu bytes, expected at least %zu that "
             "are hard to "
             "guess; or use a file, which contains its own secret",
             job.rendezvous.c_str(), job.secret.size(), kMinSecret));
  return rendezvous;
}

std::string encode(const JoinInfo& join_info) {
  std::string text = std::string(kFirstLine) + "\naddress " +
                     host_and_port(join_info.host, join_info.port) + "\nrun " + hex(join_info.run) +
                     "\nsecret ";
  // In place, so that growth leaves no part of the secret behind.
  std::string secret = hex(join_info.secret);
  const kit::WipeAtEnd wipe(secret);
  text.reserve(text.size() + secret.size() + 1);
  text += secret;
  text += '\n';
  return text;
}

JoinInfo decode_join_info(const std::string& path, const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  lines.resize(std::max<size_t>(lines.size(), 4));
  const kit::WipeAtEnd wipe_line(lines[3]);
  JoinInfo found;
  const auto value = [&](size_t line, std::string_view name) {
    return starts_with(lines[line], name) ? lines[line].substr(name.size()) : "";
  };
  found.run = unhex(value(2, "run "));
  std::string digits = value(3, "secret "), secret = unhex(digits);
  const kit::WipeAtEnd wipe_digits(digits), wipe_secret(secret);
  found.secret = secret;
  if (lines[0] != kFirstLine || !parse_address(value(1, "address "), found.host, found.port) ||
      found.run.size() != kRunSize || found.secret.size() != kSecretSize)
    fail_data("[control] " + path + " is not a rendezvous file");
  return found;
}

}  // namespace plait::runtime::control
