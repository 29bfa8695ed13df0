// A conversation with a model: what was said so far, and the file in which it is kept.
#pragma once

#include <plait/encode.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

class Conversation {
 public:
  struct Turn {
    std::string role, text;
    Json rest = Json::object();  // other keys that its file gave it
  };

  // Keeps it in the file at `path`, and begins with what that file holds: the text is
  // {"messages": [{"role", "content"}, ...]}, as the dataset fine_tune reads it. Other keys stay
  // in the file.
  // Errors: CliError for a file that cannot be read, or holds anything else.
  void open(const std::string& path);
  // From now on it is kept at `path`, where nothing may be. Errors: CliError; nothing has changed.
  void keep_in(const std::string& path);
  // Forgets all turns but what the system said first. Its file stays as it is, and is left.
  void begin_anew();

  void add(std::string role, std::string text) {
    turns_.push_back({.role = std::move(role), .text = std::move(text)});
  }
  void take_back() { turns_.pop_back(); }
  // Writes the file, if there is one. Errors: CliError.
  void write() const;

  bool empty() const { return turns_.empty(); }
  size_t size() const { return turns_.size(); }
  const std::string& path() const { return path_; }
  const Turn& back() const { return turns_.back(); }
  bool has_system() const { return !turns_.empty() && turns_.front().role == "system"; }
  // Valid until the next change.
  std::vector<plait_chat_message> messages() const;

 private:
  std::deque<Turn> turns_;
  std::string path_;            // "": it is kept nowhere
  Json rest_ = Json::object();  // what its file holds beside the messages
};

}  // namespace plait::cli
