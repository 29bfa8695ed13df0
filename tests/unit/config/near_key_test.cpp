#include <doctest/doctest.h>

#include <vector>

#include "engine/config/near_key.hpp"

using plait::config::near_key;

TEST_CASE("a key that is not known: what was probably meant") {
  const std::vector<std::string> known = {"attention_dropout",
                                          "beta1",
                                          "clip_grad_norm",
                                          "decay_steps",
                                          "dropout",
                                          "eps",
                                          "k",
                                          "learning_rate",
                                          "match",
                                          "momentum",
                                          "total_steps",
                                          "warmup_steps",
                                          "weight_decay"};
  struct Case {
    const char *key, *meant;
  };
  const Case cases[] = {
      {"lr", "learning_rate"},  // initials
      {"wd", "weight_decay"},
      {"cgn", "clip_grad_norm"},
      {"learnig_rate", "learning_rate"},  // letters
      {"mach", "match"},
      {"max_grad_norm", "clip_grad_norm"},  // words
      {"gradient_clip_norm", "clip_grad_norm"},
      {"warmup", "warmup_steps"},
      {"dropout_rate", "dropout"},
      {"weight_decay_rate", "weight_decay"},
      {"bs", ""},  // as far from "k" as from any other letter
      {"l", ""},
      {"activation", ""},
      {"max_new_tokens", ""},
      {"_", ""},
      {"", ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.key);
    CHECK(near_key(c.key, known) == c.meant);
  }
  CHECK(near_key("lr", {}) == "");
  // The beginning of a word, of four letters or more, is the word.
  const std::vector<std::string> words = {"limit_of_gradient", "car_max"};
  CHECK(near_key("grad_limit", words) == "limit_of_gradient");
  CHECK(near_key("gradients_and_limits", words) == "limit_of_gradient");
  CHECK(near_key("cargo", words) == "");

  // What other libraries call it.
  const std::vector<std::string> adapter = {"alpha", "dropout", "exclude", "match", "rank"};
  CHECK(near_key("r", adapter) == "rank");
  CHECK(near_key("target_modules", adapter) == "match");
  CHECK(near_key("batch_size", std::vector<std::string>{"batch", "global"}) == "global");
  CHECK(plait::config::usual_path("lr") == "optimizer.learning_rate");
  CHECK(plait::config::usual_path("learning_rate") == "optimizer.learning_rate");
  CHECK(plait::config::usual_path("adapters") == "model.adapters");
  for (const char* key : {"scheduler", "lr_scheduler", "lr_scheduler_type"})
    CHECK(plait::config::usual_path(key) == "optimizer.schedule");
  CHECK(plait::config::usual_path("r") == "");
}
