// A thousand random models: what the writer writes is read by another parser of the format and by
// our own, and written again it is the same bytes.
#include <doctest/doctest.h>
#include <plait/tensor.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"

namespace {

using namespace plait::checkpoint;
using Random = std::mt19937_64;

// As the format's description has them, not as our tables do.
constexpr struct {
  uint32_t dtype;
  const char* name;
  size_t bytes;
} kTypes[] = {{PLAIT_F32, "F32", 4},   {PLAIT_F64, "F64", 8}, {PLAIT_F16, "F16", 2},
              {PLAIT_BF16, "BF16", 2}, {PLAIT_I32, "I32", 4}, {PLAIT_I64, "I64", 8},
              {PLAIT_U8, "U8", 1}};

size_t below(Random& random, size_t n) { return static_cast<size_t>(random() % n); }

struct Tensor {
  std::string name, type;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
  std::string bytes;
};

std::string random_name(Random& random) {
  static const char* const kParts[] = {
      "a", "Z",  "weight", ".",    "0",        "\"",           "\\",
      "/", "\n", " ",      "\x01", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80",
      "{", "]",  ","};
  std::string name;
  for (size_t n = 1 + below(random, 12); n > 0; --n)
    name += kParts[below(random, std::size(kParts))];
  return name;
}

std::vector<Tensor> random_model(Random& random) {
  std::vector<Tensor> model;
  std::set<std::string> names = {"__metadata__"};
  for (size_t n = below(random, 20); n > 0; --n) {
    const auto& type = kTypes[below(random, std::size(kTypes))];
    Tensor t{random_name(random), type.name, type.dtype, {}, ""};
    if (!names.insert(t.name).second) continue;
    size_t count = 1;
    for (size_t dims = below(random, 5); dims > 0; --dims) {
      t.shape.push_back(static_cast<int64_t>(below(random, 6)));
      count *= static_cast<size_t>(t.shape.back());
    }
    for (size_t i = 0; i < count * type.bytes; ++i) t.bytes += static_cast<char>(random() & 0xff);
    model.push_back(std::move(t));
  }
  return model;
}

std::string written(const std::vector<Tensor>& model) {
  std::vector<TensorSource> sources;
  for (const Tensor& t : model) sources.push_back({t.name, t.dtype, t.shape, t.bytes.data()});
  MemoryFiles files;
  write_safetensors(files, "m", sources);
  return files.content("m");
}

// Another parser of the format, strict: throws where its description is not kept.
std::vector<Tensor> parsed(const std::string& file) {
  const auto need = [](bool kept, const char* what) {
    if (!kept) throw std::runtime_error(what);
  };
  uint64_t size = 0;
  need(file.size() >= 8, "no header size");
  for (size_t i = 0; i < 8; ++i) size |= uint64_t{static_cast<uint8_t>(file[i])} << 8 * i;
  need(size <= file.size() - 8 && size % 8 == 0, "header size");
  need(file[8] == '{', "header begins with {");
  const auto header = nlohmann::json::parse(file.substr(8, size));
  const std::string data = file.substr(8 + size);
  std::vector<Tensor> model;
  std::map<size_t, size_t> covered;  // begin: end
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    need(entry.size() == 3, "members");
    Tensor t{name, entry.at("dtype"), 0, entry.at("shape"), ""};
    size_t bytes = 0;
    for (const auto& type : kTypes)
      if (t.type == type.name) t.dtype = type.dtype, bytes = type.bytes;
    need(bytes > 0, "type");
    for (const int64_t extent : t.shape) bytes *= static_cast<size_t>(extent);
    const size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    need(begin <= end && end <= data.size() && end - begin == bytes, "offsets");
    if (bytes > 0) need(covered.emplace(begin, end).second, "overlap");
    t.bytes = data.substr(begin, bytes);
    model.push_back(std::move(t));
  }
  size_t at = 0;
  for (const auto& [begin, end] : covered) {
    need(begin == at, "a gap or an overlap");
    at = end;
  }
  need(at == data.size(), "bytes of no tensor");
  return model;
}

// As our reader has it.
std::vector<Tensor> read(const std::string& file) {
  const SafetensorsHeader header = parse_safetensors(file, file.size(), "m");
  std::vector<Tensor> model;
  for (const TensorEntry& e : header.tensors)
    model.push_back({e.name, e.dtype_text, e.dtype, e.shape,
                     file.substr(header.data_start + e.begin, e.bytes())});
  return model;
}

void check_same(std::vector<Tensor> a, std::vector<Tensor> b) {
  const auto by_name = [](const Tensor& x, const Tensor& y) { return x.name < y.name; };
  std::sort(a.begin(), a.end(), by_name);
  std::sort(b.begin(), b.end(), by_name);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].type == b[i].type);
    CHECK(a[i].dtype == b[i].dtype);
    CHECK(a[i].shape == b[i].shape);
    CHECK((a[i].bytes == b[i].bytes));
  }
}

}  // namespace

TEST_CASE("random models are read as they were written, by another parser, too") {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<Tensor> model = random_model(random);
    const std::string file = written(model);
    check_same(parsed(file), model);
    check_same(read(file), model);
    CHECK((written(read(file)) == file));
    // The order in which tensors are given is of no account.
    std::shuffle(model.begin(), model.end(), random);
    CHECK((written(model) == file));
  }
}

TEST_CASE("a bit that is flipped in a header is refused by both parsers or read alike by both") {
  int refused = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::string file = written(random_model(random));
    const size_t header = static_cast<uint8_t>(file[0]) | size_t{static_cast<uint8_t>(file[1])}
                                                              << 8;
    const size_t at = 8 + below(random, header);
    file[at] = static_cast<char>(file[at] ^ 1 << below(random, 8));
    std::vector<Tensor> ours;
    try {
      ours = read(file);
    } catch (const plait::Error& e) {
      CHECK(e.code() == PLAIT_ERR_DATA);
      ++refused;
      continue;
    }
    // Types of the format that Plait does not have are read by us as unknown.
    std::erase_if(ours, [](const Tensor& t) { return t.dtype == 0; });
    if (ours.size() == parse_safetensors(file, file.size(), "m").tensors.size())
      check_same(parsed(file), ours);
  }
  CHECK(refused > 500);
}
