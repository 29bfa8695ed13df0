#include "engine/config/near_key.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::config {
namespace {

// What PyTorch, PEFT, the Trainer of transformers, Lightning and Keras call a key, and keys that
// are written without their table. The path of what is in one table alone is whole.
struct Habit {
  std::string_view theirs, path;
};

constexpr Habit kHabits[] = {
    {"lr", "optimizer.learning_rate"},
    {"learning_rate", "optimizer.learning_rate"},
    {"weight_decay", "optimizer.weight_decay"},
    {"schedule", "optimizer.schedule"},
    {"scheduler", "optimizer.schedule"},
    {"lr_scheduler", "optimizer.schedule"},
    {"lr_scheduler_type", "optimizer.schedule"},
    {"layers", "model.layers"},
    {"adapters", "model.adapters"},
    {"batch_size", "batch.global"},
    {"train_batch_size", "batch.global"},
    {"per_device_train_batch_size", "batch.micro"},
    {"micro_batch_size", "batch.micro"},
    {"gradient_accumulation_steps", "batch.accumulation"},
    {"accumulate_grad_batches", "batch.accumulation"},
    {"num_epochs", "run.epochs"},
    {"max_epochs", "run.epochs"},
    {"num_train_epochs", "run.epochs"},
    {"max_steps", "run.steps"},
    {"num_steps", "run.steps"},
    {"output_dir", "run.out"},
    {"dtype", "precision.compute"},
    {"r", "rank"},
    {"lora_alpha", "alpha"},
    {"lora_dropout", "dropout"},
    {"target_modules", "match"},
    {"exclude_modules", "exclude"},
    {"num_virtual_tokens", "n_tokens"},
};

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

bool has_initials(const std::string& key, std::string_view letters) {
  const std::vector<std::string> words = split(key, '_');
  return words.size() > 1 && words.size() == letters.size() &&
         std::equal(words.begin(), words.end(), letters.begin(),
                    [](const std::string& w, char c) { return !w.empty() && w[0] == c; });
}

// "grad" and "gradient" are the same word.
bool same_word(std::string_view a, std::string_view b) {
  constexpr size_t kShortest = 4;
  if (a == b) return true;
  return std::min(a.size(), b.size()) >= kShortest && (a.starts_with(b) || b.starts_with(a));
}

// Words of both, of the words that one or the other has.
double shared_words(const std::string& a, const std::string& b) {
  const std::vector<std::string> left = split(a, '_'), right = split(b, '_');
  const auto shared = std::count_if(left.begin(), left.end(), [&](const std::string& word) {
    return std::any_of(right.begin(), right.end(),
                       [&](const std::string& other) { return same_word(word, other); });
  });
  const double all = static_cast<double>(left.size() + right.size()) - static_cast<double>(shared);
  return all > 0 ? static_cast<double>(shared) / all : 0;
}

}  // namespace

std::string usual_path(std::string_view key) {
  for (const Habit& habit : kHabits)
    if (habit.theirs == key && habit.path.find('.') != std::string_view::npos)
      return std::string(habit.path);
  return "";
}

std::string near_key(const std::string& key, std::span<const std::string> known) {
  for (const Habit& habit : kHabits)
    if (const std::string ours(last_part(habit.path));
        habit.theirs == key && std::find(known.begin(), known.end(), ours) != known.end())
      return ours;
  for (const std::string& k : known)
    if (has_initials(k, key)) return k;
  // A key as short as the distance may share no letter with what is near it.
  if (std::string near = nearest(key, known);
      !near.empty() && edit_distance(key, near) < std::min(key.size(), near.size()))
    return near;
  constexpr double kLeast = 0.5;
  std::string best;
  double most = 0;
  for (const std::string& k : known)
    if (const double share = shared_words(key, k); share >= kLeast && share > most) {
      best = k;
      most = share;
    }
  return best;
}

}  // namespace plait::config
