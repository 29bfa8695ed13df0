#include "engine/runtime/control/messages.hpp"

#include "engine/base/error.hpp"
#include "engine/runtime/control/auth.hpp"

namespace plait::runtime::control {
namespace {

constexpr std::string_view kMagic = "plait control 2\n";

Reader reader(const Frame& frame, Kind kind) {
  if (frame.kind != kind) fail_data("[control] a message that was not expected here");
  return Reader(frame.payload);
}

void put(Writer& w, const Peer& peer) {
  w.text(shortened(peer.name, kMostName));
  w.text(shortened(peer.host, kMostName));
  w.text(shortened(peer.process, kMostName));
}
Peer take_peer(Reader& r) {
  Peer peer;
  peer.name = r.text(kMostName);
  peer.host = r.text(kMostName);
  peer.process = r.text(kMostName);
  return peer;
}

}  // namespace

std::string encode(const Hello& hello) {
  return Writer(Kind::kHello).raw(kMagic).u32(hello.rank).u32(hello.size).raw(hello.nonce).done();
}
Hello decode_hello(const Frame& frame) {
  Reader r = reader(frame, Kind::kHello);
  if (r.raw(kMagic.size()) != kMagic) fail_data("[control] a greeting of another kind");
  Hello hello;
  hello.rank = r.u32();
  hello.size = r.u32();
  hello.nonce = r.raw(kNonceSize);
  r.done();
  return hello;
}

std::string encode(const Greeting& greeting) {
  return Writer(Kind::kChallenge).raw(greeting.run).raw(greeting.nonce).raw(greeting.proof).done();
}
Greeting decode_greeting(const Frame& frame) {
  Reader r = reader(frame, Kind::kChallenge);
  Greeting greeting;
  greeting.run = r.raw(kRunSize);
  greeting.nonce = r.raw(kNonceSize);
  greeting.proof = r.raw(kProofSize);
  r.done();
  return greeting;
}

std::string encode(const Arrival& arrival) {
  Writer w(Kind::kArrive);
  put(w, arrival.peer);
  w.text(shortened(arrival.machine, kMostName));
  w.u64(arrival.process_id).u64(arrival.patience_ms);
  for (const uint64_t digest : arrival.identity) w.u64(digest);
  return w.done();
}
Arrival decode_arrival(const Frame& frame) {
  Reader r = reader(frame, Kind::kArrive);
  Arrival arrival;
  arrival.peer = take_peer(r);
  arrival.machine = r.text(kMostName);
  arrival.process_id = r.u64();
  arrival.patience_ms = r.u64();
  for (uint64_t& digest : arrival.identity) digest = r.u64();
  r.done();
  return arrival;
}

std::string encode(const Introduction& introduction) {
  Writer w(Kind::kPeer);
  w.u32(introduction.rank);
  put(w, introduction.peer);
  return w.u64(introduction.process_id).done();
}
Introduction decode_introduction(const Frame& frame) {
  Reader r = reader(frame, Kind::kPeer);
  Introduction introduction;
  introduction.rank = r.u32();
  introduction.peer = take_peer(r);
  introduction.process_id = r.u64();
  r.done();
  return introduction;
}

std::string encode(const End& end) {
  return Writer(Kind::kEnd).u32(end.code).text(shortened(end.text, kMostText)).done();
}
End decode_end(const Frame& frame) {
  Reader r = reader(frame, Kind::kEnd);
  End end;
  end.code = r.u32();
  end.text = r.text(kMostText);
  r.done();
  return end;
}

}  // namespace plait::runtime::control
