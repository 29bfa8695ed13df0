// Whether the numbers of a field stand for the same in two datasets, as far as these say what their
// numbers stand for: classes by their ids, columns by their names.
#pragma once

#include <plait/dataset.h>

#include <functional>
#include <string>

namespace plait::kit {

// A field that two datasets have.
struct FieldTexts {
  std::string who;  // the dataset, for messages: "[data.eval]"
  // plait_dataset_item.text_of of the field.
  std::function<const char*(uint32_t what, uint64_t index)> text_of;
};

// What to do about one, for messages.
constexpr const char* kSameNumbers =
    "take the classes from one file (`fit_on`) or list them (`classes`), name the columns in one "
    "order (`input`), or give folders of images the same folders of classes";

// The first contradiction: a class of another number, columns in another order, categories that are
// columns of 0 and 1 and have other texts. "": there is none. A dataset without such texts
// contradicts nothing, and columns may be called otherwise, as in a file without names.
std::string contradiction(const plait_field& field, const FieldTexts& own, const FieldTexts& other);

}  // namespace plait::kit
