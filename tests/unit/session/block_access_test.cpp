// Blocks of weights that are larger than what the host joins, splits and writes at a time.
#include <cmath>

#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

session::Settings without_files() {
  session::Settings s;
  s.no_files = true;
  return s;
}

std::vector<float> read(const Rank& rank, const plan::Parameter& p) {
  std::vector<float> values(static_cast<size_t>(program::elements(p.shape)));
  rank.session->read(p.name, values.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

TEST_CASE("a large weight in two halves is written, read and saved whole") {
  const std::vector<std::string> keys = {"model.layers[0].out=50000", "precision.compute=bf16",
                                         "precision.split_master=true"};
  HookedFiles files;
  const Folder folder;
  const Rank rank(keys, files, without_files());
  const plan::Parameter& p = rank.plan->parameters[0];
  REQUIRE(p.is_split());
  std::vector<float> values(static_cast<size_t>(program::elements(p.shape)));
  REQUIRE(values.size() == 300000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  rank.session->write(p.name, values.data(), values.size() * sizeof(float));
  CHECK((read(rank, p) == values));
  const Rank other(keys, files, without_files());
  other.session->load_parameters(rank.session->save(folder / "saved"));
  CHECK((read(other, p) == values));
}
