/* plait/replay.h - how long a step would take, by times that were measured in another layout. */
#ifndef PLAIT_REPLAY_H
#define PLAIT_REPLAY_H

#include <plait/base.h>
#include <plait/plait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Plans the ranks of one pipeline that [topology] asks for, and replays their schedule with the
 * times of a profile: the JSON (size bytes) that plait_session_profile() returned on rank 0 of
 * steps of the same model on the same device, with micro-batches of the same size and as many
 * tensor ranks; its pipeline, schedule, split into stages and replicas may be others. Each op
 * takes the median that was measured of it, each message the median of all messages. Returns JSON:
 * the seconds of a step and its parts, idle shares, each stage's seconds and busy share, the
 * slowest stage, the seconds of each layer, what other schedules and another split would give,
 * what the profile says of itself, the ops that it does not have, which take no time, and
 * `doubts`. *svg receives the schedule as a picture in milliseconds, NULL without a pipeline; svg
 * may be NULL. plait_text_free() frees both. Opens no device and no connection.
 * Errors: PLAIT_ERR_DATA for a text that is no such profile; PLAIT_ERR_CONFIG for a profile of
 * something else, with the first difference; the codes of plait_plan_make_for(). The experiment is
 * unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_replay(plait_experiment *experiment, const char *profile,
                                                                   uint64_t size, plait_text **json, plait_text **svg);

#ifdef __cplusplus
}
#endif

#endif
