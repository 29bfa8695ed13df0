#include "bindings/cli/generate/conversation.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bindings/cli/context.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {

constexpr uintmax_t kMost = 64 << 20;  // no conversation has so many bytes

CliError unfit(const std::string& path, const std::string& what) {
  return {kUsage, "[generate] the conversation '" + path + "' " + what +
                      R"(, expected {"messages": [{"role": "user", "content": "..."}, ...]})"
                      "; give another file, or a name that is free"};
}

std::string text_of(const std::string& path) {
  std::error_code reason;
  const uintmax_t size = std::filesystem::file_size(path, reason);
  if (!reason && size > kMost) throw unfit(path, strf("has %ju bytes, more than %ju", size, kMost));
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (reason || !file)
    throw CliError(kUsage, "[generate] the conversation '" + path + "' cannot be read" +
                               (reason ? ": " + reason.message() : ""));
  return text;
}

Conversation::Turn turn_of(const std::string& path, const Json& message, size_t i) {
  const auto text = [&](const char* key) {
    const auto at = message.is_object() ? message.find(key) : message.end();
    if (!message.is_object() || at == message.end() || !at->is_string())
      throw unfit(path, strf("has no text '%s' in message %zu", key, i));
    return at->get<std::string>();
  };
  return {text("role"), text("content"), message};
}

}  // namespace

void Conversation::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    Json all = Json::parse(text_of(path), nullptr, false);
    if (all.is_discarded()) throw unfit(path, "is not one JSON object");
    if (!all.is_object() || !all.contains("messages") || !all["messages"].is_array())
      throw unfit(path, "has no list 'messages'");
    for (const Json& message : all["messages"])
      turns_.push_back(turn_of(path, message, turns_.size()));
    if (!turns_.empty() && turns_.back().role == "user")
      throw CliError(kUsage, "[generate] the conversation '" + path +
                                 "' ends with a message of the user, expected one of the "
                                 "assistant; remove it, and say it again");
    rest_ = std::move(all);
  }
  const bool is_new = !std::filesystem::exists(path, ignored);
  path_ = path;
  if (is_new) write();  // a file that cannot be written is found now, not after the first answer
}

void Conversation::keep_in(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    throw CliError(kUsage, "[generate] '" + path + "' exists; choose another name");
  const std::string before = std::exchange(path_, path);
  try {
    write();
  } catch (...) {
    path_ = before;
    throw;
  }
}

void Conversation::begin_anew() {
  path_.clear();
  rest_ = Json::object();
  while (turns_.size() > (has_system() ? 1 : 0)) turns_.pop_back();
}

void Conversation::write() const {
  if (path_.empty()) return;
  Json all = rest_, messages = Json::array();
  for (const Turn& turn : turns_) {
    Json& message = messages.emplace_back(turn.rest);
    message["role"] = turn.role;
    message["content"] = turn.text;
  }
  all["messages"] = std::move(messages);
  // What a model writes need not be UTF-8.
  write_whole_file(path_, all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<plait_chat_message> Conversation::messages() const {
  std::vector<plait_chat_message> all;
  for (const Turn& turn : turns_)
    all.push_back({turn.role.c_str(), turn.text.data(), turn.text.size()});
  return all;
}

}  // namespace plait::cli
