/* plait/build.h - writing ops into a program, at plan time. Layers, losses, metrics, optimizers and gradient rules all get a
 * plait_builder and nothing else: they never see data.
 *
 * Shapes in comments: B samples of a micro-batch; a value's shape is fixed when it is made. */
#ifndef PLAIT_BUILD_H
#define PLAIT_BUILD_H

#include <plait/base.h>
#include <plait/option.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A value of the program under construction: an id, valid within the build call that obtained it. 0 is "none". */
typedef uint32_t plait_value;

/* A typed attribute of an op. `type` is PLAIT_OPT_BOOL, _INT (both in i), _REAL (f), _TEXT (text, NUL-terminated) or _INTS
 * (ints, n). Copied by the callee. This struct never changes. */
typedef struct plait_attr {
  const char *name;
  uint32_t type;
  uint32_t n;
  int64_t i;
  double f;
  const char *text;
  const int64_t *ints;
} plait_attr;

/* How a parameter starts. Element e of parameter P gets a number that depends on (seed, P's name, e) alone. */
#define PLAIT_INIT_CONSTANT 1u  /* a */
#define PLAIT_INIT_UNIFORM 2u   /* in [a, b) */
#define PLAIT_INIT_NORMAL 3u    /* mean a, standard deviation b */
#define PLAIT_INIT_TRUNCATED 4u /* normal, redrawn within two standard deviations */

/* A parameter asked for by a layer. */
typedef struct plait_parameter {
  size_t struct_size;
  const char *name;  /* within the layer: "weight" */
  plait_shape shape; /* global; the type is that of [precision] */
  uint32_t init;     /* PLAIT_INIT_* */
  int32_t shard_dim; /* the dimension that tensor parallelism may shard, or -1: replicated */
  double init_a, init_b;
} plait_parameter;

typedef struct plait_build_table plait_build_table;

/* The context of one build call. Borrowed for the call. */
typedef struct plait_builder {
  const plait_build_table *table; /* the rest is the engine's own */
} plait_builder;

/* Every function: [thread: plan; blocks: no]. Texts end in NUL. */
struct plait_build_table {
  size_t struct_size;

  /* Applies op `name` to inputs (n_in) and sets outputs (n_out; fewer than the op has is fine, further ones are dropped).
   * Errors: PLAIT_ERR_NOT_FOUND with the nearest op name; PLAIT_ERR_INVALID with both shapes. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *op)(plait_builder *b, const char *name, const plait_value *inputs, uint32_t n_in,
                                               const plait_attr *attrs, uint32_t n_attrs, plait_value *outputs,
                                               uint32_t n_out);
  /* A scalar constant, shape (). An element-wise op takes it in the type of its other floats, so that these decide. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *constant)(plait_builder *b, double value, plait_value *out);
  /* Type and shape of a value. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *shape)(plait_builder *b, plait_value v, plait_shape *out);
  /* The layer's parameter of that name, made on first use; its full name is the layer's name, a dot, this name. Where the
   * experiment ties it to another parameter, that one is returned after its shape was compared. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *parameter)(plait_builder *b, const plait_parameter *p, plait_value *out);
  /* A named value: a field of the data, a value that a layer entry named with `as`, or "weight": the sample weights (B),
   * 0 for padding, in the type of losses. Errors: PLAIT_ERR_NOT_FOUND with the names there are. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *named)(plait_builder *b, const char *name, plait_value *out);
  /* 1 while the training program is traced, 0 for evaluation. */
  uint32_t(PLAIT_CALL *training)(plait_builder *b);
  /* The full name of the item being built ("model.fc1"), for messages. */
  const char *(PLAIT_CALL *scope)(plait_builder *b);
  /* An optimizer's state tensor of the parameter's shape: its value before this step; and its value after it. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *state)(plait_builder *b, const char *name, double initial, plait_value *out);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *set_state)(plait_builder *b, const char *name, plait_value v);
  /* Makes an error to return; the engine adds who, where and the file's line. Never NULL. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *fail)(plait_builder *b, uint32_t code, const char *text, uint64_t size);
};

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_BUILD_H */
