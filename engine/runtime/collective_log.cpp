#include "engine/runtime/collective_log.hpp"

#include <algorithm>
#include <iterator>

#include "engine/base/hash.hpp"
#include "engine/program/shape.hpp"

namespace plait::runtime {

std::string text_of(const plait_comm_desc& call) {
  static const char* const kKinds[] = {"a call",         "barrier",    "all_reduce",
                                       "reduce_scatter", "all_gather", "broadcast",
                                       "all_to_all",     "send",       "receive"};
  static const char* const kReductions[] = {"", " (sum)", " (max)", " (min)"};
  std::string text = kKinds[call.kind < std::size(kKinds) ? call.kind : 0];
  if (call.kind == PLAIT_COMM_BARRIER) return text;
  text += " of " + std::to_string(call.n) + " " + program::dtype_name(call.dtype);
  if (call.reduction < std::size(kReductions)) text += kReductions[call.reduction];
  return text;
}

CallDescription::CallDescription(std::string words) : text(std::move(words)), hash(hash64(text)) {}

const CallDescription* CollectiveLog::LogSlot::read(PrefixHash& into) const noexcept {
  into.number = number.load(std::memory_order_acquire);
  into.hash = hash.load(std::memory_order_acquire);
  const CallDescription* its_call = call.load(std::memory_order_acquire);
  const bool whole = into.number != 0 && number.load(std::memory_order_relaxed) == into.number;
  return whole ? its_call : nullptr;
}

std::vector<PrefixHash> CollectiveLog::prefix_hashes() const {
  std::vector<PrefixHash> all;
  PrefixHash one;
  for (const LogSlot& slot : recent_)
    if (slot.read(one)) all.push_back(one);
  for (const LogSlot& slot : rare_)
    if (slot.read(one)) all.push_back(one);
  std::sort(all.begin(), all.end(),
            [](const PrefixHash& a, const PrefixHash& b) { return a.number < b.number; });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<CollectiveLog::StartedCall> CollectiveLog::recent() const {
  std::vector<StartedCall> all;
  PrefixHash one;
  for (const LogSlot& slot : recent_)
    if (const CallDescription* call = slot.read(one)) all.push_back({one.number, call->text});
  std::sort(all.begin(), all.end(),
            [](const StartedCall& a, const StartedCall& b) { return a.number < b.number; });
  return all;
}

std::string CollectiveLog::text(uint64_t number) const {
  PrefixHash one, last;
  const CallDescription* latest = nullptr;
  for (const LogSlot& slot : recent_) {
    const CallDescription* call = slot.read(one);
    if (call && one.number == number) return "'" + call->text + "'";
    if (!call || one.number < last.number) continue;
    last = one;
    latest = call;
  }
  if (!latest) return "a different call";
  return "a different call, or an earlier one (call " + std::to_string(last.number) + " is '" +
         latest->text + "')";
}

}  // namespace plait::runtime
