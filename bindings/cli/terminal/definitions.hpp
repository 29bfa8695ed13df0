// Names with texts that explain them.
#pragma once

#include <string>

namespace plait::cli {

// "  name   text" with the text in column `begin`, in lines that fit `columns`: its other lines lie
// below its first. A name that reaches the text, and every name where too few columns are left for
// texts, has a line of its own. columns 0: the text is one line, whatever its length. Ends in a
// newline. indent: columns in front of names.
std::string definition(const std::string& name, const std::string& text, int begin, int columns,
                       bool utf8, int indent = 2);

}  // namespace plait::cli
