// The command line: parses arguments, runs one verb, turns every failure into a message on stderr
// and an exit code.
#pragma once

namespace plait::cli {

int run_app(int argc, char** argv);

}  // namespace plait::cli
