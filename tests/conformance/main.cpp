// conformance [doctest options] [--reference=<plugin>] [--op=<names>] [<plugin>...]
//
// Runs the cases on the device of each plugin, against the device of the reference plugin. Without
// names: those of the build. --op=a,b: the cases of these ops alone; --op=-a,-b: of all others.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <exception>

#include "tests/conformance/case.hpp"
#include "tests/conformance/host.hpp"

int main(int argc, char** argv) {
  std::string reference = CONFORMANCE_REFERENCE;
  std::vector<std::string> others;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a.starts_with("--reference="))
      reference = a.substr(12);
    else if (a.starts_with("--op="))
      conformance::choose_ops(a.substr(5));
    else if (a.ends_with(".so"))
      others.emplace_back(a);
  }
  if (others.empty()) others = {CONFORMANCE_REFERENCE, CONFORMANCE_CPU, CONFORMANCE_ASYNC};
  if (conformance::all_cases().empty()) {
    std::fprintf(stderr, "[conformance] no case is of the op that --op names\n");
    return 2;
  }
  try {
    conformance::load_plugins(reference, others);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[conformance] %s\n", e.what());
    return 2;
  }
  doctest::Context context(argc, argv);
  const int failed = context.run();
  conformance::unload_plugins();
  return failed;
}
