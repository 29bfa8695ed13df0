// Samples on their way into a program: from a loader's batch, or from tensors that the host brings.
//   G samples of a global batch, B of a micro-batch
#pragma once

#include <plait/tensor.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/data_loader.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// A field that the host brings; the tensor is borrowed for the call.
struct HostField {
  std::string name;
  const plait_dl_tensor* tensor = nullptr;
};

// Element types of DLPack, one lane. from_dl(): 0 for a type that is none of ours.
plait_dl_dtype to_dl(uint32_t dtype);
uint32_t from_dl(const plait_dl_dtype& type);

class Feeder {
 public:
  // feed: all that programs read, in whichever of them. global: samples that one set_batch() holds.
  // device: of the session, where tensors of the host may lie as well; borrowed.
  Feeder(const plan::Feed& feed, const plan::Dataset& dataset, int64_t global,
         const runtime::Device& device);

  // Takes what a loader delivered; borrowed until the next set_batch().
  void set_batch(const data::Batch& batch);
  // Takes the host's tensors; returns the number of samples. Fields that are not given are zero
  // when `partial`. Tensors on the device, and what fills a whole batch, are borrowed until the
  // next set_batch(); shorter tensors of the host's memory are copied. Zeros follow. Errors:
  // PLAIT_ERR_INVALID naming the field, what was found and what is expected.
  int64_t set_batch(const std::vector<HostField>& fields, bool partial);
  // Writes micro-batch m of what was staged into a program's inputs, on one of its slots. step,
  // first_sample: what random numbers are counted by. On a device with memory of its own it leaves
  // from two pinned copies in turn, and what is staged is free at once; else it is borrowed until
  // the queue has run.
  void feed(runtime::Executor& executor, const plan::Feed& to, int64_t m, int32_t slot,
            int64_t step, int64_t first_sample);

  // Copies tensors on the device to where the functions below see them; else these leave them out.
  // indices_only: nothing else is looked at. Waits.
  void fetch(runtime::Executor& executor, bool indices_only);
  // Of what is staged, what an op that reads it cannot take; with or without labels.
  struct OutOfRange {
    const plan::Field* field = nullptr;  // nullptr: everything fits
    const plan::IndexRange* bound = nullptr;
    int64_t value = 0;    // the first one
    int64_t largest = 0;  // of all values of the field
  };
  OutOfRange find_out_of_range(bool labels = true) const;
  // Of what is staged, the first number that is not finite: "field 'input' of its sample 3 is nan",
  // or "". named: what to call a row of it in place of "its sample 3"; may be empty.
  std::string non_finite_text(const std::function<std::string(int64_t row)>& named = {}) const;

 private:
  // The rows of a field: G in host memory, or `rows` on the device, behind which zeros are fed.
  struct Source {
    const char* data = nullptr;
    int64_t rows = 0;
    bool on_device = false;
    const char* visible = nullptr;  // G rows that the host can look at; nullptr: there are none
  };
  Source whole(const void* data) const;
  uint64_t block_bytes() const;
  bool on_device(const plait_dl_tensor& tensor) const;
  int64_t samples_of(const HostField& f, const plait_shape& sample) const;
  void check_place(const plait_dl_tensor& tensor, const std::string& where) const;
  void check_names(const std::vector<HostField>& fields) const;
  void stage(size_t field, const plait_dl_tensor* tensor, int64_t samples);
  void feed_rows(runtime::Executor& executor, char* to, const Source& from, uint64_t row_bytes,
                 int64_t m);

  const plan::Feed& feed_;
  int64_t global_;
  const runtime::Device& device_;
  std::vector<std::vector<char>> owned_;    // (G, sample) of each field of the feed, made when the
                                            // host first feeds less than that, or fetch() needs it
  std::vector<data::Weight> owned_weight_;  // (G)
  std::vector<char> zeros_;                 // rows of a micro-batch, made when first needed
  std::vector<Source> batch_;               // per field of the feed
  Source weight_;
  std::vector<std::array<int64_t, 2>> counters_;  // per micro-batch
  std::optional<runtime::Uploads> uploads_;       // made by the first feed()
};

}  // namespace plait::session
