// Blended datasets: the order against a plain second computation, what parts give, what is refused.
#include <cmath>
#include <random>

#include "plugins/data/blend/mix.hpp"
#include "tests/unit/host_data/many_fields.hpp"

using host::contains;
using host::Dataset;
using host::failure_of;

namespace {

// The definition, word for word: every term computed anew for each sample.
std::vector<uint16_t> plain_order(const std::vector<double>& w, int64_t n_samples) {
  std::vector<uint16_t> order;
  for (int64_t n = 0; n < n_samples; ++n) {
    size_t best = 0;
    double greatest = -1e300;
    for (size_t i = 0; i < w.size(); ++i) {
      const auto taken = std::count(order.begin(), order.end(), static_cast<uint16_t>(i));
      const double e = w[i] * static_cast<double>(n > 1 ? n : 1) - static_cast<double>(taken);
      if (e > greatest) {
        greatest = e;
        best = i;
      }
    }
    order.push_back(static_cast<uint16_t>(best));
  }
  return order;
}

// A csv of n rows: a column of `begin`, begin + 1, ..., and its target.
std::string rows(const host::TempFolder& folder, const std::string& name, int begin, int n,
                 const std::string& more = "") {
  std::string text = "x,y\n";
  for (int i = 0; i < n; ++i) text += std::to_string(begin + i) + ",0\n";
  host::write(folder / name, text);
  return "{type = \"csv\", path = \"" + (folder / name) + "\", target = [\"y\"]" + more + "}";
}

std::string blend_of(const std::vector<std::string>& parts, const std::string& more = "") {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : ", ") + part;
  return "type = \"blend\"\nparts = [" + all + "]\n" + more;
}

std::vector<float> all_of(const Dataset& d) {
  std::vector<float> all;
  for (int64_t i = 0; i < d.samples(); ++i)
    all.push_back(d.read<float>(d.facts.at("fields")[0].at("name"), i).at(0));
  return all;
}

}  // namespace

TEST_CASE("the order of samples is its definition's") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> weights;
    for (unsigned i = 0; i < 1 + random() % 6; ++i) weights.push_back(1 + random() % 5);
    const auto shares = plait::data::blend::shares_of(weights);
    const auto order = plait::data::blend::order_of(shares, 300);
    CHECK(order == plain_order(shares, 300));
    // No part is ever a whole sample away from its share but for the first few.
    for (size_t p = 0; p < shares.size(); ++p)
      CHECK(std::abs(std::count(order.begin(), order.end(), p) - 300 * shares[p]) < 2);
  }
  CHECK(plait::data::blend::order_of(std::vector<double>{0.5, 0.25, 0.25}, 8) ==
        std::vector<uint16_t>{0, 1, 2, 0, 0, 1, 2, 0});
}

TEST_CASE("shares by the numbers of samples") {
  using plait::data::blend::shares_by_size;
  const std::vector<int64_t> sizes = {100, 300};
  CHECK(shares_by_size(sizes, 1, 0) == std::vector<double>{0.25, 0.75});
  CHECK(shares_by_size(sizes, 1, 100) == std::vector<double>{0.5, 0.5});
  const auto root = shares_by_size(sizes, 0.5, 0);
  CHECK(root[0] == doctest::Approx(10 / (10 + std::sqrt(300.0))));
}

TEST_CASE("parts give their samples in order, and begin again") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::vector<std::string> parts = {rows(folder, "a.csv", 0, 2),
                                          rows(folder, "b.csv", 10, 4)};
  const Dataset all(engine, blend_of(parts));
  CHECK(all.samples() == 6);
  auto values = all_of(all);
  std::sort(values.begin(), values.end());
  CHECK(values == std::vector<float>{0, 1, 10, 11, 12, 13});
  const Dataset even(engine, blend_of(parts, "weights = [1, 1]"));
  CHECK(all_of(even) == std::vector<float>{0, 10, 1, 11, 0, 12});
  const Dataset longer(engine, blend_of(parts, "weights = [0.25, 0.75]\nsamples = 6"));
  CHECK(all_of(longer) == std::vector<float>{10, 0, 11, 12, 1, 13});
  CHECK(even.facts.at("fingerprint") != all.facts.at("fingerprint"));
  CHECK(Dataset(engine, blend_of(parts, "weights = [2, 2]")).facts == even.facts);
  const Dataset nested(engine,
                       blend_of({"{type = \"blend\", parts = [" + parts[0] + "]}", parts[1]}));
  CHECK(all_of(nested) == all_of(all));
}

