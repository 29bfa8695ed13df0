// What becomes of one attempt to connect: a word in the store that the first rank to know it lays down, and all others wait for.
//
// So an attempt that failed anywhere is over everywhere, at once: its ranks need not wait for who will not come any more.
#pragma once

#include <functional>
#include <mutex>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <thread>

namespace plait::comm_gloo {

class Verdict {
 public:
  // `key`: of the word, one for each attempt. Waits on a thread of its own, which keeps all signals blocked.
  Verdict(const Host& host, const Store& store, std::string key);
  // Lays down that the attempt is over, if nobody has yet.
  ~Verdict();
  Verdict(const Verdict&) = delete;
  Verdict& operator=(const Verdict&) = delete;

  // Some rank could not connect. The first reason stays.
  void failed(const std::string& why) noexcept;
  // All ranks are connected.
  void succeeded() { word_ = kGood; }
  // Why the attempt failed; "" as long as nobody has said so.
  std::string reason() const;

  // While it lives, `wake` is called with the reason, on the thread, as soon as there is one.
  class Wake {
   public:
    // Throws PLAIT_ERR_PEER with the reason when it is there already.
    Wake(Verdict& verdict, std::function<void(const std::string& why)> wake);
    ~Wake();
    Wake(const Wake&) = delete;
    Wake& operator=(const Wake&) = delete;

   private:
    Verdict& verdict_;
  };

 private:
  static constexpr const char* kGood = "good";
  void lay_down(std::string_view word) noexcept;
  void listen() noexcept;

  const Host& host_;
  const Store& store_;
  const std::string key_;
  std::string word_ = "a rank went away";  // for the others, if they have none
  mutable std::mutex mutex_;               // of what follows
  std::string reason_;
  std::function<void(const std::string&)> wake_;
  std::thread thread_;
};

}  // namespace plait::comm_gloo
