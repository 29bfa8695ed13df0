// The structured messages of the control channel: each is read whole or not at all.
#include "engine/runtime/control/messages.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/control.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/collective_order_check.hpp"
#include "engine/runtime/control/job_state.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime::control;
using plait::runtime::testing::has;
using plait::test::error_of;

namespace {

Frame frame_of(const std::string& bytes) {
  FrameReader reader(kMaxPayload);
  reader.add(bytes);
  const auto frame = reader.next();
  REQUIRE(frame);
  return *frame;
}

// Decodes a message and encodes what it says.
template <auto decode>
std::string again(const Frame& frame) {
  return encode(decode(frame));
}

Arrival an_arrival() {
  Arrival arrival{{"rank 1", "node", "here:7"}, "boot", 7, 100, {}};
  for (size_t i = 0; i < arrival.identity.size(); ++i) arrival.identity[i] = 1000 + i;
  return arrival;
}

// A rank 0 for one rank: admits it, sends it some bytes, and waits until it has left.
class RankZero {
 public:
  explicit RankZero(std::string bytes)
      : listener_(runtime::testing::listen_on_loopback(port_)),
        thread_([this, bytes] { run(bytes); }) {}
  ~RankZero() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  runtime::testing::Setup setup() const {
    runtime::testing::Setup setup;
    setup.rendezvous = "127.0.0.1:" + std::to_string(port_);
    setup.secret = kSecret;
    return setup;
  }

 private:
  static constexpr const char* kSecret = "a secret of the job, 32 bytes ..";
  // A rank that has waited too long for an answer connects again.
  void run(const std::string& bytes) const {
    for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(fd)) {
      try {
        serve(fd, bytes);
      } catch (const std::exception&) {  // the rank has gone
      }
    }
  }
  static Frame receive(int fd, size_t bytes) {
    FrameReader reader(kMaxPayload);
    reader.add(runtime::testing::receive_bytes(fd, bytes));
    if (auto frame = reader.next()) return *std::move(frame);
    throw std::runtime_error("no message");
  }
  static void serve(int fd, const std::string& bytes) {
    const std::string nonce(kNonceSize, 'n');
    const Hello hello = decode_hello(receive(fd, encode(Hello{1, 2, nonce}).size()));
    const Challenge c{std::string(kRunSize, 'r'), hello.nonce, nonce, 1, 2};
    using runtime::testing::send_bytes;
    send_bytes(fd, encode(Greeting{c.run, c.server_nonce, proof(kSecret, c, Side::kServer)}));
    receive(fd, kHeaderSize + kProofSize);
    send_bytes(fd, FrameWriter(MessageKind::kWelcome).u64(60000).done() + bytes);
    while (!runtime::testing::receive_bytes(fd, 4096).empty()) {
    }
  }
  int port_ = 0, listener_;
  std::thread thread_;
};

// Why rank 1 ends, to which rank 0 sends this message and then that the job is over.
std::string end_after(MessageKind kind, const std::string& payload) {
  const RankZero rank_0(FrameWriter(kind).raw(payload).done() +
                        encode(EndReason{PLAIT_ERR_PEER, "enough"}));
  runtime::testing::Lines lines;
  return error_of(
      [&] {
        runtime::Control control(rank_0.setup().of(1), lines.log());
        control.get("value", 60);
      },
      PLAIT_ERR_PEER);
}

}  // namespace

TEST_CASE("a structured message is read whole, and neither cut nor with more behind it") {
  const std::string nonce(kNonceSize, 'n');
  const struct {
    std::string bytes;
    std::string (*again)(const Frame&);
  } messages[] = {
      {encode(Hello{1, 3, nonce}), again<decode_hello>},
      {encode(Greeting{std::string(kRunSize, 'r'), nonce, std::string(kProofSize, 'p')}),
       again<decode_greeting>},
      {encode(an_arrival()), again<decode_arrival>},
      {encode(Introduction{1, {"rank 1", "node", "here:7"}, 7}), again<decode_introduction>},
      {encode(EndReason{PLAIT_ERR_PEER, "enough"}), again<decode_end>},
      {encode(GroupProgress{"data.0", {{6, 60}}}), again<decode_progress>},
  };
  for (const auto& message : messages) {
    const Frame whole = frame_of(message.bytes);
    CAPTURE(static_cast<int>(whole.kind));
    CHECK(message.again(whole) == message.bytes);
    const auto fault_of = [&](const Frame& frame) {
      return error_of([&] { message.again(frame); }, PLAIT_ERR_DATA);
    };
    for (const size_t left : {whole.payload.size() - 1, size_t{0}})
      CHECK(has(fault_of({whole.kind, whole.payload.substr(0, left)}), "is too short"));
    // More behind a group's progress is the number of another call, of which this is a part.
    CHECK(has(fault_of({whole.kind, whole.payload + '\0'}),
              whole.kind == MessageKind::kGroupProgress ? "is too short" : "1 bytes too many"));
    CHECK(has(fault_of({MessageKind::kStart, whole.payload}), "an unexpected message"));
  }
}

