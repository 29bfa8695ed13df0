// Samples of a pair of token files: every way of packing, every field.
#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "tests/unit/data_plugins/token_pair.hpp"

using namespace plait;
using fake::Dataset;
using fake::Documents;
using fake::Folder;
using fake::TokenPair;
using Ids = std::vector<int32_t>;

namespace {

// Three documents: 10 11 12 13 14, 20 21, 30 31 32 33.
const Documents kThree = {{10, 11, 12, 13, 14}, {20, 21}, {30, 31, 32, 33}};

// An open pair, with its folder.
struct Open {
  Folder folder;
  Dataset d;
  Open(const TokenPair& pair, const fake::Options::Given& given)
      : d("tokens", pair.write(folder, given)) {}
  Open(const Documents& documents, const fake::Options::Given& given)
      : Open(TokenPair(documents), given) {}

  std::vector<int64_t> all() const {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < d.info().n_samples; ++i) indices.push_back(i);
    return indices;
  }
  Ids read(const std::string& field) const {
    for (uint32_t f = 0; f < d.info().n_fields; ++f)
      if (d.field(f) == field) return d.read<int32_t>(f, all());
    throw std::runtime_error("no field " + field);
  }
};

const fake::Options::Given kResets{{"reset_attention", "true"}, {"reset_positions", "true"}};

fake::Options::Given with(fake::Options::Given given, const std::string& key,
                          const std::string& value) {
  given[key] = value;
  return given;
}

Documents random_documents(std::mt19937_64& random) {
  Documents documents(1 + random() % 30);
  for (auto& tokens : documents)
    for (uint64_t n = random() % 12; n > 0; --n)
      tokens.push_back(static_cast<int64_t>(random() % 60000));
  return documents;
}

}  // namespace

TEST_CASE("tokens of a stream overlap by one; only the tail is lost") {
  const Open o(kThree, {{"length", "4"}});
  CHECK(o.d.info().n_samples == 2);
  REQUIRE(o.d.info().n_fields == 2);
  CHECK(o.d.field(0) == "tokens");
  CHECK(o.d.info().fields[0].role == PLAIT_FIELD_INPUT);
  CHECK(o.d.info().fields[0].shape.dtype == PLAIT_I32);
  CHECK(o.d.dims(0) == std::vector<int64_t>{4});
  CHECK(o.d.field(1) == "labels");
  CHECK(o.d.info().fields[1].role == PLAIT_FIELD_TARGET);
  CHECK(o.d.dims(1) == std::vector<int64_t>{4});
  CHECK(o.read("tokens") == Ids{10, 11, 12, 13, 14, 20, 21, 30});
  CHECK(o.read("labels") == Ids{11, 12, 13, 14, 20, 21, 30, 31});
  CHECK(o.d.read<int32_t>(0, {1, 0, 1}) == Ids{14, 20, 21, 30, 10, 11, 12, 13, 14, 20, 21, 30});
  CHECK(o.d.read<int32_t>(0, {}).empty());
  CHECK_THROWS_WITH(o.d.read<int32_t>(0, {0, 2}),
                    "[data.tokens] sample 2 was asked for, there are 2");
  CHECK_THROWS_WITH(o.d.read<int32_t>(0, {-1}),
                    "[data.tokens] sample -1 was asked for, there are 2");
  // 11 tokens are 10 pairs: nothing is lost here.
  CHECK(Open(kThree, {{"length", "5"}}).d.info().n_samples == 2);
  CHECK(Open(kThree, {{"length", "10"}}).read("labels") ==
        Ids{11, 12, 13, 14, 20, 21, 30, 31, 32, 33});
  CHECK(Open(kThree, {{"length", "1"}}).read("tokens") ==
        Ids{10, 11, 12, 13, 14, 20, 21, 30, 31, 32});
}

