#include "engine/runtime/sequence.hpp"

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

Signature::Signature(std::string words) : text(std::move(words)), hash(hash64(text)) {}

const Signature* Sequence::Slot::take(Mark& into) const noexcept {
  into.number = number.load(std::memory_order_acquire);
  into.hash = hash.load(std::memory_order_acquire);
  const Signature* its_call = call.load(std::memory_order_acquire);
  const bool whole = into.number != 0 && number.load(std::memory_order_relaxed) == into.number;
  return whole ? its_call : nullptr;
}

std::vector<Mark> Sequence::marks() const {
  std::vector<Mark> all;
  Mark one;
  for (const Slot& slot : recent_)
    if (slot.take(one)) all.push_back(one);
  for (const Slot& slot : rare_)
    if (slot.take(one)) all.push_back(one);
  std::sort(all.begin(), all.end(),
            [](const Mark& a, const Mark& b) { return a.number < b.number; });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::string Sequence::text(uint64_t number) const {
  Mark one, last;
  const Signature* latest = nullptr;
  for (const Slot& slot : recent_) {
    const Signature* call = slot.take(one);
    if (call && one.number == number) return "'" + call->text + "'";
    if (!call || one.number < last.number) continue;
    last = one;
    latest = call;
  }
  if (!latest) return "another one";
  return "another one or one before it (call " + std::to_string(last.number) + " is '" +
         latest->text + "')";
}

}  // namespace plait::runtime
