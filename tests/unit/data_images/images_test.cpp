// The dataset: what it finds in a folder, what it gives, and what it refuses.
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <thread>

#include "tests/unit/data_images/golden_images.hpp"
#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace images_test;
using plait::fake::contains;
using plait::fake::Dataset;
using plait::fake::Folder;
using plait::fake::open_error;
using Given = plait::fake::Options::Given;
namespace fs = std::filesystem;

namespace {

const bool only_images = [] {
  plait::fake::data_plugin_names = {"images"};
  return true;
}();

// A folder of images, each a copy of one of the golden ones.
class Tree {
 public:
  using Files = std::initializer_list<std::pair<std::string, std::string>>;  // path, image
  Tree(Files files) {
    for (const auto& [path, image] : files) put(path, content_of(image));
  }
  void put(const std::string& path, const std::string& content) const {
    fs::create_directories(fs::path(this->path(path)).parent_path());
    std::ofstream(this->path(path), std::ios::binary) << content;
  }
  std::string path(const std::string& below) const { return folder_.path("t/" + below); }
  Given given(Given more = {}) const {
    more["path"] = "\"" + folder_.path("t") + "\"";
    return more;
  }
  // The error of opening, without the folder's path.
  std::string error(const Given& more = {}, uint32_t code = PLAIT_ERR_DATA) const {
    return short_text(open_error_of(more, code));
  }
  std::string short_text(std::string text) const {
    const std::string root = folder_.path("t");
    for (size_t at; (at = text.find(root)) != std::string::npos;)
      text.replace(at, root.size(), "T");
    return text;
  }

 private:
  std::string open_error_of(const Given& more, uint32_t code) const {
    try {
      Dataset d("images", given(more));
    } catch (const plait::fake::Failure& e) {
      CHECK(e.code == code);
      return e.what();
    }
    return "no error";
  }
  Folder folder_;
};

// Two classes of six images of 22 x 19, all alike.
std::unique_ptr<const Tree> twelve() {
  auto tree = std::make_unique<const Tree>(Tree::Files{});
  for (const char* name : {"cat", "dog"})
    for (int i = 0; i < 6; ++i)
      tree->put(std::string(name) + "/" + std::to_string(i) + ".jpg", content_of("full.jpg"));
  return tree;
}

std::vector<int64_t> all_of(const Dataset& d) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < d.info().n_samples; ++i) all.push_back(i);
  return all;
}

// Of each sample of an epoch whether it is mirrored; the images are all alike.
std::vector<bool> flips(const Dataset& d, int64_t epoch) {
  const auto plain = d.read<uint8_t>(0, {0});
  std::vector<bool> all;
  for (const int64_t i : all_of(d)) all.push_back(d.read<uint8_t>(0, {i}, epoch) != plain);
  return all;
}

}  // namespace

TEST_CASE("samples are numbered as the library numbers them, with names of classes") {
  const Tree tree(Tree::Files{});
  for (const json& one : golden().at("tree")) tree.put(one.at("path"), content_of("rgb.png"));
  tree.put("a/notes.txt", "no image");
  tree.put("notes.png.txt", "no image, and in no class");
  const Dataset d("images", tree.given());
  std::vector<int32_t> labels;
  for (const json& one : golden().at("tree")) labels.push_back(one.at("label"));
  CHECK(d.read<int32_t>(1, all_of(d)) == labels);
  CHECK(d.field(0) == "image");
  CHECK(d.info().fields[0].role == PLAIT_FIELD_INPUT);
  CHECK(d.info().fields[0].shape.dtype == PLAIT_U8);
  CHECK(d.dims(0) == std::vector<int64_t>{3, 7, 5});
  CHECK(d.field(1) == "label");
  CHECK(d.info().fields[1].role == PLAIT_FIELD_TARGET);
  CHECK(d.dims(1).empty());
  CHECK(d.info().host_bytes < 4000);
  CHECK(d.text_of(1, PLAIT_TEXT_CLASS, 0) == std::string("B"));
  CHECK(d.text_of(1, PLAIT_TEXT_CLASS, 2) == std::string("ä"));
  CHECK(d.text_of(1, PLAIT_TEXT_CLASS, 3) == nullptr);
  CHECK(d.text_of(0, PLAIT_TEXT_CLASS, 0) == nullptr);
  CHECK(d.text_of(1, PLAIT_TEXT_COLUMN, 0) == nullptr);
  CHECK_THROWS_WITH(d.read<uint8_t>(0, {7}), "[data.images] sample 7 was asked for, there are 7");
  CHECK_THROWS_WITH(d.read<uint8_t>(0, {-1}), "[data.images] sample -1 was asked for, there are 7");
}