TEST_CASE("tokens of a stream that see their own document alone") {
  const Open o(kThree, with(kResets, "length", "4"));
  REQUIRE(o.d.info().n_fields == 4);
  CHECK(o.d.field(2) == "first");
  CHECK(o.d.info().fields[2].role == PLAIT_FIELD_INPUT);
  CHECK(o.d.field(3) == "positions");
  CHECK(o.d.info().fields[3].role == PLAIT_FIELD_INPUT);
  CHECK(o.read("tokens") == Ids{10, 11, 12, 13, 14, 20, 21, 30});
  CHECK(o.read("labels") == Ids{11, 12, 13, 14, -100, 21, -100, 31});
  CHECK(o.read("first") == Ids{0, 0, 0, 0, 0, 1, 1, 3});
  CHECK(o.read("positions") == Ids{0, 1, 2, 3, 0, 0, 1, 0});
  // A document that ends with the sample.
  CHECK(Open(kThree, with(kResets, "length", "5")).read("labels") ==
        Ids{11, 12, 13, 14, -100, 21, -100, 31, 32, 33});
  const Open positions(kThree, {{"length", "5"}, {"reset_positions", "true"}});
  CHECK(positions.d.info().n_fields == 3);
  CHECK(positions.read("labels") == Ids{11, 12, 13, 14, 20, 21, 30, 31, 32, 33});
  CHECK(positions.read("positions") == Ids{0, 1, 2, 3, 4, 0, 1, 0, 1, 2});
  const Open first(kThree, {{"length", "5"}, {"reset_attention", "true"}});
  CHECK(first.d.info().n_fields == 3);
  CHECK(first.d.field(2) == "first");
}

TEST_CASE("shift cuts a stream at other places in each epoch, and within it") {
  Documents one(1);
  for (int64_t t = 0; t < 100; ++t) one[0].push_back(t);
  const Open o(one, {{"length", "8"}, {"shift", "true"}});
  const int64_t n = o.d.info().n_samples;
  CHECK(n == 11);  // (99 - 7 - 8) / 8 + 1
  std::set<int32_t> seen;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const Ids tokens = o.d.read<int32_t>(0, o.all(), epoch);
    const Ids labels = o.d.read<int32_t>(1, o.all(), epoch);
    seen.insert(tokens[0]);
    for (size_t i = 0; i < tokens.size(); ++i) {
      CHECK(tokens[i] == tokens[0] + static_cast<int32_t>(i));
      CHECK(labels[i] == tokens[i] + 1);
    }
    CHECK(o.d.read<int32_t>(0, {n - 1}, epoch)[0] == tokens[0] + 8 * (n - 1));
  }
  CHECK(*seen.begin() == 0);
  CHECK(*seen.rbegin() == 7);
  CHECK(seen.size() == 8);
  CHECK(o.read("tokens")[0] == 0);  // without an epoch, as in an evaluation
  const Open plain(one, {{"length", "8"}});
  CHECK(plain.d.read<int32_t>(0, {0}, 3)[0] == 0);
  CHECK(plain.d.info().fingerprint != o.d.info().fingerprint);
  CHECK_THROWS_WITH(Open(kThree, {{"length", "4"}, {"shift", "true"}, {"stride", "2"}}),
                    doctest::Contains("leave one of them out"));
  CHECK_THROWS_WITH(Open(kThree, {{"length", "4"}, {"shift", "true"}, {"pack", "\"none\""}}),
                    doctest::Contains("shift is true, with pack"));
}

TEST_CASE("shift needs twice length") {
  Documents one(1);
  for (int64_t t = 0; t < 15; ++t) one[0].push_back(t);
  const fake::Options::Given given{{"length", "8"}, {"shift", "true"}};
  CHECK_THROWS_WITH(Open(one, given),
                    doctest::Contains("15 tokens (of 15 in the file) are not enough for a sample: "
                                      "expected 16, twice length"));
  one[0].push_back(15);
  const Open o(one, given);
  CHECK(o.d.info().n_samples == 1);
  for (int64_t epoch = 0; epoch < 40; ++epoch)
    CHECK(o.d.read<int32_t>(1, {0}, epoch)[7] == o.d.read<int32_t>(0, {0}, epoch)[0] + 8);
}

