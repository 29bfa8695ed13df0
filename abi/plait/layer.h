/* plait/layer.h - layers, losses and metrics: items that write ops. */
#ifndef PLAIT_LAYER_H
#define PLAIT_LAYER_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/option.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kind "plait.layer/1": values in, values out. Static. */
typedef struct plait_layer_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options; /* (n_options) */
  uint32_t n_options;
  uint32_t min_inputs, max_inputs; /* max UINT32_MAX: any number */
  uint32_t n_outputs;
  /* Writes the layer's ops; sets outputs (n_outputs). [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options, const plait_value *inputs,
                                                  uint32_t n_inputs, plait_value *outputs);
} plait_layer_item;

/* Kind "plait.loss/1". Inputs: prediction first, then what it is compared with. build() sets two scalars, floats, shape ():
 * outputs[0] = sum over samples of weight * loss, outputs[1] = sum of the weights. The engine divides once per step by the
 * weights of the whole global batch, so that the result does not depend on how the batch was split. */
typedef struct plait_loss_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t min_inputs, max_inputs;
  uint32_t reserved;
  /* [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options, const plait_value *inputs,
                                                  uint32_t n_inputs, plait_value *outputs);
} plait_loss_item;

/* Kind "plait.metric/1". build() sets one value, the state of this micro-batch: shape (n_state), floats. States of micro-batches
 * and ranks are added; finish() turns the sum into the metric. */
typedef struct plait_metric_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t min_inputs, max_inputs;
  uint32_t n_state;
  uint32_t higher_is_better; /* 1 or 0: what early stopping should look for */
  uint32_t reserved;
  /* [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *build)(plait_builder *b, const plait_options *options, const plait_value *inputs,
                                                  uint32_t n_inputs, plait_value *state);
  /* state (n_state) summed in double. Pure. [thread: any; blocks: no] */
  double(PLAIT_CALL *finish)(const double *state);
} plait_metric_item;

#define PLAIT_KIND_LAYER "plait.layer/1"
#define PLAIT_KIND_LOSS "plait.loss/1"
#define PLAIT_KIND_METRIC "plait.metric/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_LAYER_H */
