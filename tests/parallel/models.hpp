// Experiments of the tests beside this file. The folder holds their data: a few dozen samples, the last batch incomplete.
#pragma once

#include <string>

#include "tests/support/folder.hpp"

namespace parallel {

using plait::test::Folder;

// An MLP of 7 layers with dropout, a layer norm, a tied layer, two parameter groups, clipping, weighted samples.
std::string model(const Folder& folder);
// The same with 16 layers, so that 8 ranks may have two stages each: one parameter with three readers, a frozen layer.
std::string deep_model(const Folder& folder);
constexpr int kDeepLayers = 16;
// A student that reads what is inside a frozen teacher, and learns to say what the teacher says.
std::string distillation_model(const Folder& folder);
// Ids through an embedding, two branches that meet again, a norm over a shared dimension, shapes in between.
std::string mixed_model(const Folder& folder);
// Ids that predict the next one: an embedding whose table is that of the last layer, too. `vocabulary` of them.
std::string vocabulary_model(const Folder& folder, int vocabulary);

}  // namespace parallel
