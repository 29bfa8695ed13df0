/* plait/op.h - operations: what a program is made of. The engine brings the core ops (OPS.md lists them with their attributes;
 * `plait ops` prints the same); a plugin may add its own with a shape rule, a gradient rule written in ops, a sharding rule
 * and kernels (device.h). */
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

/* How a tensor lies on the ranks of one axis of the mesh. */
#define PLAIT_PLACE_REPLICATE 0u /* every rank has all of it */
#define PLAIT_PLACE_SHARD 1u     /* rank t of T has the t-th of T equal parts along dimension `dim` */
#define PLAIT_PLACE_PARTIAL 2u   /* every rank has a term of the full shape; reducing all ranks' terms makes the tensor */

/* This struct never changes. */
typedef struct plait_placement {
  uint32_t kind;      /* PLAIT_PLACE_* */
  int32_t dim;        /* of PLAIT_PLACE_SHARD, from 0; else -1 */
  uint32_t reduction; /* of PLAIT_PLACE_PARTIAL: PLAIT_COMM_SUM or PLAIT_COMM_MAX (comm.h); else 0 */
  uint32_t reserved;  /* 0 */
} plait_placement;

/* One op application whose operands may lie in shards, as its sharding rule sees it. Placements are arrays (n, n_axes): that of
 * operand i on axis a is entry i * n_axes + a. Borrowed for the call. */
typedef struct plait_shard_use {
  size_t struct_size;
  const plait_op_desc *op; /* full shapes, outputs included */
  uint32_t n_axes;         /* axes of the mesh that shard this program; 1 in ABI 1.0 */
  uint32_t keeps_zeros;    /* out, 0 at the call: 1 where zeros at the same index in all sharded inputs give zeros there */
  const int64_t *ranks;    /* (n_axes): ranks along each axis */
  const plait_placement *have; /* (n_inputs, n_axes): how the inputs lie; never PARTIAL */
  plait_placement *inputs;     /* (n_inputs, n_axes), out, REPLICATE at the call: how the rule needs them; never PARTIAL */
  plait_placement *outputs;    /* (n_outputs, n_axes), out, REPLICATE at the call: how the results lie then */
} plait_shard_use;

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

  /* Since struct_size 72. The attributes that the op takes (n_attrs; types BOOL, INT, REAL, TEXT and INTS), declared like the
   * options of an item. An attribute that is not declared, or of another type, is an error with the nearest name where the op
   * is written; the functions and kernels of the op see every declared one, defaults filled in. attrs = NULL: none is
   * declared, and all are passed on unchecked. An op without attributes gives any pointer and n_attrs = 0. */
  const plait_option *attrs;
  uint32_t n_attrs;
  uint32_t reserved2;

  /* Since struct_size 80. Sharding rule: from how the inputs lie it says how the op needs them and how its results lie then, and
   * returns 1; 0: it needs replicated inputs. Each rank then runs the op on its parts: infer() sees their shapes, and must give
   * the parts of the results. The engine converts inputs that lie otherwise, and reduces partial results. Where T does not
   * divide an extent the last parts end in zeros; unless the rule sets keeps_zeros such inputs are replicated instead. Called
   * only where an input is sharded. NULL: the op needs replicated inputs. Pure. [thread: plan; blocks: no] */
  uint32_t(PLAIT_CALL *shard)(plait_shard_use *use);
} plait_op_item;

#define PLAIT_KIND_OP "plait.op/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OP_H */
