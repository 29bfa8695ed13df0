/* plait/layer.h - layers, losses and metrics: items that write ops at plan time.
 *
 * Errors. An error of build() becomes a problem of the experiment at the line of the entry
 * (PLAIT_ERR_CONFIG; only PLAIT_ERR_MEMORY is kept), and planning continues, to find further problems.
 * The ops that were written before the error are discarded with the plan. */
#ifndef PLAIT_LAYER_H
#define PLAIT_LAYER_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/option.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kind "plait.layer/1": computes values from values. Static. */
typedef struct plait_layer_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options; /* (n_options) */
  uint32_t n_options;
  uint32_t min_inputs, max_inputs; /* max_inputs UINT32_MAX: no limit */
  uint32_t n_outputs;
  /* Writes the ops of the layer and sets outputs (n_outputs).
   * Errors: PLAIT_ERR_INVALID for inputs or options that the layer does not accept, or an error of
   * `b` unchanged; no plan is made. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options, const plait_value *inputs,
                                                  uint32_t n_inputs, plait_value *outputs);
} plait_layer_item;

/* Kind "plait.loss/1". The first input is the prediction, the others are its targets. build() sets
 * two scalars, floats, shape (): outputs[0] is the sum over the samples of weight * loss, outputs[1]
 * the sum of the weights. The engine divides once per step by the weight of the whole global batch,
 * so the result does not depend on how the batch is split into micro-batches and ranks. Losses of one
 * model may count different weights: each is divided by its own, which then must not depend on
 * parameters. Static. */
typedef struct plait_loss_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t min_inputs, max_inputs;
  uint32_t reserved;
  /* Writes the ops of the loss and sets outputs (2).
   * Errors: PLAIT_ERR_INVALID for inputs or options that the loss does not accept, or an error of
   * `b` unchanged; no plan is made. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options, const plait_value *inputs,
                                                  uint32_t n_inputs, plait_value *outputs);
} plait_loss_item;

/* Kind "plait.metric/1". build() sets one value, the state of one micro-batch: floats, shape
 * (n_state). The engine adds the states of all micro-batches and ranks, and finish() computes the
 * metric from the sum. Static. */
typedef struct plait_metric_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t min_inputs, max_inputs;
  uint32_t n_state;
  uint32_t higher_is_better; /* 1: early stopping waits for larger values; 0: for smaller ones */
  uint32_t reserved;
  /* Writes the ops of the metric and sets *state.
   * Errors: PLAIT_ERR_INVALID for inputs or options that the metric does not accept, or an error of
   * `b` unchanged; no plan is made. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options, const plait_value *inputs,
                                                  uint32_t n_inputs, plait_value *state);
  /* Returns the metric for state (n_state), the sum in double precision. Pure.
   * [thread: any; blocks: no] */
  double(PLAIT_CALL *finish)(const double *state);
} plait_metric_item;

#define PLAIT_KIND_LAYER "plait.layer/1"
#define PLAIT_KIND_LOSS "plait.loss/1"
#define PLAIT_KIND_METRIC "plait.metric/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_LAYER_H */
