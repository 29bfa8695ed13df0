#include "bindings/cli/sweep/trial.hpp"

#include <algorithm>

#include "bindings/cli/sweep/outcome.hpp"

namespace plait::cli {

bool Trial::knows(const std::string& name) const {
  return std::any_of(run.values.begin(), run.values.end(),
                     [&](const auto& value) { return value.first == name; });
}

std::string Trial::state() const {
  if (failed()) return "failed";
  if (dropped) return kDropped;
  if (run.state != "unknown") return run.state;
  return stopped || code == kInterrupted ? "interrupted" : "not started";
}

std::string Trial::reason() const {
  if (!failed()) return "";
  if (code > 128) return strf("killed by signal %d", code - 128);
  const std::string said = last_error(log);
  if (!said.empty()) return said;
  if (!run.message.empty()) return plain(run.message);
  return run.state == "lost" ? "its process has ended without recording why"
                             : strf("exit code %d", code);
}

}  // namespace plait::cli
