// plait/replay.hpp - steps predicted from measured times from C++20, over replay.h.
//
//   plait::ReplayTexts r = plait::replay(experiment, profile);    (session.profile({...}).table)
#pragma once

#include <plait/replay.h>
#include <plait/plait.hpp>

#include <string>
#include <string_view>

namespace plait {
inline namespace embedding {

struct ReplayTexts {
  std::string json, picture;  // picture: SVG; "" without a pipeline
};

inline ReplayTexts replay(const Experiment& experiment, std::string_view profile) {
  plait_text* svg = nullptr;
  ReplayTexts texts;
  texts.json = host_detail::text_of([&](plait_text** json) {
    return plait_plan_replay(experiment.get(), profile.data(), profile.size(), json, &svg);
  });
  if (svg)
    texts.picture = host_detail::text_of([&](plait_text** t) {
      *t = svg;
      return static_cast<plait_error*>(nullptr);
    });
  return texts;
}

}  // namespace embedding
}  // namespace plait
