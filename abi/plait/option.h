/* plait/option.h - options that an item declares. From one declaration come validation with nearest match, the commented
 * template, documentation and introspection in every language. */
#ifndef PLAIT_OPTION_H
#define PLAIT_OPTION_H

#include <plait/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Option types. */
#define PLAIT_OPT_BOOL 1u
#define PLAIT_OPT_INT 2u  /* int64_t */
#define PLAIT_OPT_REAL 3u /* double; integers are accepted */
#define PLAIT_OPT_TEXT 4u
#define PLAIT_OPT_INTS 5u  /* list of int64_t */
#define PLAIT_OPT_REALS 6u /* list of double */
#define PLAIT_OPT_TEXTS 7u /* list of texts */
#define PLAIT_OPT_PATH 8u  /* text; relative to the data folder, or else to the experiment file */

/* Option flags. */
#define PLAIT_OPT_HAS_MIN 1u
#define PLAIT_OPT_HAS_MAX 2u
#define PLAIT_OPT_MIN_EXCLUSIVE 4u /* the minimum itself is not allowed */
#define PLAIT_OPT_MAX_EXCLUSIVE 8u

/* One option. Static: lives as long as the item that declares it. */
typedef struct plait_option {
  size_t struct_size;
  const char *name; /* snake_case */
  uint32_t type;    /* PLAIT_OPT_* */
  uint32_t flags;
  const char *default_value; /* default in TOML syntax ("0.9", "true", "\"sum\"", "[]"); NULL: the user must give it */
  double min, max;           /* of a number, or of each number of a list; used when the flags say so */
  const char *choices;       /* of a text: "none|bias|full"; NULL: free */
  const char *unit;          /* "bytes", "samples", "seconds"; NULL: none */
  const char *help;          /* one line */
} plait_option;

/* The checked values of one item's options, all present (defaults filled in). Borrowed for the call it came with. */
typedef struct plait_options_table plait_options_table;
typedef struct plait_options {
  const plait_options_table *table; /* the rest is the engine's own */
} plait_options;

/* Getters. Asking for an undeclared name or the wrong type is PLAIT_ERR_INVALID: the plugin's bug.
 * Lists and texts are borrowed and live as long as the options. [thread: plan; blocks: no] */
struct plait_options_table {
  size_t struct_size;
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_bool)(const plait_options *o, const char *name, uint32_t *out);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_int)(const plait_options *o, const char *name, int64_t *out);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_real)(const plait_options *o, const char *name, double *out);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_text)(const plait_options *o, const char *name, const char **out,
                                                     uint64_t *size);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_ints)(const plait_options *o, const char *name, const int64_t **out,
                                                     uint64_t *n);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_reals)(const plait_options *o, const char *name, const double **out,
                                                      uint64_t *n);
  /* i-th text of a list; *n is set to the length of the list even when i is past its end (then *out is NULL). */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_texts)(const plait_options *o, const char *name, uint64_t i,
                                                      const char **out, uint64_t *size, uint64_t *n);
  /* "experiment.toml:12:3" or "default": for messages. Never fails; NUL-terminated. */
  const char *(PLAIT_CALL *origin)(const plait_options *o, const char *name);
};
#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OPTION_H */
