// Mean and deviation of the columns of a field, over all samples of a dataset.
//   C columns: numbers of a sample, or 1 for all of them together
#pragma once

#include <string>
#include <vector>

#include "engine/data/data_loader.hpp"

namespace plait::data {

struct ColumnStatistics {
  std::vector<double> mean, deviation;  // (C); the deviation of the population
  int64_t samples = 0;
};

// Reads the samples once, in their order, by one thread that reads ahead: a pure function of the
// dataset and its limit. Sums are f64, of differences from the first sample. by_column: C is the
// number of elements of a sample, else 1. Fields of real numbers or u8.
// Errors: PLAIT_ERR_DATA for a number that is not finite, naming sample and column, and for a
// dataset without samples; those of read().
ColumnStatistics column_statistics(const DatasetSource& source, const std::string& field,
                                   bool by_column, int64_t limit);

}  // namespace plait::data
