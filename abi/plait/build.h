/* plait/build.h - writing ops into a program at plan time. Layers, losses, metrics, optimizers and
 * gradient rules work only on a plait_builder; they never see data.
 *
 * In shapes, B is the number of samples of a micro-batch. The shape of a value is fixed when the
 * value is created. */
#ifndef PLAIT_BUILD_H
#define PLAIT_BUILD_H

#include <plait/base.h>
#include <plait/option.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The id of a value of the program under construction, valid within the build call that obtained
 * it. 0 means no value. */
typedef uint32_t plait_value;

/* A typed attribute of an op. `type` says which fields hold the value: PLAIT_OPT_BOOL and
 * PLAIT_OPT_INT (i), PLAIT_OPT_REAL (f), PLAIT_OPT_TEXT (text, ends in NUL) or PLAIT_OPT_INTS
 * (ints, n). The callee copies it. This struct never changes. */
typedef struct plait_attr {
  const char *name;
  uint32_t type;
  uint32_t n;
  int64_t i;
  double f;
  const char *text;
  const int64_t *ints;
} plait_attr;

/* How a parameter is initialised. The initial value of an element depends only on the seed, the
 * full name of the parameter and the index of the element. */
#define PLAIT_INIT_CONSTANT 1u  /* the value a */
#define PLAIT_INIT_UNIFORM 2u   /* uniform in [a, b) */
#define PLAIT_INIT_NORMAL 3u    /* normal with mean a and standard deviation b */
#define PLAIT_INIT_TRUNCATED 4u /* normal, redrawn until within two standard deviations */

/* A parameter that a layer requests. */
typedef struct plait_parameter {
  size_t struct_size;
  const char *name;  /* within the layer: "weight" */
  plait_shape shape; /* global; the type is that of [precision] */
  uint32_t init;     /* PLAIT_INIT_* */
  int32_t shard_dim; /* the dimension that tensor parallelism may shard; -1: replicated */
  double init_a, init_b;

  /* Since struct_size 120. Indices along shard_dim that stay together on one rank, as the channels
   * of a head. If the tensor ranks do not divide the number of units, the parameter is replicated.
   * 0 is 1: shards begin anywhere. Ignored where shard_dim is -1. */
  int64_t shard_unit;

  /* Since struct_size 128. */
  uint32_t flags; /* sum of PLAIT_REQUEST_* */
  uint32_t reserved;
} plait_parameter;

/* It keeps its initial values, whatever the experiment trains: no gradient, no optimizer states. */
#define PLAIT_REQUEST_FIXED 1u
/* Of a PEFT method: it belongs to the weight that an op applies, not to the place where that is
 * read, so layers that tie one weight share it. Its full name begins with that of the weight. */
#define PLAIT_REQUEST_OF_WEIGHT 2u

/* A state tensor that an optimizer keeps for one parameter, of a shape of its own: PLAIT_SCOPE_TENSOR. */
typedef struct plait_state {
  size_t struct_size;
  const char *name;
  plait_shape shape; /* global; the type is that of [precision] for states */
  double initial;    /* of every element */
  /* For each dimension of `shape`, the dimension of the parameter that it runs along and has the
   * extent of; -1: none. Where tensor ranks share the parameter along that dimension, they share
   * the state, too. Row means of a matrix: {0}; column means: {1}. */
  int32_t parameter_dims[PLAIT_MAX_NDIM];
} plait_state;

typedef struct plait_build_table plait_build_table;

/* The context of one build call. Borrowed for the call. */
typedef struct plait_builder {
  const plait_build_table *table; /* the engine's own fields follow */
} plait_builder;

/* The functions that write ops. Texts without a length end in NUL and are copied. An item should
 * return any error that it receives: the program cannot be completed after one.
 * [thread: plan; blocks: no] */
struct plait_build_table {
  size_t struct_size;

