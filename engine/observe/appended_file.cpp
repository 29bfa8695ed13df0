#include "engine/observe/appended_file.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::observe {

AppendedFile::AppendedFile(FileSystem& files, std::string path, std::string units, Log& log)
    : files_(files),
      path_(std::move(path)),
      units_(std::move(units)),
      log_(log),
      file_(files.open(path_, OpenMode::kAppend)),
      end_(files.info(path_).size) {}

AppendedFile::~AppendedFile() {
  try {
    if (failing_ && put(kept_)) works_again();
    file_->close();
    if (failing_)
      log_.warn(
          strf("[run] the last %ld %s of ", static_cast<long>(n_kept_ + n_lost_), units_.c_str()) +
          path_ + " are missing");
  } catch (const std::exception& e) {
    log_.warn(e.what());
  }
}

void AppendedFile::write(std::string_view text, int64_t n) {
  if (!failing_) {
    if (!put(text)) n_kept_ = n;
    return;
  }
  if (kept_.size() + text.size() > kMostKept) {
    n_lost_ += n;
  } else {
    kept_ += text;
    n_kept_ += n;
  }
  if (put(kept_)) works_again();
}

// Whether all of it was written; else the rest is kept.
bool AppendedFile::put(std::string_view text) {
  try {
    file_->write(text);
    end_ += text.size();
    return true;
  } catch (const Error& e) {
    failed(e.text(), text);
    return false;
  }
}

void AppendedFile::failed(const std::string& why, std::string_view text) {
  uint64_t written = 0;  // before the error
  try {
    const uint64_t size = files_.info(path_).size;
    written = size > end_ ? std::min<uint64_t>(size - end_, text.size()) : 0;
  } catch (const Error&) {
    // A file that cannot be looked at has not grown.
  }
  end_ += written;
  kept_ = std::string(text.substr(written));
  if (std::exchange(failing_, true)) return;
  log_.warn(why +
            "\nThe run continues; what is missing of this file is written when that works again");
}

void AppendedFile::works_again() {
  log_.warn("[run] " + path_ + " is written again; " +
            (n_lost_ > 0 ? strf("%ld %s were lost", static_cast<long>(n_lost_), units_.c_str())
                         : "nothing was lost"));
  kept_.clear();
  n_kept_ = n_lost_ = 0;
  failing_ = false;
}

}  // namespace plait::observe