TEST_CASE("each sample is the file that its number says") {
  const Tree tree{{"a/1.png", "grey.png"}, {"a/2.png", "rgb.png"}, {"b/3.png", "palette.png"}};
  const Dataset d("images", tree.given());
  const std::vector<std::string> files = {"grey.png", "rgb.png", "palette.png"};
  for (size_t i = 0; i < files.size(); ++i) {
    const auto pixels = decoded(content_of(files[i]), 3);
    const auto found = d.read<uint8_t>(0, {2, static_cast<int64_t>(i), 0});
    for (size_t c = 0, k = 105; c < 3; ++c)
      for (size_t p = 0; p < 35; ++p) CHECK(found[k++] == pixels.bytes.data()[3 * p + c]);
  }
  const Dataset grey("images", tree.given({{"channels", "1"}, {"size", "[3, 2]"}}));
  CHECK(grey.dims(0) == std::vector<int64_t>{1, 3, 2});
  CHECK(grey.read<uint8_t>(0, {1}).size() == 6);
}

TEST_CASE("endings are as given, in capitals or not; the content says what a file is") {
  const Tree tree{{"a/1.PNG", "plain.jpg"}, {"a/2.jpeg", "plain.jpg"}, {"a/3.bin", "plain.jpg"}};
  CHECK(Dataset("images", tree.given()).info().n_samples == 2);
  CHECK(Dataset("images", tree.given({{"extensions", R"([".BIN", "png"])"}})).info().n_samples ==
        2);
  CHECK(tree.error({{"extensions", R"(["tif"])"}}) ==
        "[data.images] path 'T/a': the class has no image (.tif); delete the folder, or name the "
        "endings of its images in extensions");
}

TEST_CASE("flips follow from seed, epoch and number alone; evaluations have none") {
  const auto all = twelve();
  const Tree& tree = *all;
  const Dataset d("images", tree.given({{"flip", "true"}}));
  const auto first = flips(d, 0), second = flips(d, 1);
  CHECK(first != second);
  for (const auto& one : {first, second}) {
    const auto n = std::count(one.begin(), one.end(), true);
    CHECK(n > 1);
    CHECK(n < 11);
  }
  // The same numbers on every machine.
  std::string text;
  for (const bool flipped : first) text += flipped ? 'f' : '.';
  CHECK(text == "..f.f.ff.f.f");
  const auto in_order = d.read<uint8_t>(0, all_of(d), 1);
  auto reversed = all_of(d);
  std::reverse(reversed.begin(), reversed.end());
  const auto other = d.read<uint8_t>(0, reversed, 1);
  const size_t size = in_order.size() / 12;
  for (size_t i = 0; i < 12; ++i)
    CHECK(std::equal(in_order.begin() + static_cast<ptrdiff_t>(i * size),
                     in_order.begin() + static_cast<ptrdiff_t>((i + 1) * size),
                     other.begin() + static_cast<ptrdiff_t>((11 - i) * size)));
  const auto plain = d.read<uint8_t>(0, all_of(d));
  CHECK(plain == Dataset("images", tree.given()).read<uint8_t>(0, all_of(d), 1));
  CHECK(flips(Dataset("images", tree.given({{"flip", "true"}, {"seed", "1"}})), 0) != first);
}

