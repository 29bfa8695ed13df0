// Frames: what goes over a connection of the control channel, and the bytes it is made of.
//
// A frame is u32 size of the payload, u16 kind, u16 zero, payload. Integers are little endian; a text is u32 size and bytes.
// Whatever comes in is taken apart with its sizes checked: PLAIT_ERR_DATA for what makes no sense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plait::runtime::control {

enum class MessageKind : uint16_t {
  // From a rank. The first two come before it is trusted.
  kHello = 1,      // I am rank r of R; my nonce
  kProof = 2,      // that I know the secret
  kArrive = 3,     // who I am, and digests of what must be equal on all ranks
  kHeartbeat = 4,  // I am alive, in step n. From the server too: step of rank 0
  kSet = 5,        // request, key, value
  kGet = 6,        // request, key
  kCancel = 7,     // request: nobody waits for its answer any more
  kAbort = 8,      // why
  kGoodbye = 9,    // I leave, and nothing is wrong
  kReport = 10,    // the server was silent: why the job is over, as this rank sees it
  kCall = 11,      // which of the calls that all ranks make I am in, counted from 1, and what it is
  kForget = 12,    // key: nobody will ask for its value any more
  kKeys = 13,      // names and values of what must be equal, as asked for; an empty one ends them
  kGroupProgress = 14,    // where I am in the calls of a group
  kCallDescription = 15,  // which of those I made as the call that you asked for
  // From the server.
  kChallenge = 17,  // run, my nonce, and the proof that I know the secret
  kWelcome = 18,    // after how many milliseconds of silence I take a rank for lost
  kPeer = 19,       // one for each rank, when all have arrived
  kStart = 20,      // all have arrived and agree
  kReply = 21,      // request, PLAIT_ERR_* or PLAIT_OK, value or text
  kEnd = 22,        // PLAIT_ERR_*, why the job is over
  kAskKeys = 23,    // the ranks differ: say your keys of these sections
  kAskCall = 24,    // group, number: two ranks differ there; say which call it was
};

constexpr size_t kHeaderSize = 8;
constexpr size_t kMaxValue = 64 * 1024;
constexpr size_t kMaxKey = 256;
constexpr size_t kMaxName = 1024;       // of a rank, host or process
constexpr size_t kMaxText = 48 * 1024;  // of a reason
constexpr size_t kMaxPayload = kMaxValue + kMaxKey + 64;
constexpr size_t kMaxUnproven = 256;  // payload of a frame from somebody who may be a stranger

struct Frame {
  MessageKind kind{};
  std::string payload;
};

// Puts a frame together.
class FrameWriter {
 public:
  explicit FrameWriter(MessageKind kind);
  FrameWriter& u32(uint32_t value);
  FrameWriter& u64(uint64_t value);
  FrameWriter& i64(int64_t value) { return u64(static_cast<uint64_t>(value)); }
  FrameWriter& text(std::string_view value);  // with its size
  FrameWriter& raw(std::string_view bytes);   // without
  // The frame, header and all. Errors: PLAIT_ERR_INVALID above kMaxPayload.
  std::string done();

 private:
  std::string bytes_;
};

// Takes a payload apart. Views live as long as the payload.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view payload) : rest_(payload) {}
  uint32_t u32();
  uint64_t u64();
  int64_t i64() { return static_cast<int64_t>(u64()); }
  std::string_view text(size_t most);
  std::string_view raw(size_t size);
  bool empty() const { return rest_.empty(); }
  void done() const;  // nothing may be left

 private:
  std::string_view rest_;
};

// Makes frames of bytes as they come in.
class FrameReader {
 public:
  explicit FrameReader(size_t max_payload) : max_payload_(max_payload) {}
  void limit(size_t max_payload) { max_payload_ = max_payload; }
  void add(std::string_view bytes) { bytes_ += bytes; }
  // The next whole frame, if there is one. Errors: PLAIT_ERR_DATA for a header that makes no sense; the rest is lost then.
  std::optional<Frame> next();

 private:
  size_t max_payload_;
  std::string bytes_;
  size_t taken_ = 0;  // how many of them next() has given away
};

// At most `most` bytes of a text, not cut inside a character.
std::string_view shortened(std::string_view text, size_t most);

}  // namespace plait::runtime::control
