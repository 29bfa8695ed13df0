// Datasets through data.h, with C++ types.
#pragma once

#include <plait/data.h>

#include <fstream>

#include "tests/unit/host/tokenizers.hpp"

namespace host {

inline void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

class Dataset {
 public:
  Dataset(const Engine& engine, const std::string& toml) {
    plait_dataset* d = nullptr;
    check(plait_dataset_parse(engine.get(), toml.data(), toml.size(), "t.toml", &d));
    dataset_.reset(d);
    plait_text* text = nullptr;
    check(plait_dataset_describe(d, &text));
    facts = nlohmann::json::parse(take(text));
  }
  int64_t samples() const { return facts.at("samples"); }
  template <class T = int32_t>
  std::vector<T> read(const std::string& field, int64_t index) const {
    for (uint32_t f = 0; f < facts.at("fields").size(); ++f) {
      const nlohmann::json& one = facts.at("fields")[f];
      if (one.at("name") != field) continue;
      std::vector<T> to(one.at("bytes").get<size_t>() / sizeof(T));
      check(plait_dataset_read(dataset_.get(), index, f, to.data(), to.size() * sizeof(T)));
      return to;
    }
    throw Failure{PLAIT_ERR_NOT_FOUND, "no field " + field};
  }
  plait_dataset* get() const { return dataset_.get(); }

  nlohmann::json facts;

 private:
  std::unique_ptr<plait_dataset, decltype(&plait_dataset_close)> dataset_{nullptr,
                                                                          plait_dataset_close};
};

}  // namespace host
