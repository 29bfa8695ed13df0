#include "plugins/data/npy/npy_file.hpp"

#include <charconv>
#include <string_view>

#include "kit/dtype.hpp"

namespace plait::data::npy {
namespace {

constexpr size_t kMaxHeader = kMaxHead - 12;

struct Type {
  std::string_view name;
  uint32_t dtype;
};
constexpr Type kTypes[] = {{"<f2", PLAIT_F16}, {"<f4", PLAIT_F32}, {"<f8", PLAIT_F64},
                           {"<i4", PLAIT_I32}, {"<i8", PLAIT_I64}, {"|u1", PLAIT_U8},
                           {"|b1", PLAIT_U8}};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in whatever order of keys.
class Dict {
 public:
  Dict(const support::SourceFile& source, std::string_view text, size_t offset)
      : source_(source), text_(text), offset_(offset) {}

  void read(Header& header) {
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted("a key");
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0)
        bad("unknown key '" + std::string(key.substr(0, 40)) +
            "', expected descr, fortran_order and shape");
      if (seen[which]) bad("key '" + std::string(key) + "' comes twice");
      seen[which] = true;
      if (which == 0) read_type(header);
      if (which == 1) header.by_column = read_order();
      if (which == 2) read_shape(header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2])
      bad("the header lacks one of descr, fortran_order and shape");
    skip_blank();
    if (at_ != text_.size()) bad("text after the header's closing brace");
  }

 private:
  [[noreturn]] void bad(const std::string& text) const {
    source_.bad(offset_ + at_, text + "; write the file again with numpy.save");
  }
  void skip_blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_blank();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("expected '") + c + "' in the header");
  }
  std::string_view quoted(const char* what) {
    skip_blank();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      bad(std::string("expected ") + what + " in quotes");
    const size_t begin = at_ + 1, end = text_.find(text_[at_], begin);
    if (end == std::string_view::npos) bad("a quote never closes");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }
  void read_type(Header& header) {
    const std::string_view name = quoted("the element type");
    for (const Type& t : kTypes)
      if (t.name == name) header.dtype = t.dtype;
    if (header.dtype == 0)
      source_.bad(
          offset_ + at_,
          "element type '" + std::string(name.substr(0, 40)) +
              "', expected one of <f2 <f4 <f8 <i4 <i8 |u1 |b1; convert with array.astype(...)");
  }
  bool read_order() {
    skip_blank();
    const std::string_view rest = text_.substr(at_);
    const bool by_column = rest.starts_with("True");
    if (!by_column && !rest.starts_with("False")) bad("fortran_order is neither True nor False");
    at_ += by_column ? 4 : 5;
    return by_column;
  }
  void read_shape(Header& header) {
    expect('(');
    while (!accept(')')) {
      skip_blank();
      int64_t extent = -1;
      const auto [end, status] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (status != std::errc() || extent < 0)
        bad("an extent of the shape is no number from 0 to 2^63");
      at_ = static_cast<size_t>(end - text_.data());
      if (header.dims.size() == PLAIT_MAX_NDIM) bad("more than 8 axes");
      header.dims.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  const support::SourceFile& source_;
  std::string_view text_;
  size_t offset_, at_ = 0;
};

}  // namespace

Header parse(const support::SourceFile& source, std::span<const uint8_t> file, uint64_t size) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("PK\3\4"))
    source.bad(0,
               "this is an .npz file; set type = \"npz\", with path and the names of its arrays");
  if (!text.starts_with("\x93NUMPY") || text.size() < 10)
    source.bad(
        0, "this is no .npy file: it does not begin with \\x93NUMPY and a version; check the path");
  const uint8_t version = file[6];
  if (version < 1 || version > 3)
    source.bad(6, "version " + std::to_string(version) +
                      ", expected 1, 2 or 3; write it again with numpy.save");
  const size_t start = version == 1 ? 10 : 12;
  if (text.size() < start)
    source.bad(text.size(), "the file is cut off in its first bytes; copy it again");
  size_t length = file[8] | size_t{file[9]} << 8;
  if (version > 1) length |= size_t{file[10]} << 16 | size_t{file[11]} << 24;
  if (length > kMaxHeader || length > text.size() - start)
    source.bad(8,
               "the header is " + std::to_string(length) + " bytes long, " +
                   std::to_string(size - start) +
                   " follow, and 1 MiB is the most; the file is cut off or damaged: copy it again");

  Header header;
  header.offset = start + length;
  Dict(source, text.substr(start, length), start).read(header);
  if (header.dims.empty())
    source.bad(start,
               "the array is a single number, expected samples along its first axis; save it with "
               "shape (n, …)");
  uint64_t bytes = kit::dtype_bytes(header.dtype);
  for (const int64_t d : header.dims)
    if (!support::multiply(bytes, static_cast<uint64_t>(d), bytes))
      source.bad(start, "the extents multiply to more than 2^64 bytes");
  if (bytes != size - header.offset)
    source.bad(header.offset, "shape " + Shape(header.dims).text() + " needs " +
                                  std::to_string(bytes) + " bytes of values, found " +
                                  std::to_string(size - header.offset) +
                                  "; the file is cut off or damaged: copy it again");
  if (header.dims.size() == 1) header.by_column = false;
  return header;
}

support::Bytes by_row(Header& header, std::span<const uint8_t> file) {
  const size_t each = kit::dtype_bytes(header.dtype);
  support::Bytes rows(file.size() - header.offset);
  const uint8_t* from = file.data() + header.offset;
  std::vector<size_t> stride(header.dims.size()), at(header.dims.size(), 0);  // by axis, in values
  for (size_t d = stride.size(), step = 1; d-- > 0; step *= static_cast<size_t>(header.dims[d]))
    stride[d] = step;
  size_t to = 0;
  for (size_t i = 0; i < rows.size() / each; ++i) {
    std::memcpy(rows.data() + to * each, from + i * each, each);
    for (size_t d = 0; d < at.size(); ++d) {  // the first axis counts fastest
      to += stride[d];
      if (++at[d] < static_cast<size_t>(header.dims[d])) break;
      to -= at[d] * stride[d];
      at[d] = 0;
    }
  }
  header.offset = 0;
  header.by_column = false;
  return rows;
}

}  // namespace plait::data::npy