TEST_CASE("a field says which part a sample comes from") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::vector<std::string> parts = {rows(folder, "a.csv", 0, 2),
                                          rows(folder, "b.csv", 10, 4)};
  const std::string weights = "weights = [0.25, 0.75]\nsamples = 6\n";
  const Dataset plain(engine, blend_of(parts, weights)),
      all(engine, blend_of(parts, weights + "part_field = \"adapter\""));
  const auto& fields = all.facts.at("fields");
  CHECK(fields.size() == plain.facts.at("fields").size() + 1);
  CHECK(fields.back().at("name") == "adapter");
  CHECK(fields.back().at("dtype") == "i32");
  CHECK(all_of(all) == all_of(plain));
  std::vector<int32_t> numbers;
  for (int64_t i = 0; i < all.samples(); ++i)
    numbers.push_back(all.read<int32_t>("adapter", i).at(0));
  CHECK(numbers == std::vector<int32_t>{1, 0, 1, 1, 0, 1});
  CHECK(all.facts.at("fingerprint") != plain.facts.at("fingerprint"));
  // A blend of blends numbers its own parts.
  const Dataset outer(
      engine, blend_of({"{type = \"blend\", parts = [" + parts[0] + "], part_field = \"inner\"}",
                        "{type = \"blend\", parts = [" + parts[1] + "], part_field = \"inner\"}"},
                       weights + "part_field = \"outer\""));
  CHECK(outer.read<int32_t>("inner", 0).at(0) == 0);
  CHECK(outer.read<int32_t>("outer", 0).at(0) == 1);
  CHECK(contains(
      failure_of([&] { Dataset(engine, blend_of(parts, "part_field = \"input\"")); }).text,
      "part_field is 'input', which the parts have as a field of their own; choose another name"));
}

TEST_CASE("what cannot be blended is said") {
  const host::Engine engine(host::new_engine(), plait_engine_close);
  const host::TempFolder folder;
  const std::string a = rows(folder, "a.csv", 0, 2), b = rows(folder, "b.csv", 10, 4);
  const auto text_of = [&](const std::string& toml) {
    return failure_of([&] { Dataset(engine, toml); }).text;
  };
  CHECK(contains(text_of(blend_of({})), "parts has 0 datasets, expected 1 to 65536"));
  CHECK(contains(text_of(blend_of({a, b}, "weights = [1]")),
                 "weights has 1 numbers, expected one for each of 2 parts"));
  CHECK(contains(text_of(blend_of({a, b}, "weights = [1, 0]")), "expected list of numbers > 0"));
  CHECK(
      contains(text_of(blend_of({a, b}, "weights = [1e308, 1e308]")), "the sum of weights is inf"));
  CHECK(contains(text_of(blend_of({a, b}, "weights = [1, 2]\nalpha = 0.5")), "keep one"));
  CHECK(contains(text_of(blend_of({a, b}, "temperature = 2\nalpha = 0.5")), "keep one"));
  CHECK(contains(text_of(blend_of({a, rows(folder, "c.csv", 0, 2, ", target_type = \"i32\"")})),
                 "in parts[1] (csv)"));
  // One of these classes has another number in each.
  const auto kinds = [&](const std::string& name, const std::string& text) {
    host::write(folder / name, text);
    return "{type = \"csv\", path = \"" + (folder / name) +
           "\", target = \"y\", target_type = \"class\"}";
  };
  CHECK(contains(text_of(blend_of({kinds("d.csv", "x,y\n1,ant\n2,cat\n"),
                                   kinds("e.csv", "x,y\n1,bee\n2,cat\n3,ant\n")})),
                 "field 'target': class 1 is 'bee' in parts[1] (csv) (of 3) and 'cat' in parts[0] "
                 "(of 2); take the classes from one file (`fit_on`)"));
  const std::string none = "{type = \"synthetic\", samples = 0}";
  CHECK(contains(text_of(blend_of({a, none})),
                 "[data.blend] parts[1] (synthetic) has no samples; leave it out"));
  host::write(folder / "f.csv", "x,k,y\n1,p,0\n");
  CHECK(contains(text_of(blend_of({a, "{type = \"csv\", path = \"" + (folder / "f.csv") +
                                          "\", target = [\"y\"], key = \"k\"}"})),
                 "parts[1] (csv) has 3 fields and parts[0] 2; give all parts the same options"));
  CHECK(contains(text_of(blend_of({host::table_of_integers(folder / "g.csv", 32)})),
                 "[data.blend] parts[0] (csv) has 33 fields, at most 32 are possible"));
  CHECK(Dataset(engine, blend_of({host::table_of_integers(folder / "h.csv", 31)})).samples() == 1);
  CHECK(contains(text_of(blend_of({a, "{type = \"cvs\"}"})),
                 "parts[1].type: unknown dataset 'cvs' (did you mean 'csv'?)"));
  CHECK(contains(text_of(blend_of({a, "{type = \"csv\", path = \"x\", bath = 1}"})),
                 "parts[1].bath: unknown key 'bath'"));
  CHECK(contains(text_of("type = \"blend\"\nparts = 3"), "found 3"));
  CHECK(contains(text_of("type = \"blend\""), "required key is missing"));
  const auto missing = failure_of([&] {
    Dataset(engine, blend_of({a, "{type = \"csv\", path = \"/none.csv\"}"}));
  });
  CHECK(missing.code == PLAIT_ERR_NOT_FOUND);
  CHECK(contains(missing.text, "/none.csv"));
  const Dataset d(engine, blend_of({a, b}));
  float x = 0;
  CHECK(contains(failure_of([&] { host::check(plait_dataset_read(d.get(), 6, 0, &x, 4)); }).text,
                 "sample 6 was asked for, there are 6"));
  CHECK(contains(failure_of([&] { host::check(plait_dataset_read(d.get(), 0, 0, &x, 2)); }).text,
                 "room for 2 bytes, field"));
}
