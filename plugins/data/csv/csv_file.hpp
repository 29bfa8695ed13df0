// CSV as in RFC 4180, and as people have it: cells between separators, optionally in double quotes
// ("" inside is a quote), lines ending in LF, CRLF or CR; texts that are classes, missing cells.
#pragma once

#include "plugins/support/file_bytes.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plait::data::csv {

enum class Header : uint8_t { kAuto, kYes, kNo };
enum class TargetType : uint8_t { kReal, kInteger, kClass };
enum class Missing : uint8_t { kError, kMean, kZero, kNan, kDrop };

// The columns to read: by their names in the header, or without a header by their numbers from 0.
struct Request {
  Header header = Header::kYes;
  char separator = ',';               // 0: found out
  char decimal = '.';                 // or ','
  std::vector<std::string> input;     // empty: every column without another role
  std::vector<std::string> target;    // may be empty
  std::string weight;                 // empty: none
  std::string key;                    // empty: none
  std::vector<std::string> integers;  // each a field of its own; may be empty
  TargetType target_type = TargetType::kReal;
  std::vector<std::string> classes;     // texts of the target by their ids; empty: found out
  std::vector<std::string> categories;  // input columns of texts; "*": those that hold a text
  bool one_hot = true;                  // a category becomes a column for each text; else its id
  Missing missing = Missing::kError;
  std::vector<std::string> missing_texts;  // cells that are missing; blanks around them are no part
  std::string missing_begin;               // their first characters; parse() sets it
};

// What is found out from a file: texts of each column of categories by their ids, and the mean of
// each numeric input. A pure function of the file and the request.
struct Fit {
  std::map<std::string, std::vector<std::string>> categories;  // by column
  std::vector<std::string> classes;
  std::map<std::string, double> means;  // by column; only with Missing::kMean
};

// N rows. Only the requested cells are parsed.
struct Table {
  int64_t rows = 0;
  int64_t dropped = 0;  // lines with a missing cell
  // Of the columns of `input` and `category`, and of `target`.
  std::vector<std::string> input_names, category_names, target_names;
  bool header = false;  // the first line held names
  size_t inputs = 0, targets = 0, categories = 0;
  support::Bytes input;     // (N, inputs) f32: columns in their order, a one-hot category as many
  support::Bytes target;    // (N, targets) f32 or i32
  support::Bytes weight;    // (N) f32, or nothing
  support::Bytes key;       // (N) i64, hashes of the texts; or nothing
  support::Bytes category;  // (N, categories) i32, ids, -1: missing; nothing if they are one-hot
  std::vector<support::Bytes> integers;  // (N) i32 each, in the order of the request
  Fit fit;
};

// fitted: of another file; null: of this one.
// Errors: PLAIT_ERR_DATA naming line and column, PLAIT_ERR_CONFIG for columns that do not exist.
Table parse(const support::SourceFile& source, std::string_view text, const Request& request,
            const Fit* fitted = nullptr);

}  // namespace plait::data::csv
