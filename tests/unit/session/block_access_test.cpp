// Blocks of weights that are larger than what the host joins, splits and writes at a time.
#include <cmath>

#include "engine/checkpoint/safetensors.hpp"
#include "engine/runtime/queue.hpp"
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

TEST_CASE("a large weight is drawn and loaded in pieces as it is at once") {
  const std::vector<std::string> whole = {"model.layers[0].out=200000", "precision.compute=bf16"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> keys = whole;
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  HookedFiles files;
  const Folder folder;
  const Rank rank(whole, files, without_files());
  const plan::Parameter& p = rank.plan->parameters[0];
  REQUIRE(program::bytes(p.shape) > runtime::Transfers::kPiece);
  const std::vector<float> drawn = read(rank, p);
  std::vector<float> loaded(drawn.size());
  for (size_t i = 0; i < loaded.size(); ++i)
    loaded[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  const std::string file = folder / "w.safetensors";
  checkpoint::write_safetensors(
      files, file,
      std::vector<checkpoint::TensorSource>{{p.name, PLAIT_F32, {200000, 6}, loaded.data()}});
  for (const auto& keys : {with({"precision.split_master=true"}),
                           with({"run.device=async", "device.pinned_only=true"})}) {
    CAPTURE(keys.back());
    CHECK((read(Rank(keys, files, without_files()), p) == drawn));
    std::vector<std::string> loads = keys;
    loads.insert(loads.end(), {"model.load=" + file, "model.load_missing=[\"*\"]"});
    CHECK((read(Rank(loads, files, without_files()), p) == loaded));
  }
}
