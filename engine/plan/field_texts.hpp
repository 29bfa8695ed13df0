// The fields of a dataset as texts: "x: input f32 [28,28]", which stand for it where its samples
// are not there.
#pragma once

#include <plait/dataset.h>

#include <string>
#include <vector>

#include "engine/config/experiment.hpp"

namespace plait::plan {

// The texts of data.NAME.fields. Empty: the dataset is opened, and tells its fields itself.
inline const std::vector<std::string>& fields_given(const config::DatasetConfig& dataset) {
  return dataset.keys.get_texts("fields");
}

std::string field_text(const plait_field& field);

// A field, whose name lies in `name`.
struct ParsedField {
  std::string name;
  plait_field field = {};
};
// Errors: PLAIT_ERR_CONFIG for a text that is none, with what was expected.
ParsedField parse_field(const std::string& text);

}  // namespace plait::plan