TEST_CASE("tokens of a stream with a stride: each label counts once, after more tokens") {
  const Open o(kThree, {{"length", "4"}, {"stride", "2"}});
  CHECK(o.d.info().n_samples == 4);
  CHECK(o.read("tokens") == Ids{10, 11, 12, 13, 12, 13, 14, 20, 14, 20, 21, 30, 21, 30, 31, 32});
  CHECK(o.read("labels") ==
        Ids{11, 12, 13, 14, -100, -100, 20, 21, -100, -100, 30, 31, -100, -100, 32, 33});
  const Open own(kThree, with(with(kResets, "length", "4"), "stride", "2"));
  CHECK(own.read("labels") ==
        Ids{11, 12, 13, 14, -100, -100, -100, 21, -100, -100, -100, 31, -100, -100, 32, 33});
  CHECK(own.read("first") == Ids{0, 0, 0, 0, 0, 0, 0, 3, 0, 1, 1, 3, 0, 1, 1, 1});
  CHECK(Open(kThree, {{"length", "4"}, {"stride", "4"}}).read("labels") ==
        Open(kThree, {{"length", "4"}}).read("labels"));
  CHECK(Open(kThree, {{"length", "10"}, {"stride", "1"}}).d.info().n_samples == 1);
  CHECK(Open(kThree, {{"length", "9"}, {"stride", "1"}}).d.info().n_samples == 2);
  CHECK_THROWS_WITH(Open(kThree, {{"length", "4"}, {"stride", "5"}}),
                    doctest::Contains("leaves out tokens; expected at most length, 4"));
  CHECK_THROWS_WITH(Open(kThree, {{"length", "4"}, {"stride", "2"}, {"pack", "\"none\""}}),
                    doctest::Contains("where samples are documents"));
}

TEST_CASE("tokens packed best_fit fill samples with whole documents") {
  // Places 4, 1, 3 in samples of 4: the first alone, the last and the second together.
  const auto given = with(with(kResets, "length", "4"), "pack", "\"best_fit\"");
  const Open o(kThree, given);
  CHECK(o.d.info().n_samples == 2);
  CHECK(o.read("tokens") == Ids{10, 11, 12, 13, 30, 31, 32, 20});
  CHECK(o.read("labels") == Ids{11, 12, 13, 14, 31, 32, 33, 21});
  CHECK(o.read("first") == Ids{0, 0, 0, 0, 0, 0, 0, 3});
  CHECK(o.read("positions") == Ids{0, 1, 2, 3, 0, 1, 2, 0});
  // With samples of 3: 10..13 is cut off before its last pair.
  const Open cut(kThree, with(given, "length", "3"));
  CHECK(cut.read("tokens") == Ids{10, 11, 12, 30, 31, 32, 13, 20, 0});
  CHECK(cut.read("labels") == Ids{11, 12, 13, 31, 32, 33, 14, 21, -100});
  CHECK(cut.read("first") == Ids{0, 0, 0, 0, 0, 0, 0, 1, 2});
  CHECK(cut.read("positions") == Ids{0, 1, 2, 0, 1, 2, 0, 0, 0});
  const Open one(Documents{{1}, {}, {2, 3}}, with(given, "length", "3"));
  CHECK(one.read("tokens") == Ids{2, 0, 0});
  CHECK(one.read("labels") == Ids{3, -100, -100});
  CHECK(one.read("first") == Ids{0, 1, 2});
}

TEST_CASE("tokens without packing are a document per sample; cut documents are counted") {
  const auto given = with(with(kResets, "length", "3"), "pack", "\"none\"");
  const Open o(kThree, given);
  CHECK(o.d.info().n_samples == 3);
  CHECK(o.read("tokens") == Ids{10, 11, 12, 20, 0, 0, 30, 31, 32});
  CHECK(o.read("labels") == Ids{11, 12, 13, 21, -100, -100, 31, 32, 33});
  CHECK(o.read("first") == Ids{0, 0, 0, 0, 1, 2, 0, 0, 0});
  CHECK(o.read("positions") == Ids{0, 1, 2, 0, 0, 0, 0, 1, 2});

  static std::string logged;
  plait_host host = *fake::data_plugins().raw();
  host.log = [](const plait_host*, uint32_t level, const char* text, uint64_t n) {
    logged += std::to_string(level) + " " + std::string(text, n) + "\n";
  };
  const auto& item = fake::data_plugins().item<plait_dataset_item>(PLAIT_KIND_DATASET, "tokens");
  for (const char* length : {"3", "4"}) {
    const auto options =
        fake::options_of(item, TokenPair(kThree).write(o.folder, with(given, "length", length)));
    void* dataset = nullptr;
    fake::check(item.open(&host, options->raw(), &dataset));
    item.close(dataset);
  }
  CHECK(logged ==
        "2 [data.tokens] 1 of 3 documents have more than 4 tokens, of which the rest is left out; "
        "pack = \"best_fit\" keeps all\n");
}

