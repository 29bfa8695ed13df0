// Fields that are normalised column by column: which there are, and where programs read their
// numbers. A field with one mean and one deviation for all columns, both given, has them as
// constants of its programs.
//   C columns of a field
#pragma once

#include <plait/dataset.h>

#include <string>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/config/problem.hpp"
#include "engine/plan/storage.hpp"

namespace plait::plan {

struct PlanDraft;
class Dataset;

// y = (x - mean) * inverse. The session writes both before the first launch that reads samples.
struct Normalization {
  std::string field;
  int64_t columns = 1;                     // C; 1: the same for all values of a sample
  bool automatic = false;                  // the numbers are those of [data.train]
  std::vector<double> mean, deviation;     // (C), if they are given
  program::BufferRef mean_at, inverse_at;  // (C), of the type that programs compute in
};

// What [data.X] says about a field; nullptr: nothing.
const config::NormalizeConfig* normalize_of(const config::DatasetConfig& dataset,
                                            const plait_field& field);
// Whether the numbers are not constants of the programs.
bool by_column(const config::NormalizeConfig& n);
// The plan's entry for such a field, made with its memory when it is first asked for.
const Normalization& find_or_add_normalization(PlanDraft& plan, const config::NormalizeConfig& n,
                                               const plait_field& field);

// Adds a problem for each entry that does not fit the fields of its dataset.
void check_normalize(const config::DatasetConfig& config, const Dataset& dataset,
                     config::Problems& problems);
// Adds a problem for each dataset whose fields, as far as programs read them, cannot be normalised
// by the numbers of [data.train]. After the models are traced.
void check_automatic(const PlanDraft& plan, config::Problems& problems);

}  // namespace plait::plan
