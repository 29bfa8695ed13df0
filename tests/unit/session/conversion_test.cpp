// Weights and checkpoints of another float type than the session computes in.
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

const std::vector<std::string> kF32{"run.device=reference"},
    kF64{"run.device=reference", "precision.compute=f64"};

session::Settings without_files() {
  session::Settings s;
  s.no_files = true;
  return s;
}

template <class T>
std::vector<T> read(Rank& one, const plan::Parameter& p) {
  std::vector<T> values(static_cast<size_t>(program::elements(p.shape)));
  one.session->read(p.name, values.data(), values.size() * sizeof(T));
  return values;
}

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool logged(const Rank& one, const std::string& text) {
  for (const std::string& line : one.lines)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

std::string trained(const std::vector<std::string>& keys, const std::string& path) {
  HookedFiles files;
  Rank one(keys, files, without_files());
  for (int i = 0; i < 3; ++i) one.session->step();
  return one.session->save(path);
}

template <class From, class To>
void check_converted(Rank& from, Rank& to) {
  for (size_t i = 0; i < from.plan->parameters.size(); ++i) {
    const std::vector<From> stored = read<From>(from, from.plan->parameters[i]);
    const std::vector<To> got = read<To>(to, to.plan->parameters[i]);
    REQUIRE(stored.size() == got.size());
    for (size_t k = 0; k < stored.size(); ++k) CHECK(got[k] == static_cast<To>(stored[k]));
  }
}

}  // namespace

TEST_CASE("a checkpoint of f32 is exact in f64 and returns with the same bits, states included") {
  HookedFiles files;
  const Folder folder;
  const std::string narrow = trained(kF32, folder / "narrow");
  Rank wide(kF64, files, without_files());
  wide.session->load(narrow);
  CHECK(logged(wide, "'" + narrow + "' holds F32, converted exactly to F64"));
  Rank source(kF32, files, without_files());
  source.session->load(narrow);
  CHECK(!logged(source, " holds "));
  check_converted<float, double>(source, wide);
  const std::string saved = wide.session->save(folder / "wide");
  Rank back(kF32, files, without_files());
  back.session->load(saved);
  CHECK(logged(back, "'" + saved + "' holds F64, rounded to F32"));
  const std::string again = back.session->save(folder / "back");
  for (const char* name : {"/model.safetensors", "/optimizer.safetensors"}) {
    CAPTURE(name);
    CHECK(!content(narrow + name).empty());
    CHECK(content(again + name) == content(narrow + name));
    CHECK(content(saved + name).size() > content(narrow + name).size());
  }
  // The steps that follow equal the steps of the session that was saved.
  CHECK(back.session->step().loss == source.session->step().loss);
}

TEST_CASE("a file of two types is told type by type, with the number of parameters of each") {
  HookedFiles files;
  const Folder folder;
  const std::vector<std::string> mixed{"run.device=reference", "precision.compute=bf16",
                                       "precision.master=false"};
  const std::string saved = trained(mixed, folder / "mixed");
  Rank wide(kF64, files, without_files());
  size_t weights = 0;
  for (const plan::Parameter& p : wide.plan->parameters) weights += p.shape.ndim > 1;
  const size_t others = wide.plan->parameters.size() - weights;
  REQUIRE(weights > 1);
  REQUIRE(others > 1);
  const std::string holds = "'" + saved + "' holds ", asked = ", as [precision] asks for: ";
  const std::string of_weights = asked + std::to_string(weights) + " parameters",
                    of_others = asked + std::to_string(others) + " parameters";
  wide.session->load_parameters(saved);
  CHECK(logged(wide, holds + "BF16, converted exactly to F64" + of_weights));
  CHECK(logged(wide, holds + "F32, converted exactly to F64" + of_others));
  Rank narrow(kF32, files, without_files());
  narrow.session->load_parameters(saved);
  CHECK(logged(narrow, holds + "BF16, converted exactly to F32" + of_weights));
  CHECK(!logged(narrow, holds + "F32"));
}

TEST_CASE("doubles are rounded to the nearest float; what a float cannot hold is refused") {
  HookedFiles files;
  const Folder folder;
  Rank wide(kF64, files, without_files());
  const plan::Parameter& p = wide.plan->parameters[0];
  std::vector<double> values = read<double>(wide, p);
  const double ulp = std::ldexp(1.0, -23);
  values[0] = 1 + 0.49 * ulp;
  values[1] = 1 + 0.51 * ulp;
  values[2] = 1 + 1.5 * ulp;  // to the even neighbour
  values[3] = 1e-46;
  values[4] = std::numeric_limits<double>::infinity();
  wide.session->write(p.name, values.data(), values.size() * sizeof(double));
  const std::string saved = wide.session->save(folder / "wide");
  Rank narrow(kF32, files, without_files());
  narrow.session->load_parameters(saved);
  CHECK(logged(narrow, "'" + saved + "' holds F64, rounded to F32"));
  const std::vector<float> got = read<float>(narrow, p);
  CHECK(got[0] == 1);
  CHECK(static_cast<double>(got[1]) == 1 + ulp);
  CHECK(static_cast<double>(got[2]) == 1 + 2 * ulp);
  CHECK(got[3] == 0);
  CHECK(std::isinf(got[4]));
  values[4] = -1e300;
  wide.session->write(p.name, values.data(), values.size() * sizeof(double));
  const std::string beyond = wide.session->save(folder / "beyond");
  try {
    narrow.session->load(beyond);
    FAIL("loaded");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_DATA);
    CHECK(e.full_text().find("tensor '" + p.name + "' of " + beyond) != std::string::npos);
    CHECK(e.full_text().find("-1e+300 in F64") != std::string::npos);
  }
  CHECK(read<float>(narrow, p) == got);
}

TEST_CASE("model.load converts weights of a file, of a checkpoint, and for shards") {
  HookedFiles files;
  const Folder folder;
  const std::string narrow = trained(kF32, folder / "narrow"),
                    wide = trained(kF64, folder / "wide");
  const auto open = [&](std::vector<std::string> keys, const std::string& path) {
    keys.push_back("model.load=" + path);
    return std::make_unique<Rank>(keys, files, without_files());
  };
  Rank f32(kF32, files, without_files()), f64(kF64, files, without_files());
  f32.session->load(narrow);
  f64.session->load(wide);
  for (const std::string& name : {std::string(), std::string("/model.safetensors")}) {
    CAPTURE(name);
    const auto widened = open(kF64, narrow + name);
    CHECK(logged(*widened, "'" + narrow + name + "' holds F32, converted exactly to F64"));
    check_converted<float, double>(f32, *widened);
    const auto rounded = open(kF32, wide + name);
    CHECK(logged(*rounded, "'" + wide + name + "' holds F64, rounded to F32"));
    check_converted<double, float>(f64, *rounded);
  }
}
