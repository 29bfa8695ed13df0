/* plait/op.h - operations: what a program is made of. The engine brings the core ops (see the list in ARCHITECTURE.md); a
 * plugin may add its own with a shape rule, a gradient rule written in ops, and kernels (device.h). */
#ifndef PLAIT_OP_H
#define PLAIT_OP_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/map.h>
#include <plait/plugin.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One op application, fully typed. Borrowed for the call. */
typedef struct plait_op_desc {
  size_t struct_size;
  const char *op;
  uint32_t n_inputs, n_outputs, n_attrs;
  uint32_t threads;           /* how many threads the kernel may use */
  const plait_shape *inputs;  /* (n_inputs) */
  const plait_shape *outputs; /* (n_outputs); NULL while shapes are being inferred */
  const plait_attr *attrs;    /* (n_attrs) */
  const int32_t *alias;       /* (n_outputs): the input whose memory the output shares, or -1; NULL: none shares */
  const plait_map *map;       /* the expression of op "map", else NULL */
} plait_op_desc;

/* One op of the forward program, as its gradient rule sees it. Borrowed for the call. */
typedef struct plait_op_use {
  size_t struct_size;
  uint32_t n_inputs, n_outputs, n_attrs;
  uint32_t reserved;
  const plait_value *inputs;    /* (n_inputs) */
  const plait_value *outputs;   /* (n_outputs) */
  const plait_value *d_outputs; /* (n_outputs): gradient of each output, 0 where there is none */
  const uint8_t *needs_grad;    /* (n_inputs): 1 where the input's gradient is needed */
  const plait_attr *attrs;      /* (n_attrs) */
} plait_op_use;

/* Kind "plait.op/1". Static. */
typedef struct plait_op_item {
  size_t struct_size;
  const char *name; /* "acme.swish2": a dot keeps it apart from core ops */
  const char *help;
  uint32_t n_outputs;
  uint32_t reserved;

  /* Shape rule: sets outputs (n_outputs) from desc->inputs and attrs. Pure. Errors say which shapes were found and
   * expected; make them with host->error_new. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *infer)(const plait_host *host, const plait_op_desc *desc, plait_shape *outputs);

  /* Gradient rule: writes ops through `b` and sets d_inputs (n_inputs), 0 where none exists. NULL: not differentiable.
   * [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *gradient)(plait_builder *b, const plait_op_use *use, plait_value *d_inputs);

  /* Since struct_size 56. Floating-point operations of one run: a finite number, not below 0. By them `plait plan` counts, the
   * stages of a pipeline are balanced and recomputation chooses. Pure. NULL: one per element of the first output.
   * [thread: plan; blocks: no] */
  double(PLAIT_CALL *flops)(const plait_op_desc *desc);
} plait_op_item;

#define PLAIT_KIND_OP "plait.op/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OP_H */
