// The questions of `plait new` on a terminal; each has a default answer.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "bindings/cli/new/starter.hpp"

namespace plait::cli {

class Interview {
 public:
  // text_classes: whether the dataset of CSV files takes texts as classes.
  Interview(std::istream& in, std::ostream& out, bool text_classes)
      : in_(in), out_(out), text_classes_(text_classes) {}

  std::string name(const std::string& usual) { return ask("name of the folder to make", usual); }
  // Errors: CliError at the end of the input.
  Answers answers();
  // Of Task::kFineTune: the folder of the model.
  const std::string& model() const { return model_; }

 private:
  std::string ask(const std::string& question, const std::string& usual);
  // The number of an answer, from 0.
  size_t choose(const std::string& question, const std::vector<std::string>& all, size_t usual);
  int64_t ask_number(const std::string& question, int64_t usual, int64_t least, int64_t most);
  // Asks until a path exists and is a file, or a folder.
  std::string ask_file(const std::string& question, const std::string& usual, bool folder = false);
  // Asks until no reason speaks against the answer.
  std::string ask_until(const std::string& question, const std::string& usual,
                        const std::function<std::string(const std::string&)>& reason);
  std::string ask_evaluation(const Answers& a);
  void images(Answers& a);
  void columns(Answers& a);

  std::istream& in_;
  std::ostream& out_;
  bool text_classes_;
  std::string model_;
};

}  // namespace plait::cli
