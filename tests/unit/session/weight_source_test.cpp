// What model.load gives a model: parameters that it lacks, tensors that no parameter gets, the keys
// that allow both; and the hash by which checkpoints of what was trained name it.
#include "engine/session/weight_source.hpp"

#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using checkpoint::TensorSource;

// Shapes of the experiment's parameters.
const std::map<std::string, std::vector<int64_t>> kShapes = {{"model.linear1.weight", {16, 6}},
                                                             {"model.linear1.bias", {16}},
                                                             {"model.linear2.weight", {4, 16}},
                                                             {"model.linear2.bias", {4}}};

const std::vector<float>& values(float value) {
  static std::map<float, std::vector<float>> all;
  return all.try_emplace(value, 96, value).first->second;
}

// Tensors with these names. The parameters' own shapes; of others (2).
void write(const std::string& path, const std::vector<std::string>& names, float value = 0.5f) {
  std::vector<TensorSource> tensors;
  for (const std::string& name : names) {
    const auto at = kShapes.find(name);
    const std::vector<int64_t> shape = at == kShapes.end() ? std::vector<int64_t>{2} : at->second;
    tensors.push_back({name, PLAIT_F32, shape, values(value).data()});
  }
  if (FileSystem::posix().exists(path)) FileSystem::posix().remove(path);
  checkpoint::write_safetensors(FileSystem::posix(), path, tensors);
}

const std::vector<std::string> kAll{"model.linear1.weight", "model.linear1.bias",
                                    "model.linear2.weight", "model.linear2.bias"};

struct Loads {
  explicit Loads(std::vector<std::string> more) : keys(std::move(more)) {
    keys.emplace_back("run.device=reference");
    keys.emplace_back("model.load=" + path);
  }
  std::unique_ptr<Rank> open() {
    session::Settings settings;
    settings.no_files = true;
    return std::make_unique<Rank>(keys, files, settings);
  }
  std::string error(uint32_t code) {
    return error_of([&] { open(); }, code);
  }
  static bool logged(const Rank& one, const std::string& text) {
    for (const std::string& line : one.lines)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }

  Folder folder;
  std::string path = folder / "w.safetensors";
  HookedFiles files;
  std::vector<std::string> keys;
};

float first_of(Rank& one, const std::string& name) {
  const plan::Parameter& p = *one.plan->parameter(name);
  std::vector<float> all(static_cast<size_t>(program::elements(p.shape)));
  one.session->read(name, all.data(), all.size() * sizeof(float));
  return all[0];
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("weights that lack parameters: all are named, but load_missing allows some") {
  Loads strict({});
  write(strict.path, {kAll[0], kAll[1]});
  const std::string text = strict.error(PLAIT_ERR_DATA);
  CHECK(has(text, "has no tensor 'model.linear2.weight'"));
  CHECK(has(text, "and none for 'model.linear2.bias'; it has model.linear1.bias, "));
  CHECK(has(text, "model.load_missing = [PATTERN] lets parameters keep their initial values"));

  Loads some({"model.load_missing=[\"*.linear2.*\"]"});
  write(some.path, {kAll[0], kAll[1]});
  const auto one = some.open();
  CHECK(first_of(*one, kAll[0]) == 0.5f);
  CHECK(first_of(*one, kAll[2]) != 0.5f);
  CHECK(Loads::logged(*one,
                      "lacks model.linear2.weight, model.linear2.bias: initial values, by "
                      "model.load_missing"));
  write(some.path, kAll);  // it may also have them
  CHECK(first_of(*some.open(), kAll[2]) == 0.5f);

  Loads wrong({"model.load_missing=[\"*.linear3.*\"]"});
  write(wrong.path, kAll);
  CHECK(has(wrong.error(PLAIT_ERR_CONFIG), "pattern '*.linear3.*' matches no parameter"));
}

TEST_CASE("weights with more than the model has: an error, but for load_unexpected") {
  Loads strict({});
  std::vector<std::string> more = kAll;
  more.insert(more.end(), {"model.linear3.weight", "inv_freq"});
  write(strict.path, more);
  const std::string text = strict.error(PLAIT_ERR_DATA);
  CHECK(has(text, "has 'inv_freq', 'model.linear3.weight', for which model 'model' has no "));
  CHECK(has(text, "or ignore them with model.load_unexpected = [PATTERN]"));

  Loads some({"model.load_unexpected=[\"inv_*\", \"*.linear3.weight\"]"});
  write(some.path, more);
  CHECK(first_of(*some.open(), kAll[0]) == 0.5f);
  more.pop_back();
  write(some.path, more);
  CHECK(has(some.error(PLAIT_ERR_CONFIG),
            "model.load_unexpected: pattern 'inv_*' matches no tensor of '"));

  Loads renamed({"model.load_names=[\"model.linear1.*=other.*\"]"});
  write(renamed.path, kAll);  // its names are not those that the rule asks for
  CHECK(has(renamed.error(PLAIT_ERR_DATA), "has no tensor 'other.weight'"));
}

TEST_CASE("checkpoints of what was trained name the weights that were read, as they were then") {
  const std::vector<std::string> trained{"checkpoint.save=trained",
                                         "model.train=[\"model.linear2.*\"]"};
  Loads base(trained);
  write(base.path, kAll);
  const auto saved = [&](Rank& one, const char* name) {
    return one.session->save(base.folder / name);
  };
  const auto one = base.open();
  write(base.path, kAll, 0.25f);  // behind the session's back
  const std::string path = saved(*one, "first");
  const auto other = base.open();
  CHECK(has(error_of([&] { other->session->load(path); }, PLAIT_ERR_CONFIG), ": other weights"));
  write(base.path, kAll);
  base.open()->session->load(path);
  FileSystem::posix().remove(base.path);
  saved(*one, "second");  // it is not read again

  // The same bytes for other parameters.
  Loads swapped(trained);
  write(swapped.path, kAll);
  swapped.keys.emplace_back("model.load_names=[\"model.linear*=model.linear*\"]");
  CHECK(has(error_of([&] { swapped.open()->session->load(path); }, PLAIT_ERR_CONFIG),
            ": other weights"));
}

TEST_CASE("what a host writes and checkpoints leave out is a warning of the save") {
  Loads base({"checkpoint.save=trained", "model.train=[\"model.linear2.*\"]"});
  write(base.path, kAll);
  const auto one = base.open();
  const std::vector<float> row(16, 1.0f);
  one->session->write("model.linear2.bias", row.data(), 4 * sizeof(float));
  one->session->save(base.folder / "a");
  CHECK_FALSE(Loads::logged(*one, "written since the session began"));
  one->session->write("model.linear1.bias", row.data(), 16 * sizeof(float));
  one->session->save(base.folder / "b");
  CHECK(Loads::logged(*one,
                      "'model.linear1.bias' was written since the session began, and "
                      "checkpoints of this run leave it out"));
  one->lines.clear();
  one->session->write("model.linear1.bias", row.data(), 16 * sizeof(float));
  one->session->save(base.folder / "c");
  CHECK_FALSE(Loads::logged(*one, "written since"));  // it was said
}
