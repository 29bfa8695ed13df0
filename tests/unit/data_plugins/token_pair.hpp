// A Megatron pair, .bin and .idx, made by a test.
#pragma once

#include <algorithm>

#include "tests/unit/data_plugins/dataset_bench.hpp"

namespace plait::fake {

using Documents = std::vector<std::vector<int64_t>>;

// The numbers of an .idx file; text() is the file.
struct TokenIndex {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 4;
  std::vector<int32_t> lengths;
  std::vector<int64_t> offsets, documents;
  std::string modes;

  std::string text() const {
    return magic + little(version, 8) + little(code, 1) + little(lengths.size(), 8) +
           little(documents.size(), 8) + raw(lengths) + raw(offsets) + raw(documents) + modes;
  }
};

// One sequence per document, in order.
struct TokenPair {
  TokenIndex index;
  std::string bin;

  explicit TokenPair(const Documents& documents, uint8_t code = 4) {
    index.code = code;
    index.documents = {0};
    for (const auto& tokens : documents) {
      add_sequence(tokens);
      index.documents.push_back(static_cast<int64_t>(index.lengths.size()));
    }
  }
  int size() const { return index.code == 5 ? 8 : index.code == 4 ? 4 : index.code == 8 ? 2 : 1; }
  void add_sequence(const std::vector<int64_t>& tokens) {
    index.lengths.push_back(static_cast<int32_t>(tokens.size()));
    index.offsets.push_back(static_cast<int64_t>(bin.size()));
    for (const int64_t t : tokens) bin += little(static_cast<uint64_t>(t), size());
  }
  // Turns the order of the sequences in the .bin file around; what a document holds stays.
  void reverse_bin() {
    std::string turned;
    for (size_t i = index.lengths.size(); i-- > 0;) {
      const auto begin = static_cast<size_t>(index.offsets[i]);
      index.offsets[i] = static_cast<int64_t>(turned.size());
      turned += bin.substr(begin, static_cast<size_t>(index.lengths[i] * size()));
    }
    bin = turned;
  }
  // Writes t.bin and t.idx; returns the options with the path.
  Options::Given write(const Folder& folder, Options::Given given) const {
    folder.write("t.idx", index.text());
    given["path"] = folder.write("t.bin", bin);
    return given;
  }
};

}  // namespace plait::fake