TEST_CASE("several threads read at once") {
  const auto all = twelve();
  const Tree& tree = *all;
  const Dataset d("images", tree.given({{"flip", "true"}, {"size", "[10, 10]"}}));
  const auto expected = d.read<uint8_t>(0, all_of(d), 3);
  std::vector<std::thread> threads;
  std::vector<char> good(4, 1);
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 5; ++round)
        if (d.read<uint8_t>(0, all_of(d), 3) != expected) good[t] = 0;
    });
  for (std::thread& t : threads) t.join();
  CHECK(good == std::vector<char>(4, 1));
}

TEST_CASE("the fingerprint changes with names, sizes and options") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"b/2.png", "rgb.png"}};
  std::set<uint64_t> found;
  const auto add = [&](const Given& more = {}) {
    found.insert(Dataset("images", tree.given(more)).info().fingerprint);
  };
  add();
  add();
  CHECK(found.size() == 1);
  add({{"channels", "1"}});
  add({{"size", "[4, 4]"}});
  add({{"size", "[4, 4]"}, {"fit", "\"stretch\""}});
  const size_t before = found.size();
  add({{"flip", "true"}, {"seed", "1"}});
  CHECK(found.size() == before);  // the samples outside training are the same
  tree.put("b/2.png", content_of("palette.png"));
  add();
  fs::rename(tree.path("b/2.png"), tree.path("b/3.png"));
  add();
  CHECK(found.size() == 6);
}

TEST_CASE("folders that are no classes of images: what was found, and what to do") {
  CHECK(Tree(Tree::Files{}).error({}, PLAIT_ERR_NOT_FOUND) ==
        "[data.images] path 'T': cannot list it: No such file or directory; relative paths start "
        "at the data folder, else at the experiment file");
  CHECK(Tree{{"1.png", "rgb.png"}, {"2.png", "rgb.png"}}.error() ==
        "[data.images] path 'T': has no folders, expected one for each class, with its images in "
        "it; there are 2 images in it itself: move them into folders of their classes");
  Tree texts(Tree::Files{});
  texts.put("readme.txt", "no image");
  CHECK(texts.error() ==
        "[data.images] path 'T': has no folders, expected one for each class, with its images in "
        "it; check the path");
  const Tree tree{{"a/1.png", "rgb.png"}};
  Given file = tree.given();
  file["path"] = "\"" + tree.path("a/1.png") + "\"";
  CHECK(contains(open_error("images", file, PLAIT_ERR_IO),
                 "cannot list it: Not a directory; give a folder that has one folder of images"));
  fs::create_directory(tree.path("b"));
  CHECK(contains(tree.error(), "path 'T/b': the class has no image (.png, .jpg, .jpeg); delete"));
  fs::remove(tree.path("b"));
  fs::create_directory(tree.path("\xFF"));
  CHECK(contains(tree.error(), "the name of the class is not UTF-8; rename the folder"));
}

