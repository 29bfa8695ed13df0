#include "engine/runtime/control/messages.hpp"

#include "engine/base/error.hpp"
#include "engine/runtime/control/auth.hpp"

namespace plait::runtime::control {
namespace {

constexpr std::string_view kMagic = "plait control 2\n";

PayloadReader reader(const Frame& frame, MessageKind kind) {
  if (frame.kind != kind) fail_data("[control] an unexpected message");
  return PayloadReader(frame.payload);
}

void put(FrameWriter& w, const Peer& peer) {
  w.text(shortened(peer.name, kMaxName));
  w.text(shortened(peer.host, kMaxName));
  w.text(shortened(peer.process, kMaxName));
}
Peer take_peer(PayloadReader& r) {
  Peer peer;
  peer.name = r.text(kMaxName);
  peer.host = r.text(kMaxName);
  peer.process = r.text(kMaxName);
  return peer;
}

}  // namespace

std::string encode(const Hello& hello) {
  return FrameWriter(MessageKind::kHello)
      .raw(kMagic)
      .u32(hello.rank)
      .u32(hello.size)
      .raw(hello.nonce)
      .done();
}
Hello decode_hello(const Frame& frame) {
  PayloadReader r = reader(frame, MessageKind::kHello);
  if (r.raw(kMagic.size()) != kMagic) fail_data("[control] a greeting of another protocol");
  Hello hello;
  hello.rank = r.u32();
  hello.size = r.u32();
  hello.nonce = r.raw(kNonceSize);
  r.done();
  return hello;
}

std::string encode(const Greeting& greeting) {
  return FrameWriter(MessageKind::kChallenge)
      .raw(greeting.run)
      .raw(greeting.nonce)
      .raw(greeting.proof)
      .done();
}
Greeting decode_greeting(const Frame& frame) {
  PayloadReader r = reader(frame, MessageKind::kChallenge);
  Greeting greeting;
  greeting.run = r.raw(kRunSize);
  greeting.nonce = r.raw(kNonceSize);
  greeting.proof = r.raw(kProofSize);
  r.done();
  return greeting;
}

std::string encode(const Arrival& arrival) {
  FrameWriter w(MessageKind::kArrive);
  put(w, arrival.peer);
  w.text(shortened(arrival.machine, kMaxName));
  w.u64(arrival.process_id).u64(arrival.connect_timeout_ms);
  for (const uint64_t digest : arrival.identity) w.u64(digest);
  return w.done();
}
Arrival decode_arrival(const Frame& frame) {
  PayloadReader r = reader(frame, MessageKind::kArrive);
  Arrival arrival;
  arrival.peer = take_peer(r);
  arrival.machine = r.text(kMaxName);
  arrival.process_id = r.u64();
  arrival.connect_timeout_ms = r.u64();
  for (uint64_t& digest : arrival.identity) digest = r.u64();
  r.done();
  return arrival;
}

std::string encode(const Introduction& introduction) {
  FrameWriter w(MessageKind::kPeer);
  w.u32(introduction.rank);
  put(w, introduction.peer);
  return w.u64(introduction.process_id).done();
}
Introduction decode_introduction(const Frame& frame) {
  PayloadReader r = reader(frame, MessageKind::kPeer);
  Introduction introduction;
  introduction.rank = r.u32();
  introduction.peer = take_peer(r);
  introduction.process_id = r.u64();
  r.done();
  return introduction;
}

std::string encode(const EndReason& end) {
  return FrameWriter(MessageKind::kEnd).u32(end.code).text(shortened(end.text, kMaxText)).done();
}
EndReason decode_end(const Frame& frame) {
  PayloadReader r = reader(frame, MessageKind::kEnd);
  EndReason end;
  end.code = r.u32();
  end.text = r.text(kMaxText);
  r.done();
  return end;
}

}  // namespace plait::runtime::control
