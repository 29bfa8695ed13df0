// An item given on the command line, a tokenizer or a format, as the TOML that the library reads.
#pragma once

#include <nlohmann/json.hpp>
#include <plait/plait.hpp>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// A text, number or list as TOML. Errors: CliError for a text that is not UTF-8.
std::string toml_value(const Json& value);

// type = "TYPE", and of each KEY=VALUE a line; a value that is no JSON is a text.
// Errors: CliError for an option without "=".
std::string item_toml(const std::string& type, const std::vector<std::string>& options);

// A message about that TOML, which the engine calls `document`: "document:2:1: " becomes "--option
// KEY: ", as the user gave it.
std::string with_options_named(std::string text, const std::string& document,
                               const std::string& toml);

// What `call` returns; its errors likewise. What a format does not support is a fault of what the
// command line names: PLAIT_ERR_CONFIG.
template <class Call>
auto naming_options(const std::string& document, const std::string& toml, Call&& call) {
  try {
    return call();
  } catch (const HostError& e) {
    const std::string text = e.what();
    const bool unsupported =
        e.code() == PLAIT_ERR_UNIMPLEMENTED && text.find("[" + document + ".") != text.npos;
    throw HostError(unsupported ? PLAIT_ERR_CONFIG : e.code(),
                    with_options_named(text, document, toml));
  }
}

}  // namespace plait::cli
