// Opens a dataset of a data plugin over files created by the test.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/support/fake_host.hpp"

namespace plait::fake {

// A program may set others before it opens a dataset.
inline std::vector<std::string> data_plugin_names = {"idx",         "csv",       "npy",
                                                     "safetensors", "synthetic", "tokens"};

inline const Host& data_plugins() {
  static const Host* host = [] {
    auto* h = new Host;
    for (const std::string& name : data_plugin_names) h->load("data-" + name);
    return h;
  }();
  return *host;
}

// A folder of its own, removed with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "plait-data-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& file) const { return (path_ / file).string(); }
  // Writes a file; returns its path as a TOML string.
  std::string write(const std::string& file, const std::string& content) const {
    std::ofstream(path(file), std::ios::binary) << content;
    return "\"" + path(file) + "\"";
  }

 private:
  std::filesystem::path path_;
};

class Dataset {
 public:
  Dataset(const std::string& name, const Options::Given& given)
      : item_(data_plugins().item<plait_dataset_item>(PLAIT_KIND_DATASET, name)),
        options_(options_of(item_, given)) {
    check(item_.open(data_plugins().raw(), options_->raw(), &dataset_));
    info_.struct_size = sizeof info_;
    check(item_.info(dataset_, &info_));
  }
  Dataset(const Dataset&) = delete;
  ~Dataset() { item_.close(dataset_); }

  const plait_dataset_info& info() const { return info_; }
  std::string field(uint32_t i) const { return info_.fields[i].name; }
  std::vector<int64_t> dims(uint32_t i) const {
    const plait_shape& s = info_.fields[i].shape;
    return {s.dims, s.dims + s.ndim};
  }
  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const {
    return item_.text_of(dataset_, field, what, index);
  }
  // The values of field i for these samples; with an epoch, as that has them.
  template <class T>
  std::vector<T> read(uint32_t i, const std::vector<int64_t>& indices, int64_t epoch = -1) const {
    std::vector<std::vector<char>> buffers;
    std::vector<void*> outs;
    for (uint32_t f = 0; f < info_.n_fields; ++f) {
      size_t bytes = 8 * indices.size();
      for (const int64_t d : dims(f)) bytes *= static_cast<size_t>(d);
      buffers.emplace_back(bytes);
      outs.push_back(buffers.back().data());
    }
    check(epoch < 0
              ? item_.read(dataset_, indices.data(), indices.size(), outs.data())
              : item_.read_epoch(dataset_, epoch, indices.data(), indices.size(), outs.data()));
    size_t n = indices.size();
    for (const int64_t d : dims(i)) n *= static_cast<size_t>(d);
    std::vector<T> values(n);
    if (n) std::memcpy(values.data(), buffers[i].data(), n * sizeof(T));
    return values;
  }

 private:
  const plait_dataset_item& item_;
  std::unique_ptr<Options> options_;
  void* dataset_ = nullptr;
  plait_dataset_info info_{};
};

// The text of the error from open, with `folder` removed from paths.
inline std::string open_error(const std::string& name, const Options::Given& given,
                              uint32_t code = PLAIT_ERR_DATA) {
  try {
    Dataset d(name, given);
  } catch (const Failure& e) {
    CHECK(e.code == code);
    std::string text = e.what();
    // [part] option '/long/path/file' → [part] option 'file'
    const size_t open = text.find("'/");
    const size_t close = open == std::string::npos ? open : text.find('\'', open + 1);
    if (close != std::string::npos) text.erase(open + 1, text.rfind('/', close) - open);
    return text;
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// `n` bytes of v, little-endian.
inline std::string little(uint64_t v, int n) {
  std::string s;
  for (int i = 0; i < n; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}
template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace plait::fake
