// A format of a plugin: what it writes is checked, and a folder appears complete or not at all.
#include "engine/format/format.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "engine/config/document.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using plugin::contains;
using test::error_of;

namespace {

// What read() and write() of the format hand over.
std::function<void(const plait_format_output&)> says;

plait_error* read(const plait_host*, const plait_options*, const char*,
                  const plait_format_output* out) {
  says(*out);
  return nullptr;
}
plait_error* write(const plait_host*, const plait_options*, const char*, uint64_t,
                   const plait_format_output* out) {
  says(*out);
  return nullptr;
}

plait_plugin make_table() {
  return plugin::make_plugin(
      "folders", [](const plait_host* h, const char*, void** state) -> plait_error* {
        static const plait_format_item both{sizeof both, "both", "reads, writes", nullptr, 0, 0,
                                            read,        write};
        static const plait_format_item reads{sizeof reads, "reads", "reads", nullptr, 0, 0,
                                             read,         nullptr};
        static const plait_format_item writes{sizeof writes, "writes", "writes", nullptr, 0, 0,
                                              nullptr,       write};
        *state = nullptr;
        for (const plait_format_item* one : {&both, &reads, &writes})
          if (plait_error* e = h->add(h, PLAIT_KIND_FORMAT, one)) return e;
        return nullptr;
      });
}

struct Loaded {
  Log log{[](uint32_t, std::string_view) {}, PLAIT_LOG_ERROR};
  std::shared_ptr<plugin::Registry> registry =
      std::make_shared<plugin::Registry>(log, FileSystem::posix(), plugin::Extensions{});
  plait_plugin table = make_table();
  Loaded() { registry->load_static(table); }
  config::ItemConfig item(const std::string& type) const {
    config::Problems problems;
    const auto document = config::Document::parse("type = \"" + type + "\"", "f.toml", problems);
    config::ItemConfig found =
        config::load_one_item(PLAIT_KIND_FORMAT, document, *registry, {}, problems);
    problems.raise_if_any();
    return found;
  }
};

void place(const plait_format_output& out, const char* parameter, const char* tensor,
           int64_t row = 0, int64_t n_rows = 0, uint32_t flags = 0) {
  const plait_tensor_place at{parameter, tensor, row, n_rows, flags, 0};
  out.place(out.user, &at);
}

void slices(const plait_format_output& out, const char* parameter,
            const std::vector<const char*>& tensors, int64_t n_rows = 0) {
  const plait_tensor_slices at{parameter, tensors.data(), tensors.size(), 0, n_rows, 0, 0};
  out.slices(out.user, &at);
}

void block(const plait_format_output& out, const char* parameter, const char* tensor,
           int64_t row = 0, int64_t column = 0, int64_t rows = 1, int64_t columns = 1) {
  const plait_tensor_block at{parameter, tensor, row, column, rows, columns};
  out.block(out.user, &at);
}

}  // namespace

