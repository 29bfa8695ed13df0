// Checkpoints listed, verified, compared and rewritten.
#include <plait/checkpoint.h>

#include <algorithm>
#include <memory>

#include "engine/base/text.hpp"
#include "engine/capi/checkpoint_json.hpp"
#include "engine/capi/objects.hpp"
#include "engine/checkpoint/unfinished.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/observe/run_dir.hpp"

using namespace plait;
using namespace plait::capi;
using namespace plait::checkpoint;

namespace {

// Passes what is read on to the host, which may stop the call.
Progress progress_of(plait_progress call, void* user, uint64_t total) {
  if (!call) return {};
  return [call, user, total, done = uint64_t{0}, untold = uint64_t{0}](uint64_t bytes) mutable {
    constexpr uint64_t kTellEvery = 4u << 20;
    done += bytes;
    untold += bytes;
    if (untold < kTellEvery && done < total) return;
    untold = 0;
    if (call(user, std::min(done, total), total) != 0)
      fail(PLAIT_ERR_CANCELLED, "[checkpoint] stopped on request");
  };
}

// Checksums are compared when tensors are read.
Checkpoint open_later(FileSystem& files, const char* place) {
  return Checkpoint(files, choose_checkpoint(files, place), Checkpoint::Verify::kLater);
}

uint64_t file_bytes(FileSystem& files, const std::string& folder) {
  uint64_t sum = 0;
  for (const std::string& name : files.list(folder))
    if (name.ends_with(".safetensors")) sum += files.info(join_path(folder, name)).size;
  return sum;
}

}  // namespace

extern "C" {

plait_error* plait_checkpoint_list(plait_engine* engine, const char* place, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(place, "place");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_list", "engine");
    *json = new_text(survey_json(survey(engine->state->files, place)));
  });
}

plait_error* plait_checkpoint_describe(plait_engine* engine, const char* checkpoint,
                                       plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(checkpoint, "checkpoint");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_describe", "engine");
    FileSystem& files = engine->state->files;
    const std::string path = choose_checkpoint(files, checkpoint);
    *json = new_text(description_json(path, read_manifest(files, path)));
  });
}

plait_error* plait_checkpoint_verify(plait_engine* engine, const char* checkpoint,
                                     plait_progress progress, void* user, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(checkpoint, "checkpoint");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_verify", "engine");
    FileSystem& files = engine->state->files;
    const Survey found = survey(files, checkpoint);
    if (found.kind != PlaceKind::kCheckpoint)
      fail_not_found("[checkpoint] '" + std::string(checkpoint) +
                     "' is no checkpoint; name a step-... folder or the file best");
    const std::string& path = found.checkpoints.at(0).path;
    if (found.checkpoints[0].condition == Condition::kNotCommitted)
      fail_not_found("[checkpoint] " + unfinished_text(path, found.checkpoints[0].fault) +
                     "; name a step-... folder or the file best");
    const Verification done = verify_checkpoint(
        files, path, progress_of(progress, user, progress ? file_bytes(files, path) : 0));
    *json = new_text(verification_json(path, done));
  });
}

plait_error* plait_checkpoint_compare(plait_engine* engine, const char* a, const char* b,
                                      uint32_t what, plait_progress progress, void* user,
                                      plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(a, "a");
    require(b, "b");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_compare", "engine");
    if (what > PLAIT_COMPARE_PARAMETERS)
      fail_invalid(
          strf("[capi] what is %u, expected PLAIT_COMPARE_EVERYTHING (0), "
               "PLAIT_COMPARE_TENSORS (1) or PLAIT_COMPARE_PARAMETERS (2)",
               what));
    FileSystem& files = engine->state->files;
    const Checkpoint of_a = open_later(files, a), of_b = open_later(files, b);
    const auto compared = static_cast<Compared>(what);
    Comparison c = compare_checkpoints(
        of_a, of_b, compared, progress_of(progress, user, bytes_to_compare(of_a, of_b, compared)));
    if (compared == Compared::kEverything) add_experiments(files, of_a, of_b, c);
    *json = new_text(comparison_json(of_a, of_b, c));
  });
}

plait_error* plait_checkpoint_convert(plait_engine* engine, const char* checkpoint, const char* out,
                                      const plait_convert_options* options, plait_text** json) {
  return guard_c([&] {
    require(engine, "engine");
    require(checkpoint, "checkpoint");
    require(out, "out");
    require(json, "json");
    const ApiCall call(*engine, "plait_checkpoint_convert", "engine");
    const auto o = read_options(options, kConvertOptionsV1, "plait_convert_options");
    FileSystem& files = engine->state->files;
    const auto lock = observe::lock_run_around(files, out);
    const Checkpoint from = open_later(files, checkpoint);
    uint64_t total = 0;
    for (const TensorRecord& t : from.tensors())
      if (o.no_optimizer == 0 || is_parameter(t)) total += tensor_bytes(t);
    std::unique_ptr<plait_text> text;  // complete before the checkpoint appears
    rewrite_checkpoint(files, from, out, {o.shards, o.max_shard_bytes, o.no_optimizer == 0},
                       progress_of(o.progress, o.user, total), [&](const Rewritten& done) {
                         text.reset(new_text(rewritten_json(from, done)));
                       });
    *json = text.release();
  });
}

}  // extern "C"
