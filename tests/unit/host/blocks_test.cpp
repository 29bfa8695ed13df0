// Blocks of layers: what they read, and that they train as the same layers written out.
#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

namespace {

std::string model(const std::string& middle) {
  return small("",
               "[model]\nlayers = [{type = \"flatten\"}, {type = \"linear\", out = 16, as = "
               "[\"e\"]},\n" +
                   middle + "{type = \"linear\", out = 10}]\n");
}
const char* const kBlock =
    "{type = \"block\", name = \"p\", repeat = 2, layers = [\n"
    "  {type = \"layer_norm\", as = [\"n\"]},\n"
    "  {type = \"linear\", name = \"a\", out = 16},\n"
    "  {type = \"block\", name = \"q\", layers = [{type = \"gelu\"},\n"
    "    {type = \"mul\", from = [\"input\", \"n\"], as = [\"o\"]}]},\n"
    "  {type = \"add\", name = \"s\", from = [\"input\", \"q.o\"]}]},\n";

}  // namespace

TEST_CASE("a block trains as its layers do when they are written out") {
  const std::string written =
      "{type = \"layer_norm\", name = \"p0.layer_norm1\", as = [\"n\"]},\n"
      "{type = \"linear\", name = \"p0.a\", out = 16, as = [\"a\"]},\n"
      "{type = \"gelu\", name = \"p0.gelu\"},\n"
      "{type = \"mul\", name = \"p0.mul\", from = [\"a\", \"n\"], as = [\"m\"]},\n"
      "{type = \"add\", name = \"p0.s\", from = [\"e\", \"m\"], as = [\"o\"]},\n"
      "{type = \"layer_norm\", name = \"p1.layer_norm1\", as = [\"n\"]},\n"
      "{type = \"linear\", name = \"p1.a\", out = 16, as = [\"a\"]},\n"
      "{type = \"gelu\", name = \"p1.gelu\"},\n"
      "{type = \"mul\", name = \"p1.mul\", from = [\"a\", \"n\"], as = [\"m\"]},\n"
      "{type = \"add\", name = \"p1.s\", from = [\"p0.o\", \"m\"]},\n";
  const auto losses = Run(model(kBlock)).losses(20);
  CHECK(losses == Run(model(written)).losses(20));
  CHECK(losses.back() < losses.front());
}

TEST_CASE("`input` at the beginning of a model is the data, and elsewhere no value") {
  const std::string first =
      "[model]\nlayers = [{type = \"block\", name = \"p\", layers = [{type = \"flatten\", from = "
      "[\"input\"]}]}, {type = \"linear\", out = 10}]\n";
  CHECK(Run(small("", first)).losses(3).size() == 3);
  const host::Failure f =
      host::failure_of([] { const Run run(model("{type = \"relu\", from = [\"input\"]},\n")); });
  CHECK(f.code == PLAIT_ERR_CONFIG);
  CHECK_MESSAGE(f.text.find("there is no value 'input' at this point") != std::string::npos,
                f.text);
}

TEST_CASE("`from` takes a layer's name for its output; names given by `as` and fields come first") {
  const std::string rest = "{type = \"linear\", name = \"b\", out = 16},\n";
  const auto sum = [](const char* from) {
    return std::string("{type = \"add\", from = [") + from + "]},\n";
  };
  const auto losses = [](const std::string& middle) { return Run(model(middle)).losses(3); };
  const std::string named = "{type = \"relu\", name = \"r\"},\n",
                    as = "{type = \"relu\", name = \"r\", as = [\"v\"]},\n";
  CHECK(losses(named + rest + sum("\"r\", \"b\"")) == losses(as + rest + sum("\"v\", \"b\"")));
  const std::string block = "{type = \"block\", name = \"p\", repeat = 2, layers = [" + named +
                            rest + sum("\"r\", \"b\"") + "]},\n";
  CHECK(losses(block) != losses(named + rest + sum("\"r\", \"b\"")));
  // "e" is the linear layer's output, and the name of another layer.
  const std::string e = "{type = \"tanh\", name = \"e\"},\n";
  CHECK(losses(e + sum("\"e\", \"linear1\"")) == losses(e + sum("\"linear1\", \"linear1\"")));

  const host::Failure f =
      host::failure_of([&] { const Run run(model(named + sum("\"rr\", \"e\""))); });
  CHECK_MESSAGE(f.text.find("there is no value 'rr' at this point") != std::string::npos, f.text);
  CHECK_MESSAGE(
      f.text.find("and the output of each layer before, by the layer's name") != std::string::npos,
      f.text);
  const host::Failure inside = host::failure_of([&] {
    const Run run(model("{type = \"block\", name = \"p\", layers = [" + named +
                        sum("\"inputs\", \"r\"") + "]},\n"));
  });
  CHECK_MESSAGE(
      inside.text.find("'inputs' at this point (did you mean 'input'?)") != std::string::npos,
      inside.text);
}

TEST_CASE("values of a block are its own: not outputs of the model, not seen by name outside") {
  const host::Failure f = host::failure_of([] {
    const Run run(
        model(std::string("{type = \"block\", name = \"p\", layers = [{type = \"relu\", as "
                          "= [\"r\"]}]},\n{type = \"relu\", from = [\"r\"]},\n")));
  });
  CHECK_MESSAGE(f.text.find("there is no value 'r' at this point") != std::string::npos, f.text);
}