TEST_CASE("what a format writes wrongly names plugin, format and the fault") {
  const Loaded loaded;
  const config::ItemConfig item = loaded.item("both");
  const format::Format made(item, loaded.registry);
  struct Case {
    std::function<void(const plait_format_output&)> says;
    const char* fault;
  };
  const Case cases[] = {
      {[](const auto& o) { o.file(o.user, nullptr, "x", 1); }, "a file without a name"},
      {[](const auto& o) { o.file(o.user, "a", nullptr, 1); }, "a file without its content"},
      {[](const auto& o) { o.file(o.user, "../a", "x", 1); }, "the file name '../a'"},
      {[](const auto& o) { o.file(o.user, "..", "x", 1); }, "the file name '..'"},
      {[](const auto& o) { o.file(o.user, "a\nb", "x", 1); }, "the file name 'a\\x0ab'"},
      {[](const auto& o) { o.file(o.user, "model.safetensors", "x", 1); },
       "which the engine writes"},
      {[](const auto& o) { o.file(o.user, "weights.map.json", "x", 1); },
       "which the engine writes"},
      {[](const auto& o) { o.copy(o.user, "a", ""); }, "a file to copy without a name"},
      {[](const auto& o) {
         o.file(o.user, "a", "x", 1);
         o.copy(o.user, "a", "/etc/passwd");
       },
       "the file 'a' twice"},
      {[](const auto& o) { o.place(o.user, nullptr); }, "a place that is NULL"},
      {[](const auto& o) { place(o, nullptr, "t"); }, "a place of a parameter without a name"},
      {[](const auto& o) { place(o, "p", ""); }, "a place in a tensor without a name"},
      {[](const auto& o) { place(o, "p", "t", -1, 2); }, "'p' 2 rows from row -1 on"},
      {[](const auto& o) { place(o, "p", "t", INT64_MAX, 1); },
       "rows from row 9223372036854775807"},
      {[](const auto& o) { place(o, "p", "t", 3, 0); }, "how many rows 'p' has"},
      {[](const auto& o) { place(o, "p", "t", 0, 0, 8); }, "'p' the unknown flags 0x8"},
      {[](const auto& o) { place(o, "p", "t", 0, 0, PLAIT_PLACE_COLUMNS); },
       "takes columns of 't' for 'p' and does not say how many"},
      {[](const auto& o) {
         place(o, "p", "t");
         place(o, "p", "u");
       },
       "'p' two places"},
      {[](const auto& o) { o.slices(o.user, nullptr); }, "slices that are NULL"},
      {[](const auto& o) { slices(o, "", {"t"}); }, "slices of a parameter without a name"},
      {[](const auto& o) { slices(o, "p", {}); }, "slices of 'p' without tensors"},
      {[](const auto& o) {
         slices(o, "p", {"t", nullptr});
       },
       "a slice in a tensor without a name"},
      {[](const auto& o) { slices(o, "p", {"t"}, -2); }, "'p' -2 rows from row 0 on"},
      {[](const auto& o) {
         place(o, "p", "t");
         slices(o, "p", {"u"});
       },
       "'p' two places"},
      {[](const auto& o) { o.block(o.user, nullptr); }, "a block that is NULL"},
      {[](const auto& o) { block(o, "", "t"); }, "a block of a parameter without a name"},
      {[](const auto& o) { block(o, "p", nullptr); }, "a block in a tensor without a name"},
      {[](const auto& o) { block(o, "p", "t", -1); }, "puts 'p' outside of 't'"},
      {[](const auto& o) { block(o, "p", "t", 0, -1); }, "puts 'p' outside of 't'"},
      {[](const auto& o) { block(o, "p", "t", 0, 0, -1); }, "puts 'p' outside of 't'"},
      {[](const auto& o) { block(o, "p", "t", 0, 0, 1, -1); }, "puts 'p' outside of 't'"},
      {[](const auto& o) {
         place(o, "p", "t");
         block(o, "p", "u");
       },
       "'p' two places"},
      {[](const auto& o) {
         block(o, "p", "t");
         place(o, "p", "u");
       },
       "'p' two places"},
      {[](const auto& o) { o.weights(o.user, "a/b.safetensors"); },
       "the file name 'a/b.safetensors'"},
      {[](const auto& o) { o.weights(o.user, "b.bin"); }, "the weights the name 'b.bin'"},
      {[](const auto& o) {
         o.weights(o.user, "a.safetensors");
         o.weights(o.user, "b.safetensors");
       },
       "the weights the name 'b.safetensors'"},
      {[](const auto& o) { o.ignore(o.user, ""); }, "a pattern of tensors without a name"},
      {[](const auto&) {}, "gave no experiment.toml"},
  };
  for (const Case& one : cases) {
    says = one.says;
    const Error found = error_of([&] { made.read("/folder"); });
    CAPTURE(found.text());
    CHECK(found.code() == PLAIT_ERR_PLUGIN);
    CHECK(contains(found.text(), "[plugin folders] format 'both'"));
    CHECK(contains(found.text(), one.fault));
  }
  says = [](const auto&) { throw std::runtime_error("no folder"); };
  CHECK(contains(error_of([&] { made.read("/folder"); }).text(), "read() of format 'both'"));
  CHECK(contains(error_of([&] { made.write("{}"); }).text(), "write() of format 'both'"));
}

