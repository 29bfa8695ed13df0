#include "engine/runtime/control/wire.hpp"

#include "engine/base/error.hpp"

namespace plait::runtime::control {
namespace {

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

template <class T>
T take(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  return value;
}

}  // namespace

FrameWriter::FrameWriter(MessageKind kind) {
  put<uint32_t>(bytes_, 0);
  put<uint16_t>(bytes_, static_cast<uint16_t>(kind));
  put<uint16_t>(bytes_, 0);
}
FrameWriter& FrameWriter::u32(uint32_t value) {
  put(bytes_, value);
  return *this;
}
FrameWriter& FrameWriter::u64(uint64_t value) {
  put(bytes_, value);
  return *this;
}
FrameWriter& FrameWriter::text(std::string_view value) {
  put(bytes_, static_cast<uint32_t>(value.size()));
  return raw(value);
}
FrameWriter& FrameWriter::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

std::string FrameWriter::done() {
  const size_t size = bytes_.size() - kHeaderSize;
  if (size > kMaxPayload)
    fail_invalid("[control] a message of " + std::to_string(size) + " bytes, expected at most " +
                 std::to_string(kMaxPayload));
  for (size_t i = 0; i < 4; ++i) bytes_[i] = static_cast<char>(size >> (8 * i) & 0xff);
  return std::move(bytes_);
}

std::string_view PayloadReader::raw(size_t size) {
  if (size > rest_.size()) fail_data("[control] a message is too short");
  const std::string_view part = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return part;
}
uint32_t PayloadReader::u32() { return take<uint32_t>(raw(4)); }
uint64_t PayloadReader::u64() { return take<uint64_t>(raw(8)); }

std::string_view PayloadReader::text(size_t most) {
  const uint32_t size = u32();
  if (size > most) fail_data("[control] a text in a message is too long");
  return raw(size);
}

void PayloadReader::done() const {
  if (!rest_.empty())
    fail_data("[control] a message has " + std::to_string(rest_.size()) + " bytes too many");
}

std::optional<Frame> FrameReader::next() {
  const std::string_view all = std::string_view(bytes_).substr(taken_);
  if (all.size() >= kHeaderSize) {
    const size_t size = take<uint32_t>(all);
    if (size > max_payload_ || take<uint16_t>(all.substr(6)) != 0)
      fail_data("[control] a frame with an invalid header");
    if (all.size() - kHeaderSize >= size) {
      taken_ += kHeaderSize + size;
      return Frame{static_cast<MessageKind>(take<uint16_t>(all.substr(4))),
                   std::string(all.substr(kHeaderSize, size))};
    }
  }
  bytes_.erase(0, taken_);
  taken_ = 0;
  return std::nullopt;
}

std::string_view shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace plait::runtime::control
