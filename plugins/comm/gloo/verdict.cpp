#include "plugins/comm/gloo/verdict.hpp"

#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {
constexpr size_t kMostWord = 1000;  // bytes
}

Verdict::Verdict(const Host& host, const Store& store, std::string key)
    : host_(host), store_(store), key_(std::move(key)) {
  const SigpipeBlock block(SigpipeBlock::What::kAll);
  thread_ = std::thread([this] { listen(); });
}

Verdict::~Verdict() {
  lay_down(word_);
  thread_.join();
}

void Verdict::failed(const std::string& why) noexcept { lay_down(why); }

std::string Verdict::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

// The key is taken where another rank was first, whose word is as good.
void Verdict::lay_down(std::string_view word) noexcept {
  try {
    store_.set(key_, word.substr(0, kMostWord));
  } catch (const Error& e) {
    host_.raw()->error_free(e.take());
  } catch (const std::bad_alloc&) {  // then they learn of it by their time-outs
  }
}

void Verdict::listen() noexcept {
  std::string word = "no word came";
  try {
    word = store_.get<kMostWord>(key_, word);
  } catch (const Error& e) {  // the time is over, or the job is
    host_.raw()->error_free(e.take());
  } catch (const std::bad_alloc&) {
  }
  if (word == kGood) return;
  const std::lock_guard lock(mutex_);
  reason_ = std::move(word);
  if (wake_) wake_(reason_);
}

Verdict::Wake::Wake(Verdict& verdict, std::function<void(const std::string& why)> wake)
    : verdict_(verdict) {
  const std::lock_guard lock(verdict_.mutex_);
  if (!verdict_.reason_.empty()) fail(PLAIT_ERR_PEER, verdict_.reason_);
  verdict_.wake_ = std::move(wake);
}

Verdict::Wake::~Wake() {
  const std::lock_guard lock(verdict_.mutex_);
  verdict_.wake_ = nullptr;
}

}  // namespace plait::comm_gloo