TEST_CASE("after a fault every further call says that the format should stop") {
  const Loaded loaded;
  const config::ItemConfig item = loaded.item("both");
  uint32_t first = 2, bad = 2, next = 2;
  says = [&](const auto& o) {
    first = o.file(o.user, "experiment.toml", "", 0);
    bad = o.place(o.user, nullptr);
    next = o.ignore(o.user, "*");
  };
  CHECK(error_of([&] { format::Format(item, loaded.registry).read("/f"); }).code() ==
        PLAIT_ERR_PLUGIN);
  CHECK(first == 0);
  CHECK(bad == 1);
  CHECK(next == 1);
}

TEST_CASE("a format that only reads, or only writes, says so") {
  const Loaded loaded;
  const config::ItemConfig reads = loaded.item("reads"), writes = loaded.item("writes");
  CHECK(contains(error_of([&] { format::Format(reads, loaded.registry).write("{}"); }).text(),
                 "'reads' reads models and does not write them"));
  CHECK(contains(error_of([&] { format::Format(writes, loaded.registry).read("/f"); }).text(),
                 "'writes' writes models and does not read them"));
}

TEST_CASE("a folder that cannot be imported leaves nothing") {
  const Loaded loaded;
  const config::ItemConfig item = loaded.item("both");
  const format::Format made(item, loaded.registry);
  const test::Folder scratch;
  FileSystem& files = FileSystem::posix();
  const std::string from = scratch.path() + "/from", out = scratch.path() + "/out";
  CHECK(error_of([&] { format::import_model(files, made, from, out); }).code() ==
        PLAIT_ERR_NOT_FOUND);
  files.make_folder(from);
  const std::vector<int64_t> shape{6, 2};
  const std::vector<float> values(12, 1.0f);
  checkpoint::write_safetensors(
      files, from + "/model.safetensors",
      std::vector<checkpoint::TensorSource>{{"t", PLAIT_F32, shape, values.data()}});
  format::Imported done;
  const auto read_as = [&](const char* tensor, int64_t row, int64_t n_rows, uint32_t flags,
                           const char* copy) {
    says = [=](const auto& o) {
      o.file(o.user, "experiment.toml", "x", 1);
      if (copy) o.copy(o.user, "copied", copy);
      place(o, "p", tensor, row, n_rows, flags);
    };
    return error_of([&] { done = format::import_model(files, made, from, out); });
  };
  CHECK(contains(read_as("u", 0, 0, 0, nullptr).text(), "has no tensor 'u' (did you mean 't'?)"));
  CHECK(contains(read_as("t", 0, 5, 0, nullptr).text(), "no parameter has its row 5 of 6"));
  CHECK(
      contains(read_as("t", 0, 7, 0, nullptr).text(), "it has 6 rows, the map takes rows 0 to 7"));
  CHECK(contains(read_as("t", 0, 3, PLAIT_PLACE_TRANSPOSED, nullptr).text(),
                 "it has 2 rows when transposed, the map takes rows 0 to 3"));
  CHECK(contains(read_as("t", 0, 3, PLAIT_PLACE_COLUMNS, nullptr).text(),
                 "it has 2 columns, the map takes columns 0 to 3"));
  CHECK(contains(read_as("t", 0, 1, PLAIT_PLACE_COLUMNS, nullptr).text(),
                 "no parameter has its column 1 of 2"));
  CHECK(contains(read_as("t", 0, 0, 0, "/nonexistent/file").full_text(), "/nonexistent/file"));
  CHECK(files.list(scratch.path()) == std::vector<std::string>{"from"});
  CHECK(read_as("t", 0, 6, 0, nullptr).code() == PLAIT_OK);
  CHECK(files.list(out) == std::vector<std::string>{"experiment.toml", "weights.map.json"});
  CHECK(done.files ==
        std::vector<std::string>{out + "/experiment.toml", out + "/weights.map.json"});
  CHECK(done.parameters == 1);
  CHECK(done.bytes == 48);
  CHECK(read_as("t", 0, 6, 0, nullptr).code() == PLAIT_ERR_INVALID);  // it exists now
}
