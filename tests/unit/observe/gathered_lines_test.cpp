// Lines and records that are collected go out before they take much memory.
#include <doctest/doctest.h>

#include <string>

#include "engine/observe/metrics.hpp"
#include "engine/observe/tensorboard.hpp"
#include "engine/observe/wandb.hpp"
#include "tests/unit/observe/temp_folder.hpp"

using namespace plait::observe;

TEST_CASE("lines are written when 256 KiB of them are together, and no more at once") {
  const TempFolder folder;
  constexpr uint64_t kMost = 256 * 1024;
  uint64_t of_line = 0;
  {
    NdjsonWriter one(folder.files(), folder / "one", "r", no_log());
    one.step({.step = 1000});
    of_line = folder.read("one").size();
  }
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log(), 3'600'000);
  for (int i = 0; i < 10000 && folder.read("m").empty(); ++i) writer.step({.step = 1000});
  CHECK(folder.read("m").size() == kMost / of_line * of_line);
}

TEST_CASE("what is long goes out at once") {
  const TempFolder folder;
  const std::string text(40'000, 't');
  const auto size = [&](const std::string& path) { return folder.files().info(path).size; };
  TensorBoardWriter events(folder.files(), folder.path(), 5.0, no_log());
  events.text("a", 1, 5.0, text);
  CHECK(size(events.path()) > text.size());
  WandbWriter wandb(folder.files(), folder.path(), {"x", "", "", "", "", "", {}, false}, 1.0);
  wandb.scalar(text, 1, 2.0, 1);
  CHECK(size(wandb.path()) < text.size());  // more values may come
  wandb.scalar("b", 2, 2.0, 1);
  CHECK(size(wandb.path()) > 2 * text.size());  // of the history, and of the summary
}
