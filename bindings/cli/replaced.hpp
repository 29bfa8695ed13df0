// Files that a command would replace: --yes allows it. A folder is never replaced, unless it is
// empty: nothing tells whether a run, a model or files of somebody else in it are needed.
#pragma once

#include <string>

#include "bindings/cli/context.hpp"

namespace plait::cli {

// Errors: CliError (kUsage) if there is a file at `path`, unless --yes is given. Pipes and devices
// are written to; "-" is standard output. verb: in messages.
void check_replaced(const Context& context, const std::string& verb, const std::string& path);
// The same of an option; its text and the lines of --json cannot both go to standard output.
void check_output(const Context& context, const std::string& verb, const std::string& option,
                  const std::string& path);
// Of two options, as they are given, both of which would write to standard output.
CliError both_print(const std::string& verb, const std::string& one, const std::string& other);

// A file or an empty folder is out of the way while a command makes another one in its place.
class Replaced {
 public:
  // Moves what is at `path` aside, if there is anything. Errors: CliError (kUsage) without --yes,
  // and for a folder that is not empty.
  enum When { kNow, kLook };  // kLook: for the errors alone, before long work
  Replaced(const Context& context, std::string verb, const std::string& path, When when = kNow);
  ~Replaced();  // puts it back, unless done() was called
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;
  void done();  // the new one is complete

 private:
  std::string path_, aside_;
};

}  // namespace plait::cli
