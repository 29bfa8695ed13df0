/* plait/data.h - the host side of datasets: samples looked at outside of any session.
 *
 *   plait_dataset *dataset;
 *   plait_dataset_open(experiment, "train", &dataset);
 *   plait_dataset_read(dataset, 0, 0, to, size);
 *   plait_dataset_close(dataset);
 *
 * Plugins bring datasets by dataset.h. The conventions of base.h and plait.h apply. */
#ifndef PLAIT_DATA_H
#define PLAIT_DATA_H

#include <plait/plait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A dataset opened to be looked at, outside of any session. */
typedef struct plait_dataset plait_dataset;

/* Opens [data.NAME] of an experiment; plait_dataset_close() frees it.
 * Errors: PLAIT_ERR_NOT_FOUND when the experiment has no such dataset; the code with which the plugin
 * failed; PLAIT_ERR_STATE after fork(). [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_dataset_open(plait_experiment *experiment, const char *name,
                                                                    plait_dataset **out);
/* Opens a dataset from its type and its options, `type = "csv"\npath = "a.csv"` (size bytes). Relative
 * paths start in the data folder, else in the current folder. `name` stands for the text in messages
 * (NULL: "dataset"). plait_dataset_close() frees it.
 * Errors: PLAIT_ERR_CONFIG with all problems of the text, one per line; the code with which the plugin
 * failed; PLAIT_ERR_STATE. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_dataset_parse(plait_engine *engine, const char *toml, uint64_t size,
                                                                     const char *name, plait_dataset **out);
/* Returns JSON: {"schema": 1, "type", "plugin", "samples", "fingerprint" (16 hexadecimal digits),
 * "host_bytes", "fields": [{"name", "role": "input", "target" or "weight", "dtype", "shape" (of one
 * sample), "bytes" (of one sample), and where they are known "columns" (their names) and "classes" (of
 * each column a list of the texts that its numbers stand for)}]}. plait_text_free() frees it.
 * Errors: PLAIT_ERR_STATE after fork(). [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_dataset_describe(const plait_dataset *dataset, plait_text **json);
/* Copies field `field` of sample `index` into `to` (size bytes), row-major.
 * Errors: PLAIT_ERR_INVALID for an index or a field that there is not, or another size; the code with
 * which the plugin failed. [thread: any, several at a time; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_dataset_read(const plait_dataset *dataset, int64_t index,
                                                                    uint32_t field, void *to, uint64_t size);
/* Closes a dataset. [thread: any, after the last call on it; blocks: on files] */
PLAIT_API void PLAIT_CALL plait_dataset_close(plait_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_DATA_H */
