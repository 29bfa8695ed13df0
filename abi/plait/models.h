/* plait/models.h - models in the files of other libraries: a checkpoint's weights exported to them,
 * and a model imported from them. A part of plait.h, whose conventions apply. */
#ifndef PLAIT_MODELS_H
#define PLAIT_MODELS_H

#include <plait/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plait_export_options {
  size_t struct_size;
  uint64_t max_shard_bytes; /* of tensors in a file of a folder; 0: 5,000,000,000 */
  const char *const *names; /* (n_names) "OURS=THEIRS": names in the files; * as in model.load_names */
  uint32_t n_names;
  uint32_t reserved;
  /* A format, in TOML, as in plait_model_import(); NULL: none. It names and arranges the tensors, so
   * that `names` must be empty, and adds the files that belong to it. Needs `experiment`, whose
   * model the checkpoint holds; a dtype of 0 then is that of each tensor in its model.load. */
  const char *format;
  uint64_t format_size;
  const plait_experiment *experiment;
  uint32_t dtype; /* PLAIT_F32, PLAIT_BF16, PLAIT_F16, of floating-point tensors; 0: as they are */
  uint32_t reserved2;
} plait_export_options;

/* Writes the parameters of a checkpoint, whatever ranks saved it, as whole tensors in files that
 * other programs read; with a format as the folder of a model that other libraries load. checkpoint is as in
 * plait_session_load(). out is a file NAME.safetensors; or
 * a folder, which gets model.safetensors or, above max_shard_bytes, shards with their index
 * model.safetensors.index.json. Neither may exist. options may be NULL. Returns JSON: {"schema": 1,
 * "checkpoint", "step", "files" (paths), "tensors", "bytes", "dtypes"}; plait_text_free() frees it.
 * Errors: PLAIT_ERR_INVALID when `out` exists, a rule is malformed, two tensors get one name, or
 * options contradict each other; PLAIT_ERR_CONFIG for options of the format; PLAIT_ERR_UNIMPLEMENTED
 * also for a model that the format cannot describe, with layer and option; PLAIT_ERR_PLUGIN;
 * PLAIT_ERR_NOT_FOUND, PLAIT_ERR_DATA, PLAIT_ERR_UNIMPLEMENTED and PLAIT_ERR_IO as in
 * plait_session_load(); PLAIT_ERR_STATE, also when `out` lies in the folder of checkpoints of a run
 * that is in use. Nothing is left at `out`. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_export(plait_engine *engine, const char *checkpoint,
                                                                         const char *out,
                                                                         const plait_export_options *options,
                                                                         plait_text **json);

/* Makes a folder `out`, which must not exist, of the model in `folder`, which another library wrote:
 * experiment.toml, ready to be read; weights.map.json, by which model.load reads the weights where
 * they are; and the files that belong to the model, as its tokenizer. `toml` (size bytes) holds the
 * type of the format and the options of that item: `type = "hf"`. Every tensor of the folder is
 * either in the map or known to be of no use, and its tokenizer opens, or is of a kind that no plugin
 * knows, which is a warning in the log. Returns JSON: {"schema": 1, "files" (paths),
 * "parameters" (number), "bytes" (of the tensors, where they are)}; plait_text_free() frees it.
 * Errors: PLAIT_ERR_INVALID when `out` exists; PLAIT_ERR_CONFIG with all problems of the text;
 * PLAIT_ERR_NOT_FOUND and PLAIT_ERR_IO for a file; PLAIT_ERR_DATA for its content, or for tensors
 * that are missing or not known; PLAIT_ERR_UNIMPLEMENTED for a model that the engine cannot compute,
 * with the key that says so; PLAIT_ERR_PLUGIN; PLAIT_ERR_STATE. Nothing is left at `out`.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_model_import(plait_engine *engine, const char *toml, uint64_t size,
                                                                    const char *folder, const char *out, plait_text **json);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_MODELS_H */
