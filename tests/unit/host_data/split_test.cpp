// Parts of a dataset: what is in which, and that it stays there.
#include <algorithm>
#include <set>

#include "plugins/data/split/parts.hpp"
#include "tests/unit/host_data/many_fields.hpp"

using host::contains;
using host::Dataset;
using host::failure_of;
using plait::data::split::Part;
using plait::data::split::part_of;
using plait::data::split::Shares;

namespace {

// A csv of n rows: their number, and a patient that has three of them.
std::string table(const host::TempFolder& folder, int n, const std::string& name = "a.csv",
                  int first = 0) {
  std::string text = "x,patient,y\n";
  for (int i = 0; i < n; ++i)
    text += std::to_string(first + i) + ",p" + std::to_string((first + i) / 3) + ",0\n";
  host::write(folder / name, text);
  return "dataset = {type = \"csv\", path = \"" + (folder / name) +
         "\", target = \"y\", key = \"patient\"}\n";
}

std::set<float> samples(const host::Engine& engine, const std::string& part,
                        const std::string& toml) {
  const Dataset d(engine, "type = \"split\"\npart = \"" + part + "\"\n" + toml);
  std::set<float> all;
  for (int64_t i = 0; i < d.samples(); ++i) all.insert(d.read<float>("input", i).at(0));
  CHECK(static_cast<int64_t>(all.size()) == d.samples());
  return all;
}

bool includes(const std::set<float>& all, const std::set<float>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

}  // namespace

TEST_CASE("each sample is in one part, and shares are kept") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string toml = table(folder, 2000) + "validation = 0.2\ntest = 0.1\n";
  const auto train = samples(engine, "train", toml), valid = samples(engine, "validation", toml),
             test = samples(engine, "test", toml);
  CHECK(train.size() + valid.size() + test.size() == 2000);
  std::set<float> all = train;
  all.insert(valid.begin(), valid.end());
  all.insert(test.begin(), test.end());
  CHECK(all.size() == 2000);
  // Four deviations of the binomial distribution.
  CHECK(std::abs(static_cast<double>(valid.size()) - 400) < 72);
  CHECK(std::abs(static_cast<double>(test.size()) - 200) < 54);
  CHECK(samples(engine, "validation", toml + "seed = 1\n") != valid);
}

TEST_CASE("appended samples move none, and a greater share takes none away") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  for (const char* by : {"", "by = \"key\"\n", "by = \"input\"\n"}) {
    const auto of = [&](int n, const std::string& share) {
      return samples(engine, "validation", table(folder, n) + by + "validation = " + share);
    };
    const auto before = of(300, "0.3"), after = of(600, "0.3"), more = of(300, "0.6");
    CHECK(includes(after, before));
    CHECK(std::count_if(after.begin(), after.end(), [](float x) { return x < 300; }) ==
          static_cast<int64_t>(before.size()));
    CHECK(includes(more, before));
    CHECK(more.size() > before.size());
  }
}

TEST_CASE("samples of one key stay together, also in another order") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string by = "by = \"key\"\nvalidation = 0.3\n";
  const auto valid = samples(engine, "validation", table(folder, 300) + by);
  for (const float x : valid)
    for (int k = 0; k < 3; ++k)
      CHECK(valid.contains(static_cast<float>(static_cast<int>(x) / 3 * 3 + k)));
  // A part of the file alone.
  const auto later = samples(engine, "validation", table(folder, 150, "b.csv", 150) + by);
  CHECK(includes(valid, later));
}

TEST_CASE("names of columns and classes come through") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  host::write(folder / "a.csv", "x,city,y\n1,Rome,b\n2,Oslo,a\n");
  const std::string csv = "{type = \"csv\", path = \"" + (folder / "a.csv") +
                          "\", target = \"y\", target_type = \"class\", categories = \"*\", "
                          "encoding = \"id\"}";
  const Dataset d(engine,
                  "type = \"split\"\npart = \"train\"\nvalidation = 0.0\ndataset = "
                  "{type = \"blend\", parts = [" +
                      csv + "]}");
  const nlohmann::json& fields = d.facts.at("fields");
  REQUIRE(fields.size() == 3);
  CHECK(fields[0].at("columns") == nlohmann::json{"x"});
  CHECK_FALSE(fields[0].contains("classes"));
  CHECK(fields[1].at("columns") == nlohmann::json{"city"});
  CHECK(fields[1].at("classes") == nlohmann::json::parse(R"([["Oslo", "Rome"]])"));
  CHECK(fields[2].at("classes") == nlohmann::json::parse(R"([["a", "b"]])"));
  const Dataset plain(engine, "type = \"synthetic\"");
  CHECK_FALSE(plain.facts.at("fields")[0].contains("columns"));
}

TEST_CASE("the hash is the same on every machine") {
  std::string found;
  for (int64_t i = 0; i < 24; ++i)
    found += "tvs"[static_cast<int>(part_of(Shares{0.3, 0.2, 7}, i))];
  CHECK(found == "vtsvtvtttvvvsvvvttssvvts");
  CHECK(part_of(Shares{0, 0, 0}, 1) == Part::kTrain);
}

TEST_CASE("what cannot be split is said") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string a = table(folder, 4);
  const auto text_of = [&](const std::string& toml) {
    return failure_of([&] { Dataset(engine, "type = \"split\"\n" + toml); }).text;
  };
  CHECK(contains(text_of(a), "required key is missing"));
  CHECK(contains(text_of("part = \"train\"\ndataset = {type = \"cvs\"}"), "did you mean 'csv'?"));
  const auto fields = [&](int integers) {
    return "dataset = " + host::table_of_integers(folder / "i.csv", integers) +
           "\npart = \"train\"\nvalidation = 0.0\n";
  };
  CHECK(contains(text_of(fields(32)),
                 "[data.split] the dataset has 33 fields, at most 32 are possible"));
  CHECK(Dataset(engine, "type = \"split\"\n" + fields(31)).samples() == 1);
  CHECK(contains(text_of(a + "part = \"valid\""), "\"train\" | \"validation\" | \"test\""));
  CHECK(contains(text_of(a + "part = \"test\""), "part \"test\" has none of 4 samples"));
  CHECK(contains(text_of(a + "part = \"train\"\nvalidation = 0.6\ntest = 0.5"), "less than 1"));
  CHECK(contains(
      text_of(a + "part = \"train\"\nby = \"patient\""),
      "by names field 'patient', which does not exist; there are 'input', 'target', 'key'"));
}
