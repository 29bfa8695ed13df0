/* plait/format.h - formats: folders of models that other libraries write and read.
 *
 * A format translates descriptions and names; the engine moves the tensors. It reads a folder into
 * an experiment and a map of tensors, and writes the files of such a folder for a model of the
 * engine, or for the adapters of one. */
#ifndef PLAIT_FORMAT_H
#define PLAIT_FORMAT_H

#include <plait/base.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* plait_tensor_place.flags */
#define PLAIT_PLACE_TRANSPOSED 1u /* the tensor (2 dimensions) is stored transposed */
#define PLAIT_PLACE_COLUMN 2u     /* a parameter (n) is stored as (n, 1), or transposed as (1, n) */
#define PLAIT_PLACE_COLUMNS 4u    /* read() only: `row` and `n_rows` count columns of a matrix */

/* Where a parameter is: rows row to row + n_rows of a tensor. This struct never changes. */
typedef struct plait_tensor_place {
  const char *parameter; /* without the name of the model: "h0.attn.q.weight" */
  const char *tensor;    /* "model.layers.0.self_attn.q_proj.weight" */
  int64_t row, n_rows;   /* n_rows 0: all rows from `row` on */
  uint32_t flags;        /* PLAIT_PLACE_* */
  uint32_t reserved;
} plait_tensor_place;

/* Where a parameter begins in a matrix (rows, columns), or with 0 columns a vector (rows), that is
 * written, which is 0 where no block is. This struct never changes. */
typedef struct plait_tensor_block {
  const char *parameter, *tensor; /* as in plait_tensor_place */
  int64_t row, column;
  int64_t rows, columns; /* of the whole tensor */
} plait_tensor_block;

/* Where a parameter (n_tensors, ..) is whose slices along its first dimension are tensors of their
 * own, of equal shapes and types: rows row to row + n_rows of each. This struct never changes. */
typedef struct plait_tensor_slices {
  const char *parameter;      /* "h0.mlp.up.weight" */
  const char *const *tensors; /* in order: "layers.0.experts.0.up.weight", .. */
  uint64_t n_tensors;         /* at least 1 */
  int64_t row, n_rows;        /* as in plait_tensor_place */
  uint32_t flags;             /* PLAIT_PLACE_*, of each slice */
  uint32_t reserved;
} plait_tensor_slices;

/* Where a format writes. The engine's; calls copy what they are given and may come in any order.
 * Each returns 1 when the format should stop and return NULL, else 0.
 * [thread: owner; blocks: no] */
typedef struct plait_format_output {
  size_t struct_size;
  void *user;
  /* A file of the new folder: its name, without a folder, and its content (size bytes). */
  uint32_t(PLAIT_CALL *file)(void *user, const char *name, const char *content, uint64_t size);
  /* A file of the new folder that is a copy of the file at `path`. */
  uint32_t(PLAIT_CALL *copy)(void *user, const char *name, const char *path);
  /* A parameter's place. */
  uint32_t(PLAIT_CALL *place)(void *user, const plait_tensor_place *place);
  /* read(): tensors of the files of which parameters need nothing, or parts that may overlap;
   * write(): parameters that the files do not hold; as a pattern with * and ?. */
  uint32_t(PLAIT_CALL *ignore)(void *user, const char *pattern);
  /* The name of the file that holds all tensors, NAME.safetensors. Without it: model.safetensors,
   * or shards with their index. */
  uint32_t(PLAIT_CALL *weights)(void *user, const char *name);
  /* write() only: a parameter's place beside others. */
  uint32_t(PLAIT_CALL *block)(void *user, const plait_tensor_block *block);
  /* A parameter's places, in place of place(): a tensor for each slice. */
  uint32_t(PLAIT_CALL *slices)(void *user, const plait_tensor_slices *slices);
} plait_format_output;

/* Kind "plait.format/1". Static. */
typedef struct plait_format_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  /* Describes the model in a folder: the file experiment.toml, a place for each parameter of its
   * [model], and copies of what belongs to the model beside its weights. The files are not trusted.
   * The engine writes the map of tensors as weights.map.json beside experiment.toml, which names it
   * in model.load, or in `load` of the adapters that the folder holds. May be NULL: the format is
   * only written.
   * Errors: PLAIT_ERR_NOT_FOUND or PLAIT_ERR_IO for a file that cannot be opened or read;
   * PLAIT_ERR_DATA for malformed content, with file, key, found and expected; PLAIT_ERR_UNIMPLEMENTED
   * for a model that the engine cannot compute, with the key that says so.
   * [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *read)(const plait_host *host, const plait_options *options, const char *folder,
                                                 const plait_format_output *out);
  /* Describes a model for other libraries: the files beside its weights, and a place for each
   * parameter. `model` (size bytes) is JSON: {"schema": 1, "name", "load" (path of the weights that
   * it began with, or ""), "tokenizer" (path of its file, or ""), "dtype" ("f32", ...), "layers":
   * [{"type", "name", "from", "as", "options": {name: value}, "tie": {name: parameter}}],
   * "adapters": [{"type", "name", "options"}], "train" (patterns of the model's own parameters that
   * were trained beside adapters), "parameters": {name: shape}}, with every option, and names
   * without the model's. A parameter of an adapter is TARGET.NAME.OWN, NAME the adapter's. May be
   * NULL: the format is only read.
   * Errors: PLAIT_ERR_UNIMPLEMENTED for a model that the format cannot describe, with layer and
   * option; those of read() for files that options name. [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *write)(const plait_host *host, const plait_options *options, const char *model,
                                                  uint64_t size, const plait_format_output *out);
} plait_format_item;

#define PLAIT_KIND_FORMAT "plait.format/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_FORMAT_H */
