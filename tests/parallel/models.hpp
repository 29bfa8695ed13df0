// Experiments of the tests in this folder. `folder` holds their data: a few dozen samples, the last
// batch incomplete.
#pragma once

#include <string>

#include "tests/support/folder.hpp"

namespace parallel {

using plait::test::Folder;

// An MLP of 7 layers with dropout, a layer norm, a tied layer, two parameter groups, clipping,
// weighted samples. Every ignored-th label is -1; 0: none.
std::string model(const Folder& folder, int ignored = 0);
// The same with 16 layers, so that 8 ranks can have two stages each: one parameter with three
// readers, a frozen layer.
std::string deep_model(const Folder& folder);
constexpr int kDeepLayers = 16;
// A student that reads values inside a frozen teacher, and learns to predict the teacher's output.
std::string distillation_model(const Folder& folder);
// The same student learns from labels as well, of which a third is ignored: its losses count
// different weights.
std::string labelled_distillation_model(const Folder& folder);
// Ids through an embedding, two branches that join, a norm over a sharded dimension, reshapes in
// between.
std::string mixed_model(const Folder& folder);
// Predicts the next id: an embedding whose table is also the weight of the last layer.
// `vocabulary`: number of ids.
std::string vocabulary_model(const Folder& folder, int vocabulary);
// Three decoder blocks: learned positions and a window, then rotary ones with fewer key heads than
// query heads; dropout of weights and results.
std::string transformer_model(const Folder& folder);
// Three blocks with experts: gated, more than ranks divide; one of a token, without a gate; all.
std::string experts_model(const Folder& folder);
// Small language models, each with a recipe as such models are trained by. Three blocks with rotary
// positions, gated MLPs and two query heads per key head, as in Llama.
std::string llama_model(const Folder& folder);
// Three blocks with learned positions, biases, three kinds of dropout and a tied head, as in GPT-2.
std::string gpt2_model(const Folder& folder);

}  // namespace parallel
