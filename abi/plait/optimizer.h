/* plait/optimizer.h - optimizers and learning-rate schedules. An optimizer is an element-wise expression written once; the engine applies
 * it to flat shards that hold all parameters of a group. */
#ifndef PLAIT_OPTIMIZER_H
#define PLAIT_OPTIMIZER_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one update reads. N elements of a flat shard; scalars have shape (). f32, or f64 where [precision] says so. */
typedef struct plait_update {
  size_t struct_size;
  plait_value parameter;       /* (N) */
  plait_value gradient;        /* (N), already averaged and clipped */
  plait_value learning_rate;   /* learning rate of this step, schedule included */
  plait_value schedule_factor; /* of this step: learning_rate = base learning rate * schedule_factor */
  plait_value step;            /* counts from 1 */
  plait_value weight_decay;    /* weight decay of the group */
} plait_update;

/* Kind "plait.optimizer/1". Static. `learning_rate`, `weight_decay`, `schedule`, `groups`, `clip_grad_norm` and `frozen` are the engine's own keys; options
 * hold the rest. build() uses element-wise ops, state() and set_state() only, and sets the new parameter (N).
 * Padding elements (parameter 0, gradient 0, states initial) must stay 0. */
typedef struct plait_optimizer_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  double default_learning_rate; /* default of `learning_rate` */
  double default_weight_decay;  /* default of `weight_decay` */
  /* [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options,
                                                  const plait_update *update, plait_value *parameter);
} plait_optimizer_item;

/* Kind "plait.schedule/1": a factor for each step. Static. */
typedef struct plait_schedule_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  /* total_steps: the steps the run will make, 0 when unknown. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, int64_t total_steps,
                                                 void **state);
  /* Factor of step `step`, which counts from 1. Pure. [thread: any; blocks: no] */
  double(PLAIT_CALL *factor)(const void *state, int64_t step);
  /* [thread: any, after the last factor(); blocks: no] */
  void(PLAIT_CALL *close)(void *state);
} plait_schedule_item;

#define PLAIT_KIND_OPTIMIZER "plait.optimizer/1"
#define PLAIT_KIND_SCHEDULE "plait.schedule/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OPTIMIZER_H */
