/* plait/dataset.h - datasets: samples by index. The engine decides order, batches and padding, and
 * it prefetches. */
#ifndef PLAIT_DATASET_H
#define PLAIT_DATASET_H

#include <plait/base.h>
#include <plait/option.h>
#include <plait/plugin.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The role of a field. */
#define PLAIT_FIELD_INPUT 1u  /* the first such field is the input of the first layer */
#define PLAIT_FIELD_TARGET 2u /* the first such field is the target of the losses */
#define PLAIT_FIELD_WEIGHT 3u /* weight of the sample: one f32; at most one such field */

/* What the numbers of a field stand for; see plait_dataset_item.text_of. */
#define PLAIT_TEXT_COLUMN 0u /* the name of column `index` */
#define PLAIT_TEXT_CLASS 1u  /* what number `index` stands for in column 0; + k: in column k */
/* Of whatever field. Of a dataset that is a part of another one: text 0 says what was divided, 1 how, 2 which part this is.
 * Texts 0 have a line in common if and only if the samples are the same, which then have to be divided in the same way, or
 * a sample may be in two parts. A dataset made of several parts has three texts for each, one part behind the other. */
#define PLAIT_TEXT_PART 0xffffffffu
/* Of a dataset that reads a file or a folder: text 0 is its absolute path; samples are the same where it is the same. */
#define PLAIT_TEXT_SOURCE 0xfffffffeu
/* Of token ids: text 0 is the tokenizer's fingerprint, 16 hexadecimal digits, 1 its name and who says so; of
 * several parts two texts for each. */
#define PLAIT_TEXT_TOKENIZER 0xfffffffdu
#define PLAIT_TEXT_TOKENIZER_TYPE 0xfffffffcu /* beside it, one text for each part: the tokenizer's type; "": unknown */

/* One field of a sample. This struct never changes. */
typedef struct plait_field {
  const char *name;  /* "image" */
  uint32_t role;     /* PLAIT_FIELD_* */
  uint32_t reserved; /* 0 */
  plait_shape shape; /* of one sample, without the batch dimension */
} plait_field;

/* The samples of an open dataset. */
typedef struct plait_dataset_info {
  size_t struct_size;
  int64_t n_samples;
  const plait_field *fields; /* (n_fields); lives as long as the dataset */
  uint32_t n_fields;
  uint32_t reserved;
  uint64_t host_bytes;  /* memory that the dataset holds while open */
  uint64_t fingerprint; /* hash of the content or of its identity; compared when a run resumes */
} plait_dataset_info;

