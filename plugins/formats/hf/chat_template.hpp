// Which of Plait's chat templates a folder of Hugging Face has.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace plait::hf {

// The name of the template that has the markers of this text in Jinja; "": none is known. What else
// the text does (a system prompt of its own, tools) is not compared.
std::string_view known_template(std::string_view jinja);

// The same for a folder: of chat_template.jinja, or `chat_template` in tokenizer_config.json, of
// several the one that is named "default".
std::string_view template_of(const std::filesystem::path& folder);

}  // namespace plait::hf
