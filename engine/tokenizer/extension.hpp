// The host's table "plait.tokenizers/1": plugins use tokenizers of other plugins.
#pragma once

#include <plait/tokenizer.h>

namespace plait::tokenizer {

const plait_tokenizers_table* tokenizers_table();

}  // namespace plait::tokenizer