  /* Applies the op `name` to inputs (n_in) and sets outputs (n_out). n_out may be smaller than the
   * number of outputs of the op.
   * Errors: PLAIT_ERR_NOT_FOUND when no op has that name, with the nearest name; PLAIT_ERR_INVALID
   * for inputs or attributes that the op does not accept, with the shapes, for an id that is not a
   * value, and when n_out is too large; PLAIT_ERR_PLUGIN when the rule of a plugin's op returns a
   * malformed shape; PLAIT_ERR_STATE for random_uniform in an optimizer or a gradient rule. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *op)(plait_builder *b, const char *name, const plait_value *inputs, uint32_t n_in,
                                               const plait_attr *attrs, uint32_t n_attrs, plait_value *outputs,
                                               uint32_t n_out);
  /* Creates a scalar constant, shape (). An element-wise op takes it in the type of its other
   * floats, so that these decide the type of the result. Errors: PLAIT_ERR_MEMORY. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *constant)(plait_builder *b, double value, plait_value *out);
  /* Sets *out to the element type and shape of a value.
   * Errors: PLAIT_ERR_INVALID for an id that is not a value. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *shape)(plait_builder *b, plait_value v, plait_shape *out);
  /* Returns the layer's parameter of that name and creates it on first use. Its full name is the
   * name of the layer, a dot and p->name. If the experiment ties it to another parameter, the
   * function returns that one. Only for layers.
   * Errors: PLAIT_ERR_INVALID for a malformed plait_parameter; PLAIT_ERR_CONFIG when the shape
   * differs from that of the existing or tied parameter, or the tied parameter does not exist
   * (yet); PLAIT_ERR_PLUGIN when shard_dim is not a dimension of the shape, or shard_unit does
   * not divide its extent; PLAIT_ERR_STATE in anything but a layer. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *parameter)(plait_builder *b, const plait_parameter *p, plait_value *out);
  /* Returns a named value: a value that a layer entry named with `as`, a field of the data, the
   * output of a layer by the layer's name, "input" in a block: what enters it; or "weight": the
   * sample weights (B), 0 for padding, in the type of losses.
   * Errors: PLAIT_ERR_NOT_FOUND with the names that exist. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *named)(plait_builder *b, const char *name, plait_value *out);
  /* Returns 1 while the training program is traced, 0 in the evaluation program and in frozen
   * models. */
  uint32_t(PLAIT_CALL *training)(plait_builder *b);
  /* Returns the full name of the item under construction ("model.fc1"), for messages. The text is
   * valid during the build call. */
  const char *(PLAIT_CALL *scope)(plait_builder *b);
  /* Returns the value that an optimizer's state tensor has before this step; the first request
   * creates it, with every element `initial`. Its shape is that of plait_update.parameter, its type
   * that of `[precision]` for states. Errors: PLAIT_ERR_STATE in anything but an optimizer. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *state)(plait_builder *b, const char *name, double initial, plait_value *out);
  /* Sets the value that the state tensor has after this step; without it the state stays as it is.
   * Errors: PLAIT_ERR_INVALID before state() of that name, or for an id that is not a value;
   * PLAIT_ERR_STATE in anything but an optimizer. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *set_state)(plait_builder *b, const char *name, plait_value v);
  /* Creates an error for the item to return; never NULL. The engine adds the plugin, the item and
   * the line of the experiment. `text` is copied.
   * Errors: always, with `code`; PLAIT_ERR_MEMORY when there is no memory for the text. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *fail)(plait_builder *b, uint32_t code, const char *text, uint64_t size);

  /* Since struct_size 96. As state(), for a tensor of any shape.
   * Errors: PLAIT_ERR_STATE in anything but an optimizer with PLAIT_SCOPE_TENSOR; PLAIT_ERR_INVALID
   * for a malformed plait_state; PLAIT_ERR_PLUGIN when a dimension does not have the extent of the
   * parameter's dimension that it runs along, when two run along the same one, or when the state
   * was requested before with another shape. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *tensor_state)(plait_builder *b, const plait_state *s, plait_value *out);

  /* Since struct_size 104. Adds a term to what training minimises, such as one that balances experts:
   * `sum` and `weight` are the two scalars of a loss item (layer.h); the loss of the model grows by
   * factor * (sum over the global batch) / (its weight). Terms of one name count the same weight; they
   * are added up, and reported without factors as the metric `name`. A term of parameters alone is
   * multiplied by `weight`, the sum of named("weight"). Where samples choose their adapter, a term is that
   * of each adapter: named("weight") is 0 for samples of others. For layers and PEFT methods, while
   * training() is 1. Errors: PLAIT_ERR_INVALID for values that are not scalars, or a malformed name;
   * PLAIT_ERR_STATE in anything else. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *add_loss)(plait_builder *b, const char *name, double factor, plait_value sum,
                                                     plait_value weight);
};

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_BUILD_H */