/* Kind "plait.dataset/1". Static. */
typedef struct plait_dataset_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  /* Opens the dataset; close() frees it. Paths in options are already resolved.
   * Errors: PLAIT_ERR_NOT_FOUND or PLAIT_ERR_IO for a file that cannot be opened or read;
   * PLAIT_ERR_DATA for malformed content, with file, offset, found and expected;
   * PLAIT_ERR_CONFIG for options that contradict each other or the files. Nothing stays open; the
   * engine does not call close(), and the error becomes a problem of the experiment with the same
   * code. [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, void **dataset);
  /* Describes the dataset. The caller sets struct_size.
   * Errors: PLAIT_ERR_INTERNAL or another code; none is expected of an open dataset. The dataset is
   * unchanged. [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *info)(const void *dataset, plait_dataset_info *out);
  /* Copies the samples indices (n) into outs (n_fields), each (n, sample shape), row-major host
   * memory. Allocates no memory but what decoding a sample takes, and keeps none.
   * Errors: PLAIT_ERR_IO when a file cannot be read; PLAIT_ERR_DATA for malformed or truncated
   * content. outs is undefined, and the dataset is unchanged: the same samples may be read again.
   * The step or evaluation that needs the samples fails with the same code.
   * [thread: any, several at a time; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *read)(const void *dataset, const int64_t *indices, uint64_t n,
                                                 void *const *outs);
  /* Closes the dataset. [thread: any, after the last read(); blocks: on files] */
  void(PLAIT_CALL *close)(void *dataset);
  /* Since the first versions of ABI 1 (compare struct_size); may be NULL. Returns the text that
   * people know a column of field `field` or one of its numbers by: what is PLAIT_TEXT_COLUMN, PLAIT_TEXT_CLASS + k,
   * or one of PLAIT_TEXT_PART to PLAIT_TEXT_TOKENIZER_TYPE. NULL: there is none; texts are
   * numbered from 0 without gaps. A column of 0 and 1 for a text of a category is called
   * "CATEGORY = TEXT". It lives as long as the dataset, ends in NUL, and decides no result;
   * datasets of one experiment whose texts contradict each other are a problem of it.
   * [thread: any; blocks: no] */
  const char *(PLAIT_CALL *text_of)(const void *dataset, uint32_t field, uint32_t what, uint64_t index);
  /* Since the first versions of ABI 1 (compare struct_size); NULL where samples are the same in every
   * epoch. As read(), with samples as epoch `epoch` (0 or more) of a training has them, such as images
   * of which some are flipped. What a sample is follows from the dataset, `epoch` and its index alone,
   * not from the other indices, the thread or earlier calls: every layout of ranks and a resumed run
   * get the same bits. The engine calls it for training; evaluations and normalisation call read(),
   * which gives samples as they are.
   * Errors: PLAIT_ERR_IO and PLAIT_ERR_DATA, as read(). [thread: any, several at a time; blocks: on
   * files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *read_epoch)(const void *dataset, int64_t epoch, const int64_t *indices,
                                                       uint64_t n, void *const *outs);
  /* Since the first versions of ABI 1 (compare struct_size); NULL: open() is all there is. As open(),
   * for a rank that reads no samples, such as one in the middle of a pipeline: info() and text_of()
   * answer as they do behind open(), but host_bytes and fingerprint may be 0, and neither read() nor
   * read_epoch() is called. Reads no more of the files than that takes.
   * Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_IO, PLAIT_ERR_DATA and PLAIT_ERR_CONFIG, as open().
   * [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open_metadata)(const plait_host *host, const plait_options *options,
                                                          void **dataset);
} plait_dataset_item;

#define PLAIT_KIND_DATASET "plait.dataset/1"

/* A dataset of any plugin, opened by the host for a plugin. */
typedef struct plait_host_dataset plait_host_dataset;

/* Extension "plait.datasets/1" of the host: a dataset made of the datasets that an option of type
 * PLAIT_OPT_ITEM or PLAIT_OPT_ITEMS describes. */
typedef struct plait_datasets_table {
  size_t struct_size;
  /* Opens a dataset by the values of get_item(); close() frees it, before the dataset closes for
   * which it was opened. Errors: those of its open(); PLAIT_ERR_PLUGIN when it describes itself
   * wrongly. [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const char *type, const plait_options *options,
                                                 plait_host_dataset **out);
  /* Describes it; never fails, and lives as long as the dataset. [thread: any; blocks: no] */
  const plait_dataset_info *(PLAIT_CALL *info)(const plait_host_dataset *dataset);
  /* As plait_dataset_item.read. Errors: PLAIT_ERR_IO, PLAIT_ERR_DATA. [thread: any, several at a time; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *read)(const plait_host_dataset *dataset, const int64_t *indices, uint64_t n,
                                                 void *const *outs);
  /* Closes it. [thread: any, after the last call; blocks: on files] */
  void(PLAIT_CALL *close)(plait_host_dataset *dataset);
  /* As plait_dataset_item.text_of; NULL for a dataset that has none. A host of an earlier version has
   * no such member: compare struct_size. [thread: any; blocks: no] */
  const char *(PLAIT_CALL *text_of)(const plait_host_dataset *dataset, uint32_t field, uint32_t what, uint64_t index);
  /* As plait_dataset_item.read_epoch; as read() for a dataset that has none. A host of an earlier
   * version has no such member: compare struct_size. Errors: PLAIT_ERR_IO, PLAIT_ERR_DATA. [thread:
   * any, several at a time; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *read_epoch)(const plait_host_dataset *dataset, int64_t epoch,
                                                       const int64_t *indices, uint64_t n, void *const *outs);
} plait_datasets_table;

#define PLAIT_EXTENSION_DATASETS "plait.datasets/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_DATASET_H */
