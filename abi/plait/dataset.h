/* plait/dataset.h - datasets: samples by index. Order, batches, padding and prefetch are the engine's. */
#ifndef PLAIT_DATASET_H
#define PLAIT_DATASET_H

#include <plait/base.h>
#include <plait/option.h>
#include <plait/plugin.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a field is for. */
#define PLAIT_FIELD_INPUT 1u  /* the first one is what the first layer reads */
#define PLAIT_FIELD_TARGET 2u /* the first one is what a loss compares with */
#define PLAIT_FIELD_WEIGHT 3u /* one f32 per sample, at most one such field: the sample's weight */

/* One field of a sample. This struct never changes. */
typedef struct plait_field {
  const char *name;  /* "image" */
  uint32_t role;     /* PLAIT_FIELD_* */
  uint32_t reserved; /* 0 */
  plait_shape shape; /* of one sample, without the batch dimension */
} plait_field;

typedef struct plait_dataset_info {
  size_t struct_size;
  int64_t n_samples;
  const plait_field *fields; /* (n_fields); lives as long as the dataset */
  uint32_t n_fields;
  uint32_t reserved;
  uint64_t host_bytes;  /* memory the dataset holds while open */
  uint64_t fingerprint; /* of the content or of what identifies it; a resumed run compares it */
} plait_dataset_info;

/* Kind "plait.dataset/1". Static. */
typedef struct plait_dataset_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  /* Opens the dataset. Paths in options are resolved already. Errors name the file, the offset, found and expected.
   * [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, void **dataset);
  /* [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *info)(const void *dataset, plait_dataset_info *out);
  /* Copies samples indices (n) into outs (n_fields), each (n, sample shape), row-major. Does not allocate.
   * [thread: any, several at a time; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *read)(const void *dataset, const int64_t *indices, uint64_t n,
                                                 void *const *outs);
  /* [thread: any, after the last read(); blocks: on files] */
  void(PLAIT_CALL *close)(void *dataset);
} plait_dataset_item;

#define PLAIT_KIND_DATASET "plait.dataset/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_DATASET_H */
