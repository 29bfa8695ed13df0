// The file read by the safetensors data plugin, truncated at the worst moments.
#include "plugins/support/tensor_file.hpp"

#include <fstream>

#include "tests/unit/host/host.hpp"

using plait::support::SourceFile;
using plait::support::TensorFile;

namespace {

std::string write(const std::string& path) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                           R"("b":{"dtype":"U8","shape":[3000],"data_offsets":[4,3004]}})";
  std::string text(1, static_cast<char>(json.size()));
  text += std::string(7, '\0') + json + "abcd" + std::string(3000, 'x');
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

template <class F>
std::string error_of(F&& f, uint32_t code) {
  try {
    f();
  } catch (const plait::Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("tensors are read one by one, from a file that may shrink meanwhile") {
  const host::TempFolder folder;
  const std::string path = write(folder / "x");
  const auto whole = std::filesystem::file_size(path);
  const TensorFile file(SourceFile{"data.safetensors", "path", path});
  const auto entries = file.entries();
  REQUIRE(entries.size() == 2);
  const plait::support::Bytes a = file.read(entries[0]);
  CHECK(std::string(reinterpret_cast<const char*>(a.data()), a.size()) == "abcd");
  CHECK(file.read(entries[1]).data()[2999] == 'x');

  std::filesystem::resize_file(path, whole - 1);
  CHECK(error_of([&] { file.read(entries[1]); }, PLAIT_ERR_DATA) ==
        "[data.safetensors] path '" + path + "', offset " + std::to_string(whole - 1) +
            ": the file ended while it was read, " + std::to_string(whole) +
            " bytes were there before; something else is writing it");
  CHECK(file.read(entries[0]).size() == 4);
  // Inside the header.
  std::filesystem::resize_file(path, 20);
  CHECK(error_of([&] { file.entries(); }, PLAIT_ERR_DATA).find("offset 20: the file ended") !=
        std::string::npos);
  std::filesystem::resize_file(path, 0);
  CHECK(error_of([&] { file.entries(); }, PLAIT_ERR_DATA).find("offset 0: the file ended") !=
        std::string::npos);
}

TEST_CASE("a path that is not a regular file is refused") {
  const host::TempFolder folder;
  const auto open = [](const std::string& path) {
    const TensorFile file(SourceFile{"data.safetensors", "path", path});
  };
  CHECK(error_of([&] { open(folder / "none"); }, PLAIT_ERR_NOT_FOUND).find("cannot open it") !=
        std::string::npos);
  CHECK(error_of([&] { open(folder / "."); }, PLAIT_ERR_IO).find("not a regular file") !=
        std::string::npos);
}