TEST_CASE("tokens of a stream in an order drawn from a seed: each document once, never another") {
  Documents documents;
  for (int64_t d = 0; d < 50; ++d) documents.push_back({2 * d, 2 * d + 1});
  const auto given = [](const char* seed) {
    return fake::Options::Given{{"length", "1"}, {"documents_seed", seed}};
  };
  const Open o(documents, given("5")), again(documents, given("5")), other(documents, given("6"));
  const Ids tokens = o.read("tokens"), labels = o.read("labels");
  REQUIRE(tokens.size() == 99);
  std::set<int32_t> seen(tokens.begin(), tokens.end());
  seen.insert(labels.back());
  CHECK(seen.size() == 100);
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] % 2 == 0) CHECK(labels[i] == tokens[i] + 1);
  CHECK(again.read("tokens") == tokens);
  CHECK(other.read("tokens") != tokens);
  CHECK(o.d.info().fingerprint == again.d.info().fingerprint);
  CHECK(o.d.info().fingerprint != other.d.info().fingerprint);
}

TEST_CASE("tokens between begin and end: two parts are the file, a document is cut at the cut") {
  const auto part = [](const char* begin, const char* end, const char* pack) {
    const Open o(kThree, {{"length", "1"}, {"begin", begin}, {"end", end}, {"pack", pack}});
    Ids tokens = o.read("tokens");
    tokens.push_back(o.read("labels").back());
    return tokens;
  };
  // 0.3 of 11 tokens are 3.
  CHECK(part("0", "0.3", "\"stream\"") == Ids{10, 11, 12});
  CHECK(part("0.3", "1", "\"stream\"") == Ids{13, 14, 20, 21, 30, 31, 32, 33});
  CHECK(part("0.3", "1", "\"none\"") == Ids{13, 20, 30, 31});
  CHECK(part("0.3", "0.9", "\"best_fit\"") == Ids{13, 20, 30, 31});
  CHECK(part("0.4", "0.6", "\"stream\"") == Ids{14, 20});
}

// What the samples of a stream are, token by token.
TEST_CASE("tokens of streams agree with a plain reading, in any order of the .bin file") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    const Documents documents = random_documents(random);
    TokenPair pair(documents, std::vector<uint8_t>{4, 5, 8}[random() % 3]);
    if (random() % 2) pair.reverse_bin();
    std::vector<int32_t> ids, begins;  // of the stream: tokens, where the document of each begins
    for (const auto& tokens : documents)
      for (size_t i = 0; i < tokens.size(); ++i) {
        begins.push_back(static_cast<int32_t>(ids.size() - i));
        ids.push_back(static_cast<int32_t>(tokens[i]));
      }
    const int64_t length = 1 + static_cast<int64_t>(random() % 9);
    if (static_cast<int64_t>(ids.size()) <= length) continue;
    const Open o(pair, with(kResets, "length", std::to_string(length)));
    const Ids tokens = o.read("tokens"), labels = o.read("labels"), first = o.read("first"),
              positions = o.read("positions");
    REQUIRE(static_cast<int64_t>(tokens.size()) ==
            (static_cast<int64_t>(ids.size()) - 1) / length * length);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto place = static_cast<int32_t>(i) % static_cast<int32_t>(length);
      const int32_t begin = std::max(0, begins[i] - (static_cast<int32_t>(i) - place));
      REQUIRE(tokens[i] == ids[i]);
      REQUIRE(labels[i] == (begins[i + 1] == begins[i] ? ids[i + 1] : -100));
      REQUIRE(first[i] == begin);
      REQUIRE(positions[i] == place - begin);
    }
    // Drawn order: the same documents, whole, one after the other.
    const Open drawn(pair, {{"length", "1"}, {"documents_seed", "3"}, {"reset_attention", "true"}});
    std::multiset<std::vector<int64_t>> left(documents.begin(), documents.end());
    std::vector<int64_t> document;
    const Ids stream = drawn.read("tokens"), next = drawn.read("labels");
    for (size_t i = 0; i < stream.size(); ++i) {
      document.push_back(stream[i]);
      if (next[i] >= 0) continue;
      REQUIRE(left.count(document) > 0);
      left.erase(left.find(document));
      document.clear();
    }
    left.erase(std::vector<int64_t>{});
    CHECK(left.size() == 1);  // the last one, without its end
  }
}

