// Weights of labels in the loss, from the line of a file to the number.
#include "tests/unit/host_data/datasets.hpp"

namespace {

// Loss of the first step on the lines, all in one batch.
double loss_of(const std::string& lines, int n, bool weights) {
  const host::TempFolder folder;
  host::write(folder / "d.jsonl", lines);
  const std::string toml =
      "[run]\nsteps = 1\n[precision]\ncompute = \"f64\"\n[batch]\nglobal = " + std::to_string(n) +
      "\n[data.train]\ntype = \"fine_tune\"\ntokenizer = {type = \"bytes\"}\nlength = 8\n"
      "files = \"" +
      (folder / "d.jsonl") + "\"\nweights = " + (weights ? "true" : "false") +
      "\n[[model.layers]]\ntype = \"embedding\"\nvocabulary = 257\nwidth = 4\nfrom = \"tokens\"\n"
      "[[model.layers]]\ntype = \"linear\"\nout = 257\nas = \"logits\"\n[loss]\n"
      "type = \"cross_entropy\"\nfrom = [\"logits\", \"labels\"" +
      (weights ? ", \"weights\"" : "") + "]\n[optimizer]\ntype = \"adamw\"\n";
  return host::Run(toml).step().loss;
}

std::string line(const std::string& completion, const std::string& weight) {
  return R"({"prompt": "p", "completion": ")" + completion + "\"" +
         (weight.empty() ? "" : ", \"weight\": " + weight) + "}\n";
}

}  // namespace

TEST_CASE("a loss is the mean over labels by their weights") {
  const double a = loss_of(line("ab", ""), 1, false), b = loss_of(line("wxyz", ""), 1, false);
  CHECK(a != doctest::Approx(b).epsilon(1e-9));
  // 3 and 5 labels, with the end of each text.
  const auto mean = [&](double wa, double wb) {
    return (3 * wa * a + 5 * wb * b) / (3 * wa + 5 * wb);
  };
  const auto both = [](const std::string& wa, const std::string& wb, bool weights) {
    return loss_of(line("ab", wa) + line("wxyz", wb), 2, weights);
  };
  CHECK(both("", "", false) == doctest::Approx(mean(1, 1)).epsilon(1e-12));
  CHECK(both("", "", true) == doctest::Approx(mean(1, 1)).epsilon(1e-12));
  CHECK(both("2.5", "2.5", true) == doctest::Approx(mean(1, 1)).epsilon(1e-12));
  CHECK(both("0.5", "3", true) == doctest::Approx(mean(0.5, 3)).epsilon(1e-12));
}
