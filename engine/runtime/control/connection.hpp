// One end of a connection: a socket, incoming frames, outgoing bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/runtime/control/sockets.hpp"
#include "engine/runtime/control/wire.hpp"

namespace plait::runtime::control {

class Connection {
 public:
  Connection(Fd socket, size_t max_payload) : socket_(std::move(socket)), reader_(max_payload) {}

  int fd() const { return socket_.get(); }
  short events() const;  // the events to poll() for

  void put(std::string_view bytes) { out_ += bytes; }
  bool all_sent() const { return out_.empty(); }
  // Move as many bytes as the socket accepts or has, without waiting. If the connection has ended
  // they return the reason: "its connection was closed". Frames received before can still be read.
  std::string send();
  std::string receive(size_t most = 128 * 1024);
  // The next complete frame. Errors: PLAIT_ERR_DATA.
  std::optional<Frame> next() { return reader_.next(); }
  // Accepts longer frames from now on, as the peer has authenticated.
  void trust() { reader_.limit(kMaxPayload); }
  void shut() const;  // ends sending

 private:
  Fd socket_;
  FrameReader reader_;
  std::string out_;
  size_t sent_ = 0;  // of out_
};

}  // namespace plait::runtime::control
