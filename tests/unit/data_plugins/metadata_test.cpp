// Datasets that are opened for their metadata alone: the fields of the whole file by its head, and
// no value is read.
#include "tests/unit/data_plugins/dataset_bench.hpp"
#include "tests/unit/data_plugins/file_bytes.hpp"

using namespace plait;
using fake::Dataset;
using fake::Folder;
using fake::little;
using fake::raw;
using file_bytes::gzip;
using file_bytes::npy;

namespace {

// A dataset that is opened for its metadata alone.
class Head {
 public:
  Head(const std::string& name, const fake::Options::Given& given)
      : item_(fake::data_plugins().item<plait_dataset_item>(PLAIT_KIND_DATASET, name)) {
    const auto options = fake::options_of(item_, given);
    fake::check(item_.open_metadata(fake::data_plugins().raw(), options->raw(), &dataset_));
    info_.struct_size = sizeof info_;
    fake::check(item_.info(dataset_, &info_));
  }
  Head(const Head&) = delete;
  ~Head() { item_.close(dataset_); }
  const plait_dataset_info& info() const { return info_; }
  std::vector<int64_t> dims(uint32_t i) const {
    const plait_shape& s = info_.fields[i].shape;
    return {s.dims, s.dims + s.ndim};
  }

 private:
  const plait_dataset_item& item_;
  void* dataset_ = nullptr;
  plait_dataset_info info_{};
};

std::string idx(uint8_t n, uint8_t rows, uint8_t columns) {
  std::string file("\0\0\10\3", 4);
  for (const uint8_t extent : {n, rows, columns})
    file += std::string(3, '\0') + static_cast<char>(extent);
  for (int i = 0; i < n * rows * columns; ++i) file += static_cast<char>(i * i % 251);
  return file;
}

std::string safetensors() {
  std::string head = R"({"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                     R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  return little(head.size(), 8) + head + raw<float>({1, 2, -1, -1});
}

}  // namespace

TEST_CASE("the metadata of a file are those of the dataset that it holds") {
  const Folder folder;
  const struct {
    std::string type;
    fake::Options::Given given;
  } rows[] = {
      {"idx", {{"images", folder.write("i", idx(3, 4, 5))}}},
      {"idx", {{"images", folder.write("z", gzip(idx(200, 20, 30)))}}},
      {"npy", {{"input", folder.write("n", npy("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6})))}}},
      {"safetensors",
       {{"path", folder.write("s", safetensors())}, {"input", "[\"x\"]"}, {"target", "[]"}}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.type);
    const Dataset whole(row.type, row.given);
    const Head head(row.type, row.given);
    CHECK(whole.info().host_bytes > 0);
    CHECK(whole.info().fingerprint != 0);
    CHECK(head.info().host_bytes == 0);
    CHECK(head.info().fingerprint == 0);  // no value was read
    CHECK(head.info().n_samples == whole.info().n_samples);
    REQUIRE(head.info().n_fields == whole.info().n_fields);
    CHECK(head.info().fields[0].name == whole.field(0));
    CHECK(head.dims(0) == whole.dims(0));
    CHECK(head.info().fields[0].shape.dtype == whole.info().fields[0].shape.dtype);
  }
}

TEST_CASE("values that are wrong do not matter to metadata, wrong heads do") {
  const Folder folder;
  std::string packed = gzip(idx(200, 20, 30));
  for (size_t i = packed.size() / 2; i < packed.size(); ++i) packed[i] = '\xff';
  const fake::Options::Given damaged{{"images", folder.write("z", packed)}};
  CHECK_THROWS_AS(Dataset("idx", damaged), fake::Failure);
  const Head head("idx", damaged);
  CHECK(head.info().n_samples == 200);
  CHECK(head.dims(0) == std::vector<int64_t>{20, 30});
  CHECK_THROWS_WITH(Head("idx", {{"images", folder.write("c", gzip("\1\2\3\4"))}}),
                    doctest::Contains("the magic number is 01 02 03 04"));

  const std::string x = folder.write("x", npy("<f4", "(2,)", raw<float>({1, 2})));
  const fake::Options::Given weighted{
      {"input", x}, {"weight", folder.write("w", npy("<f4", "(2,)", raw<float>({1, -1})))}};
  CHECK_THROWS_WITH(Dataset("npy", weighted), doctest::Contains("the weight of sample 1 is -1"));
  CHECK(Head("npy", weighted).info().n_fields == 2);

  const fake::Options::Given tensors{{"path", folder.write("s", safetensors())},
                                     {"input", "[\"x\"]"},
                                     {"target", "[]"},
                                     {"weight", "\"w\""}};
  CHECK_THROWS_WITH(Dataset("safetensors", tensors),
                    doctest::Contains("the weight of sample 0 is -1"));
  CHECK(Head("safetensors", tensors).info().n_fields == 2);
}
