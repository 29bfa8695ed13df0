// The dataset of token ids: how documents become samples, and files that are not what they say.
#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "plugins/support/packing.hpp"
#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::Dataset;
using fake::Failure;
using fake::Folder;

namespace {

using Documents = std::vector<std::vector<int>>;
using Ints = std::vector<int32_t>;

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The .idx of documents of one sequence each, and the .bin, of element type `code`.
struct Pair {
  std::string bin, idx;
};
Pair pair_of(const Documents& documents, uint8_t code = 8) {
  Pair p;
  std::string lengths, offsets, starts;
  for (size_t d = 0; d < documents.size(); ++d) {
    put(lengths, static_cast<int32_t>(documents[d].size()));
    put(offsets, static_cast<int64_t>(p.bin.size()));
    put(starts, static_cast<int64_t>(d));
    for (const int token : documents[d]) {
      if (code == 1) put(p.bin, static_cast<uint8_t>(token));
      if (code == 4) put(p.bin, static_cast<int32_t>(token));
      if (code == 5) put(p.bin, static_cast<int64_t>(token));
      if (code == 8) put(p.bin, static_cast<uint16_t>(token));
    }
  }
  put(starts, static_cast<int64_t>(documents.size()));
  p.idx.assign("MMIDIDX\0\0", 9);
  put(p.idx, uint64_t{1});
  put(p.idx, code);
  put(p.idx, uint64_t{documents.size()});
  put(p.idx, uint64_t{documents.size() + 1});
  p.idx += lengths + offsets + starts;
  return p;
}

// Files t.bin and t.idx; returns the path as TOML.
std::string write(const Folder& folder, const Pair& p) {
  folder.write("t.idx", p.idx);
  return folder.write("t.bin", p.bin);
}

fake::Options::Given with(std::string path, const std::string& length,
                          fake::Options::Given more = {}) {
  more["path"] = std::move(path);
  more["length"] = length;
  return more;
}

std::string error_of(const Folder& folder, const Pair& p, uint32_t code = PLAIT_ERR_DATA) {
  try {
    const Dataset d("tokens", with(write(folder, p), "2"));
  } catch (const Failure& e) {
    CHECK(e.code == code);
    return e.what();
  }
  return "no error";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Documents kThree = {{1, 2, 3, 4}, {5, 6}, {7, 8, 9}};

std::vector<int64_t> all_of(const Dataset& d) {
  std::vector<int64_t> indices(static_cast<size_t>(d.info().n_samples));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  return indices;
}

}  // namespace

TEST_CASE("stream: pieces that overlap by one, in every element type") {
  const Folder folder;
  for (const uint8_t code : {1, 4, 5, 8}) {
    const Dataset d("tokens", with(write(folder, pair_of(kThree, code)), "3"));
    CHECK(d.info().n_samples == 2);
    CHECK(d.field(0) == "tokens");
    CHECK(d.field(1) == "labels");
    CHECK(d.info().n_fields == 2);
    CHECK(d.read<int32_t>(0, {1, 0}) == Ints{4, 5, 6, 1, 2, 3});
    CHECK(d.read<int32_t>(1, {1, 0}) == Ints{5, 6, 7, 2, 3, 4});
  }
}

TEST_CASE("the tokenizer of tokens is told as far as the file beside them knows it") {
  const Folder folder;
  const auto record = [](const std::string& tokens, const std::string& tokenizer) {
    return R"({"schema": 1, "tokens": )" + tokens + R"(, "tokenizer": )" + tokenizer + "}";
  };
  const std::string right = R"({"type": "bytes", "fingerprint": "0123456789abcdef"})";
  const auto texts = [&](const std::string& json) {
    if (!json.empty()) folder.write("t.json", json);
    const Dataset d("tokens", with(write(folder, pair_of(kThree)), "3", {{"end", "0.9"}}));
    std::vector<std::string> all;
    for (uint64_t i = 0; const char* text = d.text_of(0, PLAIT_TEXT_TOKENIZER, i); ++i)
      all.emplace_back(text);
    for (uint64_t i = 0; const char* text = d.text_of(0, PLAIT_TEXT_TOKENIZER_TYPE, i); ++i)
      all.emplace_back(text);
    CHECK(d.text_of(0, PLAIT_TEXT_COLUMN, 0) == nullptr);
    return all;
  };
  CHECK(texts("").empty());  // there is no such file
  const std::vector<std::string> told = texts(record("9", right));
  REQUIRE(told.size() == 3);
  CHECK(told[0] == "0123456789abcdef");
  CHECK(told[1].starts_with("'bytes' by '"));
  CHECK(told[1].ends_with("/t.json'"));
  CHECK(told[2] == "bytes");
  // Of other tokens, of something else, or damaged: nothing is known.
  for (const std::string& other :
       {record("8", right), record("\"9\"", right), record("9", "{}"), record("9", "3"),
        record("9", R"({"type": "bytes", "fingerprint": "0123"})"),
        record("9", R"({"fingerprint": "0123456789abcdef"})"), std::string("[1]"), std::string("{"),
        std::string("\xff")}) {
    CAPTURE(other);
    CHECK(texts(other).empty());
  }
}

TEST_CASE("stream: documents that see themselves alone") {
  const Folder folder;
  const Dataset d("tokens", with(write(folder, pair_of(kThree)), "4",
                                 {{"reset_attention", "true"}, {"reset_positions", "true"}}));
  CHECK(d.info().n_samples == 2);
  CHECK(d.read<int32_t>(0, {0, 1}) == Ints{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(d.read<int32_t>(1, {0, 1}) == Ints{2, 3, 4, -100, 6, -100, 8, 9});
  CHECK(d.field(2) == "first");
  CHECK(d.read<int32_t>(2, {0, 1}) == Ints{0, 0, 0, 0, 0, 0, 2, 2});
  CHECK(d.field(3) == "positions");
  CHECK(d.read<int32_t>(3, {0, 1}) == Ints{0, 1, 2, 3, 0, 1, 0, 1});
}

TEST_CASE("none: the beginning of each document") {
  const Folder folder;
  const Documents documents = {{1, 2, 3, 4, 5}, {6}, {7, 8}, {9, 10, 11}};
  const Dataset d("tokens", with(write(folder, pair_of(documents)), "3",
                                 {{"pack", "\"none\""}, {"reset_attention", "true"}}));
  CHECK(d.info().n_samples == 3);
  CHECK(d.read<int32_t>(0, {0, 1, 2}) == Ints{1, 2, 3, 7, 0, 0, 9, 10, 0});
  CHECK(d.read<int32_t>(1, {0, 1, 2}) == Ints{2, 3, 4, 8, -100, -100, 10, 11, -100});
  CHECK(d.read<int32_t>(2, {0, 1, 2}) == Ints{0, 0, 0, 0, 1, 2, 0, 0, 2});
}

TEST_CASE("best_fit: every pair of a token and its label once, no sample overfull") {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const int64_t length = 1 + random() % 12;
    std::vector<int64_t> documents{0};
    for (int d = 0; d < 20; ++d) documents.push_back(documents.back() + 1 + random() % 30);
    const auto packing = support::pack_best_fit(documents, length);
    std::set<int64_t> labelled;
    int64_t expected = 0, at_least = 0;
    for (size_t d = 0; d + 1 < documents.size(); ++d)
      expected += documents[d + 1] - documents[d] - 1;
    for (int64_t s = 0; s < packing.samples(); ++s) {
      int64_t places = 0;
      for (auto p = packing.first[static_cast<size_t>(s)];
           p < packing.first[static_cast<size_t>(s) + 1]; ++p) {
        const auto& piece = packing.pieces[static_cast<size_t>(p)];
        const auto of = std::upper_bound(documents.begin(), documents.end(), piece.begin);
        CHECK(piece.begin + piece.n <= *of);
        for (int64_t t = 0; t + 1 < piece.n; ++t) CHECK(labelled.insert(piece.begin + t).second);
        places += piece.n - 1;
      }
      CHECK(places <= length);
      CHECK(places > 0);
    }
    at_least = (expected + length - 1) / length;
    CHECK(static_cast<int64_t>(labelled.size()) == expected);
    CHECK(packing.samples() <= 2 * at_least + 1);
  }
  const Folder folder;
  const Documents documents = {{1, 2}, {3, 4, 5, 6, 7, 8}, {9, 10, 11}};
  const Dataset d("tokens", with(write(folder, pair_of(documents)), "4",
                                 {{"pack", "\"best_fit\""}, {"reset_attention", "true"}}));
  CHECK(d.info().n_samples == 2);  // 3 to 7; then 9 to 11, 1 to 2, 7 to 8
  CHECK(d.read<int32_t>(0, {0, 1}) == Ints{3, 4, 5, 6, 9, 10, 1, 7});
  CHECK(d.read<int32_t>(1, {0, 1}) == Ints{4, 5, 6, 7, 10, 11, 2, 8});
  CHECK(d.read<int32_t>(2, {0, 1}) == Ints{0, 0, 0, 0, 0, 0, 2, 3});
}

TEST_CASE("shares of a file, and an order of the documents") {
  const Folder folder;
  Documents documents;
  for (int d = 0; d < 40; ++d) documents.push_back({100 + d, 200 + d, 300 + d});
  const std::string path = write(folder, pair_of(documents));
  const Dataset train("tokens", with(path, "1", {{"end", "0.75"}})),
      rest("tokens", with(path, "1", {{"begin", "0.75"}}));
  CHECK(train.info().n_samples == 89);
  CHECK(rest.info().n_samples == 29);
  CHECK(rest.read<int32_t>(0, {0}) == Ints{130});
  CHECK(train.info().fingerprint != rest.info().fingerprint);

  const Dataset one("tokens", with(path, "1", {{"documents_seed", "5"}})),
      same("tokens", with(path, "1", {{"documents_seed", "5"}})),
      other("tokens", with(path, "1", {{"documents_seed", "6"}}));
  const Ints order = one.read<int32_t>(0, all_of(one));
  CHECK(order == same.read<int32_t>(0, all_of(same)));
  CHECK(order != other.read<int32_t>(0, all_of(other)));
  Ints begun;
  for (size_t i = 0; i < order.size(); i += 3) begun.push_back(order[i] - 100);
  // By tests/golden/golden_datasets.py: no version may change the order.
  CHECK(begun == Ints{38, 29, 27, 15, 22, 28, 9,  6,  26, 13, 36, 18, 25, 20,
                      12, 21, 16, 2,  1,  34, 11, 4,  24, 19, 5,  8,  10, 17,
                      23, 14, 35, 30, 37, 31, 0,  32, 7,  33, 3,  39});
}

TEST_CASE("several threads read at a time, long runs in several blocks") {
  const Folder folder;
  Documents documents(1);
  for (int i = 0; i < 100'000; ++i) documents[0].push_back((i * 7919) % 65000);
  const Dataset d("tokens", with(write(folder, pair_of(documents)), "20000"));
  std::vector<std::thread> threads;
  std::vector<Ints> read(3);
  for (Ints& one : read) threads.emplace_back([&d, &one] { one = d.read<int32_t>(1, {3, 1}); });
  for (std::thread& t : threads) t.join();
  for (const Ints& one : read) {
    CHECK(one.front() == documents[0][60001]);
    CHECK(one.back() == documents[0][40000]);
  }
}

TEST_CASE("every beginning of an index, and every byte changed, is an error or a dataset") {
  const Folder folder;
  const Pair good = pair_of(kThree);
  for (size_t n = 0; n < good.idx.size(); ++n) {
    const std::string error = error_of(folder, {good.bin, good.idx.substr(0, n)});
    CHECK(contains(error, "t.idx', offset "));
  }
  std::mt19937 random(1);
  for (size_t i = 0; i < good.idx.size(); ++i) {
    Pair bad = good;
    bad.idx[i] = static_cast<char>(random());
    try {
      const Dataset d("tokens", with(write(folder, bad), "2"));
      d.read<int32_t>(0, all_of(d));
    } catch (const Failure& e) {
      CHECK(e.code == PLAIT_ERR_DATA);
    }
  }
}

TEST_CASE("what is wrong with a pair of files") {
  const Folder folder;
  const Pair good = pair_of(kThree);
  const auto with_number = [&](size_t at, auto number) {
    Pair p = good;
    std::memcpy(p.idx.data() + at, &number, sizeof number);
    return error_of(folder, p);
  };
  const size_t lengths = 34, offsets = lengths + 12, starts = offsets + 24;
  CHECK(contains(with_number(0, 'X'), "does not begin with MMIDIDX"));
  CHECK(contains(with_number(9, uint64_t{2}), "version 2, expected 1"));
  CHECK(contains(with_number(17, uint8_t{7}), "element type 7, expected 1 (u8), 4 (i32)"));
  CHECK(contains(with_number(18, uint64_t{1} << 60), "do not fit into the"));
  CHECK(contains(with_number(26, uint64_t{0}), "there is no document start"));
  CHECK(contains(with_number(lengths + 4, int32_t{-1}), "sequence 1 has -1 tokens"));
  CHECK(contains(with_number(lengths + 8, int32_t{4}), "the .bin file beside it has 18 bytes"));
  CHECK(contains(with_number(offsets, int64_t{-2}), "from byte -2 on"));
  CHECK(contains(with_number(starts, int64_t{1}), "starts with sequence 1, expected 0"));
  CHECK(contains(with_number(starts + 8, int64_t{3}), "document 1 has the sequences 3 to 2 of 3"));
  CHECK(
      contains(with_number(starts + 24, int64_t{2}), "the documents have 2 sequences, the file 3"));

  CHECK(
      contains(error_of(folder, pair_of({{1, 2}})), "2 tokens (of 2 in the file) are not enough"));
  CHECK(contains(error_of(folder, pair_of({{1, -2, 3}}, 4)), "no error"));  // seen when it is read
  const Dataset negative("tokens", with(write(folder, pair_of({{1, -2, 3}}, 4)), "2"));
  CHECK_THROWS_WITH_AS(negative.read<int32_t>(0, {0}),
                       doctest::Contains("offset 4: the token is -2, expected 0 to 2147483647"),
                       Failure);
  const Dataset shrinks("tokens", with(write(folder, good), "2"));
  folder.write("t.bin", "ab");
  CHECK_THROWS_WITH_AS(shrinks.read<int32_t>(0, {0}), doctest::Contains("ended while it was read"),
                       Failure);
  std::filesystem::remove(folder.path("t.idx"));
  CHECK_THROWS_WITH_AS(Dataset("tokens", with("\"" + folder.path("t") + "\"", "2")),
                       doctest::Contains("t.idx': cannot open it"), Failure);
  std::filesystem::remove(folder.path("t.bin"));
  CHECK_THROWS_WITH_AS(Dataset("tokens", with("\"" + folder.path("t") + "\"", "2")),
                       doctest::Contains("`plait data tokenize` makes the file"), Failure);
  write(folder, good);
  CHECK_THROWS_WITH_AS(Dataset("tokens", with("\"" + folder.path("t.bin") + "\"", "2",
                                              {{"begin", "0.5"}, {"end", "0.5"}})),
                       doctest::Contains("expected less"), Failure);
  CHECK_THROWS_WITH_AS(Dataset("tokens", with("\"" + folder.path("t.bin") + "\"", "2",
                                              {{"pack", "\"none\""}, {"documents_seed", "1"}})),
                       doctest::Contains("documents_seed has no effect with pack = \"none\""),
                       Failure);
}
