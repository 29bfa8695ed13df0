// Frames: the unit of transmission on the control channel, and their encoding.
//
// A frame is u32 size of the payload, u16 kind, u16 zero, payload. Integers are little endian; a
// text is u32 size and bytes.
// Input is decoded with all sizes checked: PLAIT_ERR_DATA if it is invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plait::runtime::control {

enum class MessageKind : uint16_t {
  // From a rank. The first two are sent before it is trusted.
  kHello = 1,      // rank r of R, nonce
  kProof = 2,      // proof that the rank knows the secret
  kArrive = 3,     // description of the rank, digests of its identity
  kHeartbeat = 4,  // the rank is alive, in step n. Also from the server: step of rank 0
  kSet = 5,        // request, key, value
  kGet = 6,        // request, key
  kCancel = 7,     // request: a value that is not there yet is not waited for any longer
  kAbort = 8,      // reason
  kGoodbye = 9,    // the rank leaves without an error
  kReport = 10,    // the server was silent: this rank's reason for the end of the job
  kCall = 11,  // number (from 1) and name of the rank's latest call among those that all ranks make
  kForget = 12,           // key: its value will not be read any more
  kKeys = 13,             // requested names and values of the identity; ended by an empty message
  kGroupProgress = 14,    // position in the calls of a group
  kCallDescription = 15,  // reply to kAskCall
  // From the server.
  kChallenge = 17,  // run, nonce, and the proof that the server knows the secret
  kWelcome = 18,    // milliseconds of silence after which a rank is lost
  kPeer = 19,       // one per rank, after all have arrived
  kStart = 20,      // all have arrived and agree
  kReply = 21,      // request, PLAIT_ERR_* or PLAIT_OK, value or text
  kEnd = 22,        // PLAIT_ERR_*, reason for the end of the job
  kAskKeys = 23,    // ranks differ: asks for the keys of these sections
  kAskCall = 24,    // group, number: two ranks differ there; asks for the text of that call
};

constexpr size_t kHeaderSize = 8;
constexpr size_t kMaxValue = 64 * 1024;
constexpr size_t kMaxKey = 256;
constexpr size_t kMaxName = 1024;       // of a rank, host or process
constexpr size_t kMaxText = 48 * 1024;  // of a reason
constexpr size_t kMaxPayload = kMaxValue + kMaxKey + 64;
constexpr size_t kMaxUnproven = 256;  // payload of a frame from a peer that has not authenticated

struct Frame {
  MessageKind kind{};
  std::string payload;
};

// Builds a frame.
class FrameWriter {
 public:
  explicit FrameWriter(MessageKind kind);
  FrameWriter& u32(uint32_t value);
  FrameWriter& u64(uint64_t value);
  FrameWriter& i64(int64_t value) { return u64(static_cast<uint64_t>(value)); }
  FrameWriter& text(std::string_view value);  // with its size in front
  FrameWriter& raw(std::string_view bytes);   // without a size
  // The complete frame with its header. Errors: PLAIT_ERR_INVALID above kMaxPayload.
  std::string done();

 private:
  std::string bytes_;
};

// Decodes a payload. Views live as long as the payload.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view payload) : rest_(payload) {}
  uint32_t u32();
  uint64_t u64();
  int64_t i64() { return static_cast<int64_t>(u64()); }
  std::string_view text(size_t most);
  std::string_view raw(size_t size);
  bool empty() const { return rest_.empty(); }
  void done() const;  // PLAIT_ERR_DATA if bytes are left

 private:
  std::string_view rest_;
};

// Splits incoming bytes into frames.
class FrameReader {
 public:
  explicit FrameReader(size_t max_payload) : max_payload_(max_payload) {}
  void limit(size_t max_payload) { max_payload_ = max_payload; }
  void add(std::string_view bytes) { bytes_ += bytes; }
  // The next complete frame, if there is one. Errors: PLAIT_ERR_DATA for an invalid header; the
  // remaining bytes are then lost.
  std::optional<Frame> next();

 private:
  size_t max_payload_;
  std::string bytes_;
  size_t taken_ = 0;  // bytes that next() has returned
};

// At most `most` bytes of a text, never cut inside a character.
std::string_view shortened(std::string_view text, size_t most);

}  // namespace plait::runtime::control