TEST_CASE("entries of a class that are no images: links in a circle, empty files, pipes") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"b/1.png", "rgb.png"}};
  const auto error_with = [&](const std::string& path, const std::function<void()>& make) {
    make();
    std::string text = tree.error();
    fs::remove(tree.path(path));
    return text;
  };
  CHECK(error_with("a/up", [&] { fs::create_directory_symlink("..", tree.path("a/up")); }) ==
        "[data.images] path 'T/a/up/a': is a link to a folder that it lies in, so there is no end; "
        "delete it");
  CHECK(contains(error_with("a/l", [&] { fs::create_directory_symlink(".", tree.path("a/l")); }),
                 "path 'T/a/l': is a link to a folder that it lies in"));
  CHECK(contains(error_with("a/x.png", [&] { fs::create_symlink("x.png", tree.path("a/x.png")); }),
                 "path 'T/a/x.png': cannot get its size: Too many levels of symbolic links; if it "
                 "is a link, it leads to nothing or to itself: delete it"));
  CHECK(contains(error_with("a/x.png", [&] { fs::create_symlink("none", tree.path("a/x.png")); }),
                 "cannot get its size: No such file"));
  CHECK(error_with("a/.#x", [&] { fs::create_symlink("none", tree.path("a/.#x")); }) == "no error");
  CHECK(
      error_with("a/z.jpg", [&] { tree.put("a/z.jpg", ""); }) ==
      "[data.images] path 'T/a/z.jpg': the file is empty, expected an image; fetch the file again "
      "or delete it");
  CHECK(error_with("a/p.jpg", [&] { ::mkfifo(tree.path("a/p.jpg").c_str(), 0600); }) ==
        "[data.images] path 'T/a/p.jpg': is no file; delete it");
  CHECK(contains(error_with("a/g.png", [&] { tree.put("a/g.png", "GIF89a"); }),
                 "path 'T/a/g.png', offset 0: the file begins with 47 49 46 38 (GIF)"));
  // Links to folders and files elsewhere are followed.
  fs::create_directory_symlink(tree.path("b"), tree.path("a/more"));
  fs::create_directory_symlink(tree.path("b"), tree.path("c"));
  CHECK(Dataset("images", tree.given()).info().n_samples == 4);
}

TEST_CASE("images of other formats are left out, which is told with their number and the first") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"b/1.png", "rgb.png"}};
  static std::string warned;
  const auto warning = [&] {
    warned.clear();
    plait_host host = *plait::fake::data_plugins().raw();
    host.log = [](const plait_host*, uint32_t level, const char* text, uint64_t size) {
      if (level == PLAIT_LOG_WARN) warned.append(text, size);
    };
    const auto& item =
        plait::fake::data_plugins().item<plait_dataset_item>(PLAIT_KIND_DATASET, "images");
    const auto options = plait::fake::options_of(item, tree.given());
    void* dataset = nullptr;
    plait::fake::check(item.open(&host, options->raw(), &dataset));
    item.close(dataset);
    return tree.short_text(warned);
  };
  tree.put("a/notes.txt", "no image");
  CHECK(warning().empty());
  tree.put("a/z.GIF", "GIF89a");
  tree.put("b/a.webp", "RIFF");
  CHECK(warning() ==
        "[data.images] 2 files of other formats are left out, such as 'T/a/z.GIF'; convert them to "
        "PNG or JPEG");
}

TEST_CASE("a file that is far too large for an image is refused before it is read") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"a/2.png", "rgb.png"}};
  const Dataset d("images", tree.given());
  // It takes no space: it is sparse.
  fs::resize_file(tree.path("a/2.png"), (uint64_t{1} << 30) + 1);
  CHECK(d.read<uint8_t>(0, {0}).size() == 3 * 7 * 5);
  CHECK_THROWS_WITH(d.read<uint8_t>(0, {1}),
                    doctest::Contains("offset 1073741824: the file has 1073741825 bytes, expected "
                                      "at most 1073741824; is it an image?"));
}

TEST_CASE("what this user may not read is said, with the reason") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"b/1.png", "rgb.png"}};
  if (::geteuid() == 0) return;  // who may read everything
  ::chmod(tree.path("a/1.png").c_str(), 0);
  CHECK(tree.error({}, PLAIT_ERR_IO) ==
        "[data.images] path 'T/a/1.png': cannot open it: Permission denied; is it still there, and "
        "may this user read it?");
  ::chmod(tree.path("a").c_str(), 0);
  CHECK(contains(tree.error({}, PLAIT_ERR_IO), "path 'T/a': cannot list it: Permission denied"));
  ::chmod(tree.path("a").c_str(), 0700);
}

