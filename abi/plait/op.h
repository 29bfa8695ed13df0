/* plait/op.h - ops: the operations that programs consist of. The engine brings the core ops; OPS.md
 * lists them with their attributes, and `plait ops` prints the same list. A plugin may add an op
 * with a shape rule, a gradient rule written in ops, a sharding rule, and kernels (device.h). */
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

/* One application of an op, with all types and shapes. Borrowed for the call. */
typedef struct plait_op_desc {
  size_t struct_size;
  const char *op;
  uint32_t n_inputs, n_outputs, n_attrs;
  uint32_t threads;           /* number of threads that the kernel may use */
  const plait_shape *inputs;  /* (n_inputs) */
  const plait_shape *outputs; /* (n_outputs); NULL in infer() */
  const plait_attr *attrs;    /* (n_attrs) */
  const int32_t *alias;       /* (n_outputs): index of the input whose memory the output shares, or -1; NULL: all -1 */
  const plait_map *map;       /* the expression of the op "map", otherwise NULL */
} plait_op_desc;

/* One op of the forward program, for its gradient rule. Borrowed for the call. */
typedef struct plait_op_use {
  size_t struct_size;
  uint32_t n_inputs, n_outputs, n_attrs;
  uint32_t reserved;
  const plait_value *inputs;    /* (n_inputs) */
  const plait_value *outputs;   /* (n_outputs) */
  const plait_value *d_outputs; /* (n_outputs): gradient of each output; 0 if it has none */
  const uint8_t *needs_grad;    /* (n_inputs): 1 if the gradient of the input is needed */
  const plait_attr *attrs;      /* (n_attrs) */
} plait_op_use;

/* The placement of a tensor on the ranks of one axis of the mesh. */
#define PLAIT_PLACE_REPLICATE 0u /* every rank holds the whole tensor */
#define PLAIT_PLACE_SHARD 1u     /* rank t of T holds the t-th of T equal parts along dimension `dim` */
#define PLAIT_PLACE_PARTIAL 2u   /* every rank holds a term of the full shape; their reduction is the tensor */

/* This struct never changes. */
typedef struct plait_placement {
  uint32_t kind;      /* PLAIT_PLACE_* */
  int32_t dim;        /* of PLAIT_PLACE_SHARD, from 0; otherwise -1 */
  uint32_t reduction; /* of PLAIT_PLACE_PARTIAL: PLAIT_COMM_SUM or PLAIT_COMM_MAX (comm.h); otherwise 0 */
  uint32_t reserved;  /* 0 */
} plait_placement;

/* One application of an op whose operands may be sharded, for its sharding rule. Placements are
 * arrays (n, n_axes): entry i * n_axes + a is that of operand i on axis a. Borrowed for the
 * call. */
typedef struct plait_shard_use {
  size_t struct_size;
  const plait_op_desc *op; /* full shapes, also of the outputs */
  uint32_t n_axes;         /* number of mesh axes that shard this program; 1 in ABI 1.0 */
  uint32_t keeps_zeros;    /* set by the rule (0 before): 1 if zeros at one index of all sharded inputs give zeros there */
  const int64_t *ranks;    /* (n_axes): number of ranks along each axis */
  const plait_placement *have; /* (n_inputs, n_axes): present placements of the inputs; never PARTIAL */
  plait_placement *inputs;  /* (n_inputs, n_axes), set by the rule (REPLICATE before): needed placements; never PARTIAL */
  plait_placement *outputs; /* (n_outputs, n_axes), set by the rule (REPLICATE before): resulting placements */
} plait_shard_use;

/* Kind "plait.op/1": an op. Static. */
typedef struct plait_op_item {
  size_t struct_size;
  const char *name; /* "acme.swish2": its dot distinguishes it from core ops */
  const char *help;
  uint32_t n_outputs;
  uint32_t reserved;

  /* Shape rule: sets outputs (n_outputs) from desc->inputs and desc->attrs. Pure. Errors are made
   * with host->error_new().
   * Errors: PLAIT_ERR_INVALID or another code for inputs or attributes that the op does not accept,
   * with the shapes found and expected. The op is not applied: plait_build_table.op returns an
   * error with the same code to the item that wrote it. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *infer)(const plait_host *host, const plait_op_desc *desc, plait_shape *outputs);

  /* Gradient rule: writes ops with `b` and sets d_inputs (n_inputs), 0 for an input without a
   * gradient. NULL: the op is not differentiable.
   * Errors: any error of `b` unchanged; PLAIT_ERR_UNIMPLEMENTED for a case without a gradient. The
   * plan fails with the same code. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *gradient)(plait_builder *b, const plait_op_use *use, plait_value *d_inputs);

  /* Since struct_size 56. Returns the floating-point operations of one run: a finite number, 0 or
   * more. `plait plan` reports it, pipeline stages are balanced by it, and recomputation chooses by
   * it. Pure. NULL: one per element of the first output. [thread: plan; blocks: no] */
  double(PLAIT_CALL *flops)(const plait_op_desc *desc);

  /* Since struct_size 72. The attributes of the op (n_attrs; types BOOL, INT, REAL, TEXT and INTS),
   * declared like the options of an item. An op that is written with an undeclared attribute, or
   * one of another type, is an error with the nearest name. The functions and kernels of the op
   * receive every declared attribute, defaults filled in. attrs NULL: nothing is declared, and all
   * attributes are passed on unchecked. An op without attributes sets attrs to any other pointer
   * and n_attrs to 0. */
  const plait_option *attrs;
  uint32_t n_attrs;
  uint32_t reserved2;

  /* Since struct_size 80. Sharding rule: returns 1 if the op can run on shards, and sets the
   * placements that its inputs need and its outputs then have; 0 if it needs replicated inputs. The
   * engine converts inputs with other placements, runs the op on each rank's shards and reduces
   * partial outputs. infer() then receives the shapes of the shards and must return the shapes of the
   * outputs' shards. If the ranks do not divide an extent, the last shards end in zeros; such
   * inputs are replicated unless the rule sets keeps_zeros. Called only if an input is sharded.
   * NULL: the op needs replicated inputs. Pure. [thread: plan; blocks: no] */
  uint32_t(PLAIT_CALL *shard)(plait_shard_use *use);
} plait_op_item;

#define PLAIT_KIND_OP "plait.op/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OP_H */
