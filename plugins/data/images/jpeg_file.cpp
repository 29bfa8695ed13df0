// JPEG by libjpeg-turbo, which leaves error_exit() by a long jump: functions that it may leave this
// way hold nothing that needs a destructor.
#include "plugins/data/images/decode.hpp"

#include <cstdio>
// This header needs the one above.
#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>

namespace plait::data::images {
namespace {

// A file of many empty scans would take hours; encoders make about ten.
constexpr int kMostScans = 500;

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool read_head() noexcept {
    if (setjmp(jump_)) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.client_data = this;
    progress_.progress_monitor = on_progress;
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, file_.data(), static_cast<unsigned long>(file_.size()));
    jpeg_read_header(&jpeg_, TRUE);
    switch (jpeg_.jpeg_color_space) {
      case JCS_GRAYSCALE:
        jpeg_.out_color_space = JCS_GRAYSCALE;
        break;
      case JCS_CMYK:
      case JCS_YCCK:
        jpeg_.out_color_space = JCS_CMYK;
        break;
      default:
        jpeg_.out_color_space = JCS_RGB;
    }
    jpeg_.dct_method = JDCT_ISLOW;
    return true;
  }
  int64_t width() const { return jpeg_.image_width; }
  int64_t height() const { return jpeg_.image_height; }
  int channels() const {
    return jpeg_.out_color_space == JCS_GRAYSCALE ? 1 : jpeg_.out_color_space == JCS_CMYK ? 4 : 3;
  }

  bool read_rows(uint8_t* to, size_t row_bytes) noexcept {
    if (setjmp(jump_)) return false;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW row = to + jpeg_.output_scanline * row_bytes;
      jpeg_read_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  [[noreturn]] void refuse(const support::SourceFile& source) const {
    if (code_ == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    const size_t left = jpeg_.src ? jpeg_.src->bytes_in_buffer : file_.size();
    if (code_ == JWRN_JPEG_EOF)
      source.bad(file_.size(), "the JPEG data is truncated: the file has " +
                                   std::to_string(file_.size()) + " bytes, expected more" +
                                   kRemedy);
    source.bad(left < file_.size() ? file_.size() - left : 0,
               std::string("damaged or unsupported JPEG data (") + text_ + ")" + kRemedy);
  }

 private:
  static Reader& self(j_common_ptr jpeg) { return *static_cast<Reader*>(jpeg->client_data); }
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    Reader& r = self(jpeg);
    r.code_ = jpeg->err->msg_code;
    jpeg->err->format_message(jpeg, r.text_);
    std::longjmp(r.jump_, 1);
  }
  // Warnings about pixels that are missing or wrong are errors; others, such as superfluous bytes,
  // do no harm.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    switch (jpeg->err->msg_code) {
      case JWRN_JPEG_EOF:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_MUST_RESYNC:
        on_error(jpeg);
      default:
        return;
    }
  }
  static void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
    Reader& r = self(jpeg);
    std::snprintf(r.text_, sizeof r.text_, "more than %d scans", kMostScans);
    std::longjmp(r.jump_, 1);
  }

  std::span<const uint8_t> file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_;
  int code_ = 0;
  char text_[JMSG_LENGTH_MAX] = {};
};

// Inks as Adobe's programs store them: 255 is none.
void cmyk_to_colors(Pixels& p) {
  const size_t n = static_cast<size_t>(p.width) * static_cast<size_t>(p.height);
  uint8_t* at = p.bytes.data();
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < 3; ++k)
      at[3 * i + k] = static_cast<uint8_t>((at[4 * i + k] * at[4 * i + 3] + 127) / 255);
  p.bytes.resize(3 * n);
  p.channels = 3;
}

}  // namespace

void decode_jpeg(const support::SourceFile& source, std::span<const uint8_t> file,
                 int64_t max_pixels, Pixels& to) {
  Reader reader(file);
  if (!reader.read_head()) reader.refuse(source);
  check_pixels(source, reader.width(), reader.height(), max_pixels);
  allocate(reader.width(), reader.height(), reader.channels(), to);
  if (!reader.read_rows(to.bytes.data(), to.row_bytes())) reader.refuse(source);
  if (to.channels == 4) cmyk_to_colors(to);
}

}  // namespace plait::data::images
