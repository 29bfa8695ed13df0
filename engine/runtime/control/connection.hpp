// One end of a connection: a socket, the frames that come in, the bytes that are to go out.
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
  short events() const;  // what poll() is to look for

  void put(std::string_view bytes) { out_ += bytes; }
  bool all_sent() const { return out_.empty(); }
  // Move what the socket takes and has, without waiting. Return how the connection ended when it has: "its connection was closed".
  // What came in before that is still to be read.
  std::string send();
  std::string receive(size_t most = 128 * 1024);
  // The next whole message. Errors: PLAIT_ERR_DATA.
  std::optional<Frame> next() { return reader_.next(); }
  // From now on the other end is trusted with longer messages.
  void trust() { reader_.limit(kMaxPayload); }
  void shut() const;  // nothing more will be sent

 private:
  Fd socket_;
  FrameReader reader_;
  std::string out_;
  size_t sent_ = 0;  // of out_
};

}  // namespace plait::runtime::control
