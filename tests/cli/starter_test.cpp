// The experiments that `plait new` makes of answers; the questions are in new_test.py.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/new/starter.hpp"

using namespace plait::cli;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string imported(const std::string& tokenizer) {
  return "[run]\nname = \"llama\"\nsteps = 1000\n\n[batch]\nglobal = 8\nmicro = 1\n\n"
         "[data.train]\ntype = \"tokens\"\npath = \"train.bin\"\nlength = 512  # at most 512, x\n"
         "shuffle = true\n\n[optimizer]\ntype = \"adamw\"\n\n[generate]\nlength = 512\n"
         "chat_template = \"llama3\"  # by the markers\n\n" +
         tokenizer + "[model]\nload = \"weights.map.json\"\n";
}

}  // namespace

TEST_CASE("conversations take the place of the tokens of an imported experiment") {
  const std::string text =
      with_conversations(imported("[tokenizer]\ntype = \"hf\"\npath = \"tokenizer.json\"\n\n"),
                         "../chats.jsonl", "tuned", 3);
  CHECK(has(text, "name = \"tuned\"\nsteps"));
  CHECK(has(text,
            "[data.train]\ntype = \"fine_tune\"\nfiles = \"../chats.jsonl\"\n"
            "tokenizer = {type = \"hf\", path = \"tokenizer.json\"}\n"
            "template = \"llama3\"\nlength = 512\n"));
  CHECK(has(text, "[topology]\ndata = 3\n\n[batch]\nglobal = 9\n"));
  CHECK(has(text, "\n\n[optimizer]\n"));
  CHECK_FALSE(has(text, "train.bin"));
  CHECK_THROWS_AS(with_conversations(imported(""), "c.jsonl", "t", 1), CliError);
}

TEST_CASE("columns of a CSV file, for the questions") {
  std::string folder = (std::filesystem::temp_directory_path() / "plait-starter-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()));
  const std::string path = folder + "/t.csv";
  std::ofstream(path) << "\xEF\xBB\xBFsize;\"kind; of\";y\r\n1.5;a;0\r\n2.5;b;4\r\n\r\n0.5;a;0\r\n";
  CsvColumns found = csv_columns(path, "");
  CHECK(found.names == std::vector<std::string>{"size", "kind; of", "y"});
  CHECK(found.labels);
  CHECK(found.largest == 4);
  found = csv_columns(path, "kind; of");
  CHECK_FALSE(found.numbers);
  CHECK(found.different == 2);
  found = csv_columns(path, "size");
  CHECK(found.numbers);
  CHECK_FALSE(found.labels);
  CHECK(found.rows == 3);
  CHECK(found.texts == std::vector<bool>{false, true, false});
  CHECK(found.mean == doctest::Approx(1.5));
  CHECK(found.std == doctest::Approx(std::sqrt(2.0 / 3)));
  std::ofstream(path) << "a;b\n1,5;NA\n2,5;7\n";
  found = csv_columns(path, "a");
  CHECK(found.decimal_comma);
  CHECK(found.numbers);
  CHECK(found.mean == doctest::Approx(2));
  CHECK(found.gaps == std::vector<bool>{false, true});
  CHECK_THROWS_AS(csv_columns(folder + "/no.csv", ""), CliError);
  std::filesystem::remove_all(folder);
}