TEST_CASE("texts of a structured message are at most as long as their kind may be") {
  const std::string name(kMaxName + 1, 'n');
  CHECK(
      decode_introduction(frame_of(encode(Introduction{0, {name, name, name}, 0}))).peer.process ==
      name.substr(1));
  CHECK(decode_end(frame_of(encode(EndReason{0, std::string(kMaxText + 1, 't')}))).text.size() ==
        kMaxText);
  const auto refused = [](const std::string& bytes, auto decode) {
    return has(error_of([&] { decode(frame_of(bytes)); }, PLAIT_ERR_DATA), "is too long");
  };
  for (int one = 0; one < 3; ++one) {
    FrameWriter w(MessageKind::kPeer);
    w.u32(0);
    for (int i = 0; i < 3; ++i) w.text(i == one ? name : "short");
    CHECK(refused(w.u64(0).done(), decode_introduction));
  }
  CHECK(refused(FrameWriter(MessageKind::kEnd).u32(0).text(std::string(kMaxText + 1, 't')).done(),
                decode_end));
  CHECK(refused(encode(GroupProgress{std::string(kMaxKey + 1, 'g'), {}}), decode_progress));
}

TEST_CASE("a report of too many calls of a group is refused") {
  GroupProgress progress{"data.0", std::vector<runtime::PrefixHash>(64)};
  CHECK(decode_progress(frame_of(encode(progress))).prefix_hashes.size() == 64);
  progress.prefix_hashes.resize(65);
  CHECK(has(error_of([&] { decode_progress(frame_of(encode(progress))); }, PLAIT_ERR_DATA),
            "too many calls"));
}

TEST_CASE("rank 0 refuses a request that is cut or has more behind it, and answers nothing") {
  const auto bytes_of = [](FrameWriter writer) { return writer.done(); };
  const std::string requests[] = {
      bytes_of(FrameWriter(MessageKind::kHeartbeat).i64(1)),
      bytes_of(FrameWriter(MessageKind::kCall).u64(1).text("step")),
      bytes_of(FrameWriter(MessageKind::kSet).u32(1).text("k").text("v")),
      bytes_of(FrameWriter(MessageKind::kGet).u32(1).text("k")),
      bytes_of(FrameWriter(MessageKind::kForget).text("k")),
      bytes_of(FrameWriter(MessageKind::kCancel).u32(1)),
      bytes_of(FrameWriter(MessageKind::kAbort).text("why")),
      bytes_of(FrameWriter(MessageKind::kReport).text("why")),
      bytes_of(FrameWriter(MessageKind::kCallDescription).text("'sum'")),
      bytes_of(FrameWriter(MessageKind::kGoodbye)),
  };
  for (const std::string& request : requests) {
    std::string sent;
    JobState state(1, 10, "here:1", Time{}, 3,
                   [&](uint32_t, const std::string& bytes) { sent += bytes; });
    CHECK(!state.admit(0, 1));
    state.handle(0, frame_of(encode(an_arrival())), Time{});
    sent.clear();
    const Frame whole = frame_of(request);
    CAPTURE(static_cast<int>(whole.kind));
    for (size_t left = 0; left < whole.payload.size(); ++left)
      CHECK(has(error_of(
                    [&] {
                      state.handle(0, {whole.kind, whole.payload.substr(0, left)}, {});
                    },
                    PLAIT_ERR_DATA),
                "is too short"));
    CHECK(has(error_of(
                  [&] {
                    state.handle(0, {whole.kind, whole.payload + '\0'}, {});
                  },
                  PLAIT_ERR_DATA),
              "1 bytes too many"));
    CHECK(sent == "");
  }
}

TEST_CASE("a rank refuses a message of rank 0 that is cut or has more behind it") {
  const auto payload_of = [](FrameWriter writer) { return frame_of(writer.done()); };
  const Frame messages[] = {
      payload_of(FrameWriter(MessageKind::kHeartbeat).i64(1)),
      payload_of(FrameWriter(MessageKind::kAskKeys).u64(1)),
      payload_of(FrameWriter(MessageKind::kAskCall).text("data.0").u64(1)),
      payload_of(FrameWriter(MessageKind::kStart)),
      frame_of(encode(Introduction{0, {"rank 0", "node", "here:7"}, 7})),
  };
  for (const Frame& whole : messages) {
    CAPTURE(static_cast<int>(whole.kind));
    CHECK(has(end_after(whole.kind, whole.payload), "enough"));
    CHECK(has(end_after(whole.kind, whole.payload + '\0'), "it sent an invalid message"));
    if (whole.payload.empty()) continue;
    CHECK(has(end_after(whole.kind, whole.payload.substr(0, whole.payload.size() - 1)),
              "it sent an invalid message"));
  }
}