TEST_CASE("a file that changes or vanishes after it was opened is named by read") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"a/2.png", "rgb.png"}};
  const Dataset d("images", tree.given());
  const auto read_error = [&] {
    try {
      d.read<uint8_t>(0, {0, 1});
    } catch (const plait::fake::Failure& e) {
      return std::to_string(e.code) + " " + tree.short_text(e.what());
    }
    return std::string("no error");
  };
  const auto starts = [](uint32_t code, const std::string& text) {
    return std::to_string(code) + " [data.images] path 'T/a/2.png'" + text;
  };
  tree.put("a/2.png", content_of("rgb.png").substr(0, 80));
  CHECK(read_error() == starts(PLAIT_ERR_DATA,
                               ", offset 80: the PNG data is truncated: the file has 80 bytes, "
                               "expected more; fetch the file again or delete it"));
  tree.put("a/2.png", content_of("plain.jpg"));
  CHECK(read_error() == starts(PLAIT_ERR_DATA,
                               ": the image has 22 x 19 pixels, expected 5 x 7 as the first one; "
                               "set size = [H, W], to which all are scaled"));
  fs::remove(tree.path("a/2.png"));
  CHECK(read_error() ==
        starts(PLAIT_ERR_NOT_FOUND,
               ": cannot open it: No such file or directory; is it still there, and "
               "may this user read it?"));
  tree.put("a/2.png", content_of("rgb.png"));
  CHECK(read_error() == "no error");
}

TEST_CASE("images of several sizes take that of the first where size is [0, 0]") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"b/2.jpg", "plain.jpg"}, {"b/3.png", "grey.png"}};
  const Given any = {{"size", "[0, 0]"}};
  const Dataset d("images", tree.given(any));
  const Dataset set("images", tree.given({{"size", "[7, 5]"}}));
  CHECK(d.dims(0) == std::vector<int64_t>{3, 7, 5});
  CHECK(d.read<uint8_t>(0, {0, 1, 2}) == set.read<uint8_t>(0, {0, 1, 2}));
  CHECK(d.info().fingerprint == set.info().fingerprint);
  CHECK(contains(tree.error({{"size", "[0, 0]"}, {"shorter", "9"}}, PLAIT_ERR_CONFIG),
                 "shorter needs the H and W that size = [0, 0] leaves open"));
}

TEST_CASE("options that contradict each other or the files") {
  const Tree tree{{"a/1.png", "rgb.png"}, {"b/2.jpg", "plain.jpg"}};
  CHECK(tree.error() ==
        "[data.images] path 'T/b/2.jpg': the image has 22 x 19 pixels, expected 5 x 7 as the first "
        "one; set size = [H, W], to which all are scaled");
  CHECK(contains(tree.error({{"size", "[4, 4]"}, {"max_pixels", "400"}}), "expected at most 400"));
  const auto error = [&](const Given& more) { return tree.error(more, PLAIT_ERR_CONFIG); };
  CHECK(contains(error({{"size", "[4]"}}), "size is (4), expected [H, W], each from 1 to 65535"));
  CHECK(contains(error({{"size", "[4, 0]"}}), "size is (4, 0)"));
  CHECK(contains(error({{"size", "[4, 70000]"}}), "size is (4, 70000)"));
  CHECK(contains(error({{"shorter", "9"}}), "shorter needs size"));
  CHECK(contains(error({{"shorter", "9"}, {"size", "[4, 4]"}, {"fit", "\"stretch\""}}),
                 "shorter belongs to fit = \"crop\""));
  CHECK(contains(error({{"shorter", "9"}, {"size", "[4, 10]"}}),
                 "shorter is 9, expected at least H and W of size, 10"));
  CHECK(contains(error({{"size", "[4, 4]"}, {"channels", "2"}}), "channels is 2, expected 1 or 3"));
  for (const char* bad : {"[]", "[\"\"]", "[\".\"]", "[\"a/b\"]"})
    CHECK(contains(error({{"size", "[4, 4]"}, {"extensions", bad}}), "extensions is empty or has"));
  CHECK(Dataset("images", tree.given({{"size", "[4, 4]"}, {"shorter", "9"}})).info().n_samples ==
        2);
}
