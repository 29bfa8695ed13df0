// Files that are truncated while they are open: an error with a code and a text, never a signal.
#include <doctest/doctest.h>
#include <plait/base.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sample.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;
namespace fs = std::filesystem;

struct Folder {
  std::string path = (fs::temp_directory_path() / "plait-cut-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a safetensors file that is cut short after it was opened") {
  const Folder folder;
  const std::string path = folder.path + "/m.safetensors";
  auto& files = plait::FileSystem::posix();
  const std::vector<float> values(1 << 17, 1.5f);  // 512 KiB: two blocks
  write_safetensors(files, path,
                    std::vector<TensorSource>{{"w", PLAIT_F32, {1 << 17}, values.data()}});
  const SafetensorsFile file(files, path);
  const TensorEntry& w = *file.header().find("w");
  const uint64_t cut = file.header().data_start + 300'000;  // in the second block
  fs::resize_file(path, cut);
  size_t seen = 0;
  const std::string text = error_of(
      [&] { file.each_piece(w, [&](const std::byte*, size_t n) { seen += n; }); }, PLAIT_ERR_DATA);
  CHECK(seen == SafetensorsFile::kPiece);
  CHECK(contains(text, "[safetensors] tensor 'w' cannot be read: [files] '" + path +
                           "' ends at byte " + std::to_string(cut) +
                           ", expected to read up to byte " + std::to_string(file.size())));
  CHECK(contains(text, "it was truncated meanwhile; copy it again"));
  // What is still there can be read.
  std::vector<float> back(10);
  file.read(w, 0, back.data(), 40);
  CHECK(back[9] == 1.5f);
  CHECK(contains(error_of([&] { SafetensorsFile(files, path); }, PLAIT_ERR_DATA), "truncated"));
}

TEST_CASE("a safetensors file that ends within its header") {
  MemoryFiles files;
  const auto refusal = [&](const std::string& text) {
    files.replace("m", text);
    return error_of([&] { SafetensorsFile(files, "m"); }, PLAIT_ERR_DATA);
  };
  CHECK(refusal("abc") ==
        "[safetensors] m, offset 0: 3 bytes, expected at least the 8 of the header's size");
  // One byte more than there is.
  const std::string whole("\2\0\0\0\0\0\0\0{}", 10);
  CHECK(refusal("\3" + whole.substr(1)) ==
        "[safetensors] m, offset 10: the file ends here, within its header of 3 bytes: it is "
        "truncated; get it again");
  files.replace("m", whole);
  CHECK(SafetensorsFile(files, "m").head() == whole);
}

TEST_CASE("a checkpoint that is cut short, or changed, after it was verified") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  Lines lines;
  const Sample sample(3);
  const std::string path =
      CheckpointWriter(files, folder.path, 0, lines.log).save(sample.state(), sample.tensors());
  const auto checkpoint = open_checkpoint(files, path, lines.log);
  const std::string model = path + "/model.safetensors";
  std::vector<float> out(700);
  const int64_t shape[] = {100, 7};
  const auto read = [&] { checkpoint->read("fc.weight", PLAIT_F32, shape, out.data()); };
  const auto size = fs::file_size(model);
  fs::resize_file(model, size - 1);
  CHECK(contains(error_of(read, PLAIT_ERR_DATA),
                 "model.safetensors' ends at byte " + std::to_string(size - 1)));
  fs::resize_file(model, size);  // its last byte is 0 now
  CHECK(contains(error_of(read, PLAIT_ERR_DATA), "'fc.weight' has changed since it was verified"));
  CHECK(contains(error_of([&] { open_checkpoint(files, path, lines.log); }, PLAIT_ERR_DATA),
                 "'fc.weight' does not match its checksum"));
}
