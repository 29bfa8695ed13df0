// The memory of a loader: a ring of batches in one aligned block, and the checks of what it is
// sized from.
#pragma once

#include <plait/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/data_loader.hpp"

namespace plait::data {

// Errors: PLAIT_ERR_INVALID naming the number.
void check_config(const DataLoaderConfig& config);
// Errors: PLAIT_ERR_PLUGIN naming the field. `where` begins the message: "[plugin x] dataset 'y'".
void check_fields(const plait_field* fields, uint32_t n_fields, const std::string& where);
int64_t rows_of(const DataLoaderConfig& config);

struct BatchSlot {
  Batch batch;
  std::vector<void*>
      outs;  // one per field of the dataset, the weight field included: what read() gets
  Weight* weight = nullptr;
};

class BatchSlots {
 public:
  BatchSlots(const DataLoaderConfig& config, const plait_field* fields, uint32_t n_fields);
  BatchSlot& operator[](size_t i) { return slots_[i]; }
  size_t count() const { return slots_.size(); }
  int64_t* indices() const { return indices_; }
  bool has_weight_field() const { return has_weight_field_; }
  static uint64_t bytes(const DataLoaderConfig& config, const plait_field* fields,
                        uint32_t n_fields);

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> memory_;
  std::vector<BatchSlot> slots_;
  int64_t* indices_ = nullptr;
  bool has_weight_field_ = false;
};

}  // namespace plait::data
