#include "plugins/support/packing.hpp"

#include <algorithm>
#include <map>

namespace plait::support {

Packing pack_none(std::span<const int64_t> documents, int64_t length) {
  Packing packing;
  packing.first.push_back(0);
  for (size_t d = 0; d + 1 < documents.size(); ++d) {
    const int64_t n = documents[d + 1] - documents[d];
    if (n < 2) continue;
    if (n > length + 1) ++packing.cut;
    packing.pieces.push_back({documents[d], static_cast<int32_t>(std::min(n, length + 1))});
    packing.first.push_back(static_cast<int64_t>(packing.pieces.size()));
  }
  return packing;
}

namespace {

std::vector<Piece> pieces_of(std::span<const int64_t> documents, int64_t length) {
  std::vector<Piece> pieces;
  for (size_t d = 0; d + 1 < documents.size(); ++d)
    for (int64_t at = documents[d]; documents[d + 1] - at >= 2; at += length)
      pieces.push_back({at, static_cast<int32_t>(std::min(documents[d + 1] - at, length + 1))});
  return pieces;
}

}  // namespace

Packing pack_best_fit(std::span<const int64_t> documents, int64_t length) {
  std::vector<Piece> pieces = pieces_of(documents, length);
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.n > b.n; });
  std::map<int64_t, std::vector<int64_t>> by_room;  // samples with so many places left
  std::vector<int64_t> sample_of(pieces.size());
  int64_t samples = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int64_t places = pieces[i].n - 1;
    int64_t room = length;
    if (const auto fits = by_room.lower_bound(places); fits != by_room.end()) {
      room = fits->first;
      sample_of[i] = fits->second.back();
      fits->second.pop_back();
      if (fits->second.empty()) by_room.erase(fits);
    } else {
      sample_of[i] = samples++;
    }
    if (room > places) by_room[room - places].push_back(sample_of[i]);
  }
  Packing packing;
  packing.first.assign(static_cast<size_t>(samples) + 1, 0);
  for (const int64_t s : sample_of) ++packing.first[static_cast<size_t>(s) + 1];
  for (size_t s = 0; s < static_cast<size_t>(samples); ++s)
    packing.first[s + 1] += packing.first[s];
  packing.pieces.resize(pieces.size());
  std::vector<int64_t> next(packing.first.begin(), packing.first.end() - 1);
  for (size_t i = 0; i < pieces.size(); ++i)
    packing.pieces[static_cast<size_t>(next[static_cast<size_t>(sample_of[i])]++)] = pieces[i];
  return packing;
}

}  // namespace plait::support
