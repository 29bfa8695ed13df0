// The TOML layer on arbitrary bytes: parsing, overrides, all checks, binding. An invalid text gives
// a list of problems; a valid one binds to a text that reads back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/config/bind.hpp"
#include "engine/config/document.hpp"
#include "engine/config/experiment.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const FakeCatalog catalog;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // What begins with a line break and '!' is an override, up to the next one.
  size_t mark = text.find("\n!");
  Problems problems;
  Document document = Document::parse(text.substr(0, mark), "fuzz.toml", problems);
  while (mark != std::string_view::npos) {
    const size_t begin = mark + 2;
    mark = text.find("\n!", begin);
    apply_override(document, text.substr(begin, mark - begin), problems);
  }
  const Experiment experiment = load_experiment(document, catalog, PathResolver(), problems);
  problems.json();
  problems.text();
  describe_json(experiment);
  if (!problems.empty()) return 0;

  const std::string bound = bind(experiment, catalog);
  Problems again;
  const Document second = Document::parse(bound, "bound.toml", again);
  const Experiment same = load_experiment(second, catalog, PathResolver(), again);
  if (!again.empty() || bind(same, catalog) != bound) {
    std::fprintf(stderr, "%s\n---\n%s\n---\n%s\n", again.text().c_str(), bound.c_str(),
                 again.empty() ? bind(same, catalog).c_str() : "");
    std::abort();
  }
  return 0;
}
