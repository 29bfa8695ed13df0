#include "engine/observe/appended_file.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::observe {

const Units kLines = {"lines", [](std::string_view text) {
                        const size_t end = text.find('\n');
                        return end == std::string_view::npos ? text.size() : end + 1;
                      }};

AppendedFile::AppendedFile(FileSystem& files, std::string path, const Units& units, Tell tell)
    : path_(std::move(path)),
      units_(units),
      tell_(std::move(tell)),
      file_(files.open(path_, OpenMode::kAppend)) {}

AppendedFile::AppendedFile(FileSystem& files, std::string path, const Units& units, Log& log)
    : AppendedFile(files, std::move(path), units,
                   [&log](const std::string& text) { log.warn(text); }) {}

AppendedFile::~AppendedFile() {
  try {
    if (failing_) write({});
    file_->close();
    if (failing_)
      tell_(strf("[run] the last %ld %s of ", static_cast<long>(count(kept_) + n_lost_),
                 units_.name) +
            path_ + " are missing");
  } catch (const std::exception& e) {
    try {
      tell_(e.what());
    } catch (const std::exception&) {
      // Nobody can be told.
    }
  }
}

void AppendedFile::write(std::string_view text) {
  if (!kept_.empty() && !put(kept_, kept_written_)) {
    // Behind units that are lost none is kept: a reader would see several gaps.
    losing_ = losing_ || kept_.size() + text.size() > kMostKept;
    if (losing_)
      n_lost_ += count(text);
    else
      kept_ += text;
    return;
  }
  losing_ = false;
  if (!put(text, 0) || !std::exchange(failing_, false)) return;
  const int64_t lost = std::exchange(n_lost_, 0);
  tell_("[run] " + path_ + " is written again; " +
        (lost > 0 ? strf("%ld %s were lost", static_cast<long>(lost), units_.name)
                  : "nothing was lost"));
}

// Whether all of a text is in the file now; so many bytes of it were. Else its units that are not
// complete there are kept.
bool AppendedFile::put(std::string_view text, uint64_t written) {
  const uint64_t before = file_->written();
  std::string why;
  try {
    file_->write(text.substr(written));
    kept_.clear();
    return true;
  } catch (const Error& e) {
    why = e.text();
  }
  written += file_->written() - before;
  while (!text.empty()) {
    const size_t size = units_.first(text);
    if (size > written) break;
    text.remove_prefix(size);
    written -= size;
  }
  kept_ = std::string(text);
  kept_written_ = written;
  if (!std::exchange(failing_, true))
    tell_(why +
          "\nThe run continues; what is missing of this file is written when that works again");
  return false;
}

int64_t AppendedFile::count(std::string_view text) const {
  int64_t n = 0;
  while (!text.empty()) {
    const size_t size = std::min(units_.first(text), text.size());
    n += size > 1;
    text.remove_prefix(size);
  }
  return n;
}

}  // namespace plait::observe
