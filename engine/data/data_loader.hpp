// Batches from a dataset, in order, read ahead by a thread.
//   B rows of a batch that this loader delivers, n samples of the dataset
#pragma once

#include <plait/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plait::data {

// An opened dataset. Borrowed: it must outlive the loader, and only its info(), read() and
// read_epoch() are called.
struct DatasetSource {
  const plait_dataset_item* item = nullptr;
  const void* dataset = nullptr;
  std::string name;         // for messages: "train", "eval"
  std::string plugin = {};  // for messages
  // What info() would say of a dataset of which no samples are read: `dataset` is not used, and a
  // batch has its position, without fields.
  const plait_dataset_info* described = nullptr;
};

// plait_dataset_item.read_epoch of an item, or nullptr where it has none.
decltype(plait_dataset_item::read_epoch) read_epoch_of(const plait_dataset_item& item);

// What info() of a dataset says. Errors: PLAIT_ERR_PLUGIN. `where` begins the message: "[plugin x]
// dataset 'y'".
void check_info(const plait_dataset_info& info, const std::string& where);

struct DataLoaderConfig {
  int64_t batch = 1;  // samples of a global batch
  uint64_t seed = 0;
  bool shuffle = false;
  int64_t limit = 0;  // only the first `limit` samples of the dataset; 0: all
  int prefetch =
      2;  // batches read ahead by a thread; 0: no thread, next() reads; -1: by their size, 2 to 32
  bool by_epoch = false;    // samples as each epoch has them, if the dataset has read_epoch()
  bool endless = false;     // after the last batch of an epoch comes the first of the next
  int64_t first_batch = 0;  // index of the first batch to deliver, counted over all epochs
  int64_t row_begin =
      0;             // the rows of each global batch that this loader delivers (a rank's share)
  int64_t rows = 0;  // 0: all from row_begin on
};

// A sample's weight, as plait/dataset.h has it.
using Weight = float;
inline constexpr uint32_t kWeightType = PLAIT_F32;

// One batch. The pointers of a slot never change; their content is valid until the following next()
// or seek(). The last batch of an epoch is filled up with sample 0 at weight 0.
struct Batch {
  int64_t index = 0;  // over all epochs
  int64_t epoch = 0;
  int64_t valid = 0;      // of the B rows, how many are samples and no padding
  double weight_sum = 0;  // of the B rows
  std::vector<void*>
      fields;  // one per DataLoader::fields(): (B, sample shape), row-major, 64-aligned
  Weight* weight = nullptr;  // (B)
};

// One consumer thread. Nothing is allocated after the first next(), which starts the thread.
class DataLoader {
 public:
  // Errors: PLAIT_ERR_INVALID for a config that makes no sense, PLAIT_ERR_PLUGIN for a dataset that
  // describes itself wrongly, PLAIT_ERR_DATA for an endless loader over no samples; what info()
  // says.
  DataLoader(DatasetSource source, const DataLoaderConfig& config);
  ~DataLoader();  // stops and joins the thread
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // The next batch, or NULL after the last one (never when endless). An error of read() is thrown
  // by the call that would have delivered the batch, naming batch and epoch, and again by every
  // further call until seek().
  const Batch* next();
  // The next batch delivered will be this one. 0 <= index; beyond the end: next() returns NULL.
  // Clears an error.
  void seek(int64_t batch_index);
  // The index of the batch that next() delivers: what a checkpoint keeps as the cursor.
  int64_t position() const;

  int64_t samples() const;            // n, after `limit`
  int64_t batches_per_epoch() const;  // ceil(n / batch)
  int64_t rows() const;               // B
  // The fields of a batch, in the dataset's order, without the one whose role is
  // PLAIT_FIELD_WEIGHT: that becomes weight.
  const std::vector<plait_field>& fields() const;
  uint64_t fingerprint() const;  // of the dataset

  // The memory that a loader with this config holds for batches, before anything is opened. Fields
  // as the dataset declares them, the weight included. Errors: PLAIT_ERR_INVALID when the sizes
  // overflow.
  static uint64_t host_bytes(const DataLoaderConfig& config, const plait_field* fields,
                             uint32_t n_fields);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plait::data
