// conformance [doctest options] [--reference=<plugin>] [--op=<names>] [--small] [--bounds]
//             [--slowest] [<plugin>...]
//
// Runs the cases on the device of each plugin, against the device of the reference plugin. Without
// names: those of the build. --op=a,b: the cases of these ops alone; --op=-a,-b: of all others.
// --small: without the cases whose size is for the caches of a processor.
// --bounds: for a sanitizer (or compute-sanitizer), which reports an access outside of memory:
// buffers end where their data ends, and a kernel runs once for each number of threads.
// --slowest: which cases took a processor longest.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <exception>

#include "tests/conformance/case.hpp"
#include "tests/conformance/host.hpp"
#include "tests/conformance/slowest.hpp"

int main(int argc, char** argv) {
  std::string reference = CONFORMANCE_REFERENCE;
  std::vector<std::string> others;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a.starts_with("--reference="))
      reference = a.substr(12);
    else if (a.starts_with("--op="))
      conformance::choose_ops(a.substr(5));
    else if (a == "--small")
      conformance::leave_out_large();
    else if (a == "--bounds")
      conformance::set_bounds();
    else if (a == "--slowest")
      conformance::slowest().asked = true;
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
  conformance::slowest().print();
  conformance::unload_plugins();
  return failed;
}
