// The text form of programs on arbitrary bytes: what is no program is an error; what is one prints
// to a text that reads back as itself, and every check of it comes to an end.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/program/text/parse.hpp"
#include "engine/program/text/print.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

std::vector<ParsedProgram> read(std::string_view text, const OpRegistry& ops) {
  try {
    return parse(text, ops, "fuzz");
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_INVALID || !e.text().starts_with("[program] fuzz:")) {
      std::fprintf(stderr, "%s\n", e.full_text().c_str());
      std::abort();
    }
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const GraphFixture fixture;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const ParsedProgram& p : read(text, fixture.ops)) {
    const std::string printed = print(*p.graph, {.name = p.name});
    const auto again = read(printed, fixture.ops);
    if (again.size() != 1 || print(*again[0].graph, {.name = again[0].name}) != printed) {
      std::fprintf(stderr, "%s\n---\n%s\n", printed.c_str(),
                   again.empty() ? "" : print(*again[0].graph).c_str());
      std::abort();
    }
    find_fault(*p.graph);
  }
  return 0;
}