TEST_CASE("tokens of every type of number, of documents of several sequences, with modes") {
  for (const uint8_t code : {1, 4, 5, 8}) {
    const int64_t most = code == 1 ? 255 : code == 8 ? 65535 : 2147483647;
    TokenPair pair({{0, 1, most}, {}, {most - 1}}, code);
    pair.index.modes = std::string(3, '\1');
    CHECK(Open(pair, {{"length", "3"}}).read("labels") ==
          Ids{1, static_cast<int32_t>(most), static_cast<int32_t>(most - 1)});
  }
  TokenPair pair({});
  for (const int64_t t : {10, 20, 30, 40}) pair.add_sequence({t, t + 1});
  pair.index.documents = {0, 0, 3, 3, 4};  // two empty documents
  pair.reverse_bin();
  const Open o(pair, with(kResets, "length", "7"));
  CHECK(o.read("tokens") == Ids{10, 11, 20, 21, 30, 31, 40});
  CHECK(o.read("first") == Ids{0, 0, 0, 0, 0, 0, 6});
  CHECK(Open(pair, {{"length", "6"}, {"pack", "\"none\""}}).read("labels") ==
        Ids{11, 20, 21, 30, 31, -100, 41, -100, -100, -100, -100, -100});
}

TEST_CASE("tokens of samples longer than what is read in one go") {
  Documents documents(3);
  for (int64_t i = 0; i < 60000; ++i) documents[static_cast<size_t>(i / 25000)].push_back(i);
  for (const uint8_t code : {4, 5, 8}) {
    const Open o(TokenPair(documents, code), {{"length", "29999"}});
    REQUIRE(o.d.info().n_samples == 2);
    const Ids tokens = o.read("tokens"), labels = o.read("labels");
    for (int32_t i = 0; i < 59998; ++i) {
      REQUIRE(tokens[static_cast<size_t>(i)] == i);
      REQUIRE(labels[static_cast<size_t>(i)] == i + 1);
    }
  }
}

TEST_CASE("tokens are read by several threads at once") {
  std::mt19937_64 random(2);
  Documents documents(200);
  for (auto& tokens : documents)
    for (int i = 0; i < 40; ++i) tokens.push_back(static_cast<int64_t>(random() % 1000));
  const Open o(documents, with(with(kResets, "length", "64"), "documents_seed", "1"));
  const Ids expected = o.read("labels");
  std::vector<Ids> got(2);
  std::vector<std::thread> threads;
  for (Ids& mine : got)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) mine = o.read("labels");
    });
  for (std::thread& t : threads) t.join();
  CHECK(got[0] == expected);
  CHECK(got[1] == expected);
}

TEST_CASE("tokens have a fingerprint of files and options; the path may lack its ending") {
  const fake::Options::Given given{{"length", "2"}};
  const Open o(kThree, given);
  const uint64_t print = o.d.info().fingerprint;
  const auto other = [&](const std::string& key, const std::string& value) {
    return Open(kThree, with(given, key, value)).d.info().fingerprint;
  };
  CHECK(other("length", "2") == print);
  CHECK(other("length", "3") != print);
  CHECK(other("pack", "\"best_fit\"") != print);
  CHECK(other("end", "0.9") != print);
  CHECK(other("reset_attention", "true") != print);
  CHECK(other("reset_positions", "true") != print);
  TokenPair changed(kThree);
  changed.bin[0] = '\x0b';
  CHECK(Open(changed, given).d.info().fingerprint != print);
  changed = TokenPair(kThree);
  std::swap(changed.index.documents[1], changed.index.documents[2]);
  std::sort(changed.index.documents.begin(), changed.index.documents.end());
  CHECK(Open(changed, given).d.info().fingerprint == print);
  changed.index.documents.erase(changed.index.documents.begin() + 1);
  CHECK(Open(changed, given).d.info().fingerprint != print);

  for (const char* file : {"t", "t.bin", "t.idx"}) {
    const Dataset d("tokens", with(given, "path", "\"" + o.folder.path(file) + "\""));
    CHECK(d.info().fingerprint == print);
  }
  CHECK(o.d.info().host_bytes > 0);
  CHECK(o.d.info().host_bytes < 2048);
}
