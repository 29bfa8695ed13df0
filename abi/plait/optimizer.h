/* plait/optimizer.h - optimizers and learning-rate schedules. An optimizer writes one element-wise
 * expression; the engine applies it to flat shards that hold all parameters of a group. */
#ifndef PLAIT_OPTIMIZER_H
#define PLAIT_OPTIMIZER_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The inputs of one update of a flat shard with N elements. Values are f32, or f64 where
 * [precision] says so; scalars have shape (). Borrowed for the call. */
typedef struct plait_update {
  size_t struct_size;
  plait_value parameter; /* (N) */
  /* (N): the gradient of the mean loss, clipped. The mean is over the weights of the whole
   * global batch: the engine sums the gradients of micro-batches and ranks and divides once. */
  plait_value gradient;
  plait_value learning_rate;   /* of this step and group: base learning rate * schedule_factor */
  plait_value schedule_factor; /* of this step */
  plait_value step;            /* number of this update, from 1; skipped steps do not count */
  plait_value weight_decay;    /* of the group */
} plait_update;

/* Kind "plait.optimizer/1". The engine itself handles the keys `learning_rate`, `weight_decay`,
 * `schedule`, `groups`, `clip_grad_norm` and `frozen`; `options` declares the others. build() may
 * use only element-wise ops, state() and set_state(); it sets *parameter to the new parameter (N).
 * Padding elements have parameter 0, gradient 0 and the initial states; the new parameter must be 0
 * there. Static. */
typedef struct plait_optimizer_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  double default_learning_rate; /* of the key `learning_rate` */
  double default_weight_decay;  /* of the key `weight_decay` */
  /* Writes the ops of one update. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options,
                                                  const plait_update *update, plait_value *parameter);
} plait_optimizer_item;

/* Kind "plait.schedule/1": a factor of the learning rate for each step. Static. */
typedef struct plait_schedule_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  /* Opens a schedule; close() frees *state. total_steps: the number of steps of the run, 0 if
   * unknown. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, int64_t total_steps,
                                                 void **state);
  /* Returns the factor of step `step`, counted from 1. Pure. [thread: any; blocks: no] */
  double(PLAIT_CALL *factor)(const void *state, int64_t step);
  /* Frees the state. [thread: any, after the last factor(); blocks: no] */
  void(PLAIT_CALL *close)(void *state);
} plait_schedule_item;

#define PLAIT_KIND_OPTIMIZER "plait.optimizer/1"
#define PLAIT_KIND_SCHEDULE "plait.schedule/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OPTIMIZER_H */
