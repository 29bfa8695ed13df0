/* plait/optimizer.h - optimizers and learning-rate schedules.
 *
 * An optimizer writes the ops of one update. What it is given depends on the scope of its rule,
 * which it may choose for each parameter:
 *
 *   PLAIT_SCOPE_ELEMENT  an element-wise expression over one flat value that holds the elements of
 *                        many parameters, or of a part of one (sgd, adamw)
 *   PLAIT_SCOPE_TENSOR   any ops over one whole parameter, with its shape: reductions, matrix
 *                        products, transposes (lamb, adafactor, muon)
 *
 * A rule is written as if there were one rank, in both scopes. For a parameter that tensor ranks
 * share, the engine shards the ops of the rule as it shards the ops of a layer; ZeRO gives each
 * replica whole parameters to update.
 *
 * The whole of an optimizer that scales each update by the norm of its parameter (in the C++ of
 * plugin.hpp; NAME, HELP, OPTIONS as in any item):
 *
 *   uint32_t scope_of(const Options&, const plait_parameter_info&) { return PLAIT_SCOPE_TENSOR; }
 *   Value build(Builder& b, const Options&, const Update& u) {
 *     const Value size = sqrt(b.sum(u.parameter * u.parameter));    // of the whole tensor
 *     return u.parameter - u.learning_rate * size * u.gradient;
 *   }
 *   static const auto item = optimizer<build, scope_of>(NAME, HELP, 0.01, 0, OPTIONS);
 */
#ifndef PLAIT_OPTIMIZER_H
#define PLAIT_OPTIMIZER_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the rule of a parameter is given. */
#define PLAIT_SCOPE_ELEMENT 0u
#define PLAIT_SCOPE_TENSOR 1u

/* What the engine knows of a parameter, from the ops that read it and from the experiment. */
#define PLAIT_PARAMETER_TABLE 1u  /* its rows are looked up by index, as in an embedding */
#define PLAIT_PARAMETER_OUTPUT 2u /* the last matrix before the model's output, or added behind it: the head */
/* The experiment asks for the element-wise rule: `elementwise = true` in the parameter's group. An
 * optimizer that has none returns an error. */
#define PLAIT_PARAMETER_ELEMENTWISE 4u
#define PLAIT_PARAMETER_GROUPED 8u /* (E, ..): a matrix for each of E groups of rows, such as experts */

/* A parameter as an optimizer sees it. Borrowed for the call. */
typedef struct plait_parameter_info {
  size_t struct_size;
  const char *name;  /* "model.linear1.weight" */
  plait_shape shape; /* global */
  uint32_t flags;    /* PLAIT_PARAMETER_* */
  uint32_t reserved;
} plait_parameter_info;

/* The inputs of one update: of a flat shard with N elements, or with PLAIT_SCOPE_TENSOR of one
 * parameter; (N) is then the parameter's global shape. Values are f32, or f64 where [precision]
 * says so; scalars have shape (). Borrowed for the call. */
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

  /* Since struct_size 48. */
  uint32_t scope; /* PLAIT_SCOPE_* of this call */
  uint32_t reserved;
  const plait_parameter_info *info; /* of the parameter; NULL with PLAIT_SCOPE_ELEMENT */
} plait_update;

/* Kind "plait.optimizer/1". The engine itself handles the keys `learning_rate`, `weight_decay`,
 * `schedule`, `groups`, `clip_grad_norm`, `frozen`, `elementwise`, `name`; `options` declares the others. build() sets
 * *parameter to the new parameter (N). With PLAIT_SCOPE_ELEMENT it may use only element-wise ops,
 * state() and set_state(). Padding elements have parameter 0, gradient 0 and, at first, the initial
 * states; the new parameter must be 0 there. Where tensor ranks share a parameter unevenly, planning
 * checks this. With PLAIT_SCOPE_TENSOR it may use any op, state(), tensor_state() and set_state(),
 * and sees no padding. It is called several times for a parameter, and must do the same each time.
 * Static. */
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

  /* Since struct_size 72. Sets *scope to the PLAIT_SCOPE_* of a parameter's rule. NULL:
   * PLAIT_SCOPE_ELEMENT for all. Pure: all ranks must get the same. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *scope)(const plait_host *host, const plait_options *options,
                                                  const plait_parameter_info *parameter, uint32_t *scope);
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
