// The samples of a batch of [data.train], of all ranks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/data/sample_order.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

class BatchSamples {
 public:
  // batch: counted over all epochs, from 0.
  BatchSamples(const plan::Plan& plan, int64_t batch)
      : BatchSamples(plan::loader_config(plan, "train", true),
                     plan.dataset("train")->info().n_samples, batch) {}

  int64_t epoch() const { return epoch_; }
  int64_t size() const { return end_ - first_; }  // of the last batch of an epoch fewer than others
  // The index in the dataset of row i of the batch; what fills it up is sample 0.
  int64_t operator[](int64_t i) const { return i < size() ? order_(first_ + i) : 0; }

 private:
  BatchSamples(const data::DataLoaderConfig& l, int64_t have, int64_t batch)
      : n_(l.limit > 0 ? std::min(l.limit, have) : have),
        epoch_(batch / data::batches_per_epoch(n_, l.batch)),
        first_(batch % data::batches_per_epoch(n_, l.batch) * l.batch),
        end_(std::min(first_ + l.batch, n_)),
        order_(l.seed, epoch_, n_, l.shuffle) {}

  int64_t n_, epoch_, first_, end_;
  data::SampleOrder order_;
};

}  // namespace plait::session
