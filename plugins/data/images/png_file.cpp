// PNG by libpng, which reports errors by a long jump: functions that it may leave this way hold
// nothing that needs a destructor.
#include "plugins/data/images/decode.hpp"

#include <png.h>

#include <csetjmp>
#include <cstring>

namespace plait::data::images {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, on_read);
    // The size is checked with a message of our own, before there is memory for the pixels.
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool read_head() noexcept {
    if (setjmp(png_jmpbuf(png_))) return false;
    // Texts, profiles and the like: skipped, not unpacked.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }
  int64_t width() const { return png_get_image_width(png_, info_); }
  int64_t height() const { return png_get_image_height(png_, info_); }

  // The number of channels that rows will have: 1 or 3; 0: an error.
  int prepare() noexcept {
    if (setjmp(png_jmpbuf(png_))) return 0;
    const int type = png_get_color_type(png_, info_), depth = png_get_bit_depth(png_, info_);
    if (depth == 16) png_set_scale_16(png_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_alpha(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return png_get_channels(png_, info_);
  }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

  bool read_rows(uint8_t* to, size_t row_bytes, size_t rows) noexcept {
    if (setjmp(png_jmpbuf(png_))) return false;
    for (int pass = 0; pass < passes_; ++pass)
      for (size_t y = 0; y < rows; ++y) png_read_row(png_, to + y * row_bytes, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  [[noreturn]] void refuse(const support::SourceFile& source) const {
    for (const char* text : kNoMemory)
      if (std::strcmp(text_, text) == 0) throw std::bad_alloc();
    source.bad(at_, ended_ ? std::string("the PNG data is truncated: the file has ") +
                                 std::to_string(file_.size()) + " bytes, expected more" + kRemedy
                           : std::string("damaged PNG data (") + text_ + ")" + kRemedy);
  }

 private:
  // Of libpng, and of what it says for zlib.
  static constexpr const char* kNoMemory[] = {"Out of memory", "insufficient memory"};

  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<Reader*>(png_get_error_ptr(png));
    std::strncpy(self->text_, text, sizeof self->text_ - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, size_t n) {
    auto* self = static_cast<Reader*>(png_get_io_ptr(png));
    if (n > self->file_.size() - self->at_) {
      self->at_ = self->file_.size();
      self->ended_ = true;
      png_error(png, "truncated");
    }
    std::memcpy(to, self->file_.data() + self->at_, n);
    self->at_ += n;
  }

  std::span<const uint8_t> file_;
  size_t at_ = 0;
  bool ended_ = false;
  char text_[128] = {};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

}  // namespace

void decode_png(const support::SourceFile& source, std::span<const uint8_t> file,
                int64_t max_pixels, Pixels& to) {
  Reader reader(file);
  if (!reader.read_head()) reader.refuse(source);
  check_pixels(source, reader.width(), reader.height(), max_pixels);
  const int channels = reader.prepare();
  if (channels == 0) reader.refuse(source);
  allocate(reader.width(), reader.height(), channels, to);
  if (reader.row_bytes() != to.row_bytes())
    source.bad(0, "rows of " + std::to_string(reader.row_bytes()) + " bytes, expected " +
                      std::to_string(to.row_bytes()));
  if (!reader.read_rows(to.bytes.data(), to.row_bytes(), static_cast<size_t>(to.height)))
    reader.refuse(source);
}

}  // namespace plait::data::images
