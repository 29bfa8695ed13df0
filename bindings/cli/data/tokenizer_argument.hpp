// A tokenizer as the command line names it.
#pragma once

#include <string>
#include <vector>

#include <plait/encode.hpp>

namespace plait::cli {

// Its type and options in TOML. given: a type, or a file that tells by its name which type reads
// it; options: KEY=VALUE. Errors: CliError.
std::string tokenizer_toml(const std::string& given, const std::vector<std::string>& options);
// Errors: HostError with a hint at types and options.
Tokenizer open_tokenizer(const Engine& engine, const std::string& toml);

}  // namespace plait::cli
