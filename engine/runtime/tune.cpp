#include "engine/runtime/tune.hpp"

#include <charconv>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"

namespace plait::runtime {
namespace {

using Tunable = KernelCache::Tunable;

std::string text_of(const plait_algorithm& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm.words) text += (text.empty() ? "" : ",") + hex64(word);
  return text;
}

plait_algorithm algorithm_of(const std::string& text) {
  plait_algorithm algorithm{};
  const std::vector<std::string> words = split(text, ',');
  bool sound = words.size() == std::size(algorithm.words);
  for (size_t i = 0; sound && i < words.size(); ++i) {
    const char* end = words[i].data() + words[i].size();
    sound = std::from_chars(words[i].data(), end, algorithm.words[i], 16).ptr == end;
  }
  if (!sound) fail_internal("[runtime] another rank sent '" + text + "' as an algorithm");
  return algorithm;
}

// Of any length, in pieces that the control channel can carry (64 KiB). All ranks see the same
// pieces, so they agree on the number of rounds.
std::vector<std::string> gather_long(const std::string& text, const AllGather& all_gather) {
  constexpr size_t kPiece = 48 * 1024;
  std::vector<std::string> whole;
  bool more = true;
  for (size_t at = 0; more; at += kPiece) {
    const std::vector<std::string> pieces =
        all_gather(at < text.size() ? text.substr(at, kPiece) : "");
    whole.resize(pieces.size());
    more = false;
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      whole[rank] += pieces[rank];
      more = more || pieces[rank].size() >= kPiece;  // that rank may have further pieces
    }
  }
  return whole;
}

// The kernels that this rank must measure: those that no rank before it has.
std::vector<const Tunable*> own_of(const std::map<std::string, const Tunable*>& mine,
                                   const std::vector<std::string>& keys_of_ranks, int32_t rank) {
  std::set<std::string> before;
  for (int32_t r = 0; r < rank; ++r)
    for (std::string& key : split(keys_of_ranks[static_cast<size_t>(r)], '\n'))
      before.insert(std::move(key));
  std::vector<const Tunable*> own;
  for (const auto& [key, kernel] : mine)
    if (!before.contains(key)) own.push_back(kernel);
  return own;
}

}  // namespace

void tune(const std::vector<Tunable>& kernels, plait_device* device, int32_t rank,
          const AllGather& all_gather) {
  std::map<std::string, const Tunable*> mine;
  std::vector<std::string> keys;
  for (const Tunable& t : kernels)
    if (mine.emplace(t.key, &t).second) keys.push_back(t.key);
  std::string found;
  for (const Tunable* t : own_of(mine, gather_long(join(keys, "\n"), all_gather), rank)) {
    plait_algorithm algorithm{};
    check_plugin({t->plugin, "tune", "kernel", t->item->name}, "measuring " + t->where,
                 [&] { return t->item->tune(device, t->kernel, &algorithm); });
    found += t->key + " " + text_of(algorithm) + "\n";
  }
  std::map<std::string, plait_algorithm> chosen;
  for (const std::string& of_rank : gather_long(found, all_gather))
    for (const std::string& line : split(of_rank, '\n'))
      if (const size_t at = line.find(' '); at != std::string::npos)
        chosen.emplace(line.substr(0, at), algorithm_of(line.substr(at + 1)));
  for (const Tunable& t : kernels)
    check_plugin({t.plugin, "adopt", "kernel", t.item->name}, "choosing how to compute " + t.where,
                 [&] { return t.item->adopt(t.kernel, &chosen.at(t.key)); });
}

}  // namespace plait::runtime
