#include "bindings/cli/app.hpp"

int main(int argc, char** argv) { return plait::cli::run_app(argc, argv); }
