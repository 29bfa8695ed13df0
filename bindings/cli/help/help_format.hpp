// How `plait help` lays out its text: in lines that fit the window.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace plait::cli {

// columns 0: lines have any length.
std::shared_ptr<CLI::FormatterBase> help_format(int columns, bool utf8);

}  // namespace plait::cli
