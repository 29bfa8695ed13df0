/* plait/option.h - the options that an item declares. From one declaration the engine derives
 * validation with the nearest match, the commented template, the documentation, and the description
 * that hosts in any language read. */
#ifndef PLAIT_OPTION_H
#define PLAIT_OPTION_H

#include <plait/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Option types. */
#define PLAIT_OPT_BOOL 1u
#define PLAIT_OPT_INT 2u  /* int64_t */
#define PLAIT_OPT_REAL 3u /* double; the user may write an integer */
#define PLAIT_OPT_TEXT 4u
#define PLAIT_OPT_INTS 5u  /* list of int64_t */
#define PLAIT_OPT_REALS 6u /* list of double */
#define PLAIT_OPT_TEXTS 7u /* list of texts */
#define PLAIT_OPT_PATH 8u  /* text; relative to the data folder, else to the experiment file */
#define PLAIT_OPT_PATHS 9u /* list of paths; read with get_texts() */
/* An item of another kind, as a table with its `type` and its options; and a list of such. The kind
 * ("plait.tokenizer/1", "plait.dataset/1") stands in plait_option.choices. */
#define PLAIT_OPT_ITEM 10u
#define PLAIT_OPT_ITEMS 11u

/* Option flags. */
#define PLAIT_OPT_HAS_MIN 1u
#define PLAIT_OPT_HAS_MAX 2u
#define PLAIT_OPT_MIN_EXCLUSIVE 4u /* the minimum itself is refused */
#define PLAIT_OPT_MAX_EXCLUSIVE 8u /* the maximum itself is refused */
/* Of a list of texts of a PEFT method: each is "PATTERN=VALUE", for the targets whose names the
 * pattern matches. One that matches no target of its adapter is an error of the experiment. */
#define PLAIT_OPT_BY_TARGET 16u

/* One option. Static: it lives as long as the item that declares it. Texts end in NUL.
 *
 * default_value is TOML, as the user would write it, not C: 0.9 is "0.9", true is "true", the text
 * sum is "\"sum\"" with its quotes, an empty list is "[]". NULL: the user must give the option. */
typedef struct plait_option {
  size_t struct_size;
  const char *name; /* snake_case */
  uint32_t type;    /* PLAIT_OPT_* */
  uint32_t flags;
  const char *default_value;
  double min, max;     /* limits of a number, or of each number of a list; only with their flags */
  const char *choices; /* the texts that are allowed: "none|bias|full"; NULL: any */
  const char *unit;    /* "bytes", "samples", "seconds"; NULL: none */
  const char *help;    /* one line */
} plait_option;

/* The checked values of all options of one item, defaults included. Borrowed for the call that
 * passes it. */
typedef struct plait_options_table plait_options_table;
typedef struct plait_options {
  const plait_options_table *table; /* the engine's own fields follow */
} plait_options;

/* Getters. Names end in NUL. Lists and texts are borrowed and live as long as the options.
 * Errors: PLAIT_ERR_INVALID for an undeclared name or the wrong type, which is a bug in the plugin.
 * [thread: plan; blocks: no] */
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
  /* Gets text i of a list, and in *n the length of the list. If i is past its end, *out is NULL and
   * the function succeeds. Errors: PLAIT_ERR_INVALID, as above. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_texts)(const plait_options *o, const char *name, uint64_t i,
                                                      const char **out, uint64_t *size, uint64_t *n);
  /* Returns where the value was written, "experiment.toml:12:3" or "default", for messages; ends in
   * NUL. Never fails. */
  const char *(PLAIT_CALL *origin)(const plait_options *o, const char *name);
  /* Gets item i of a PLAIT_OPT_ITEMS, or with i = 0 a PLAIT_OPT_ITEM: its type and its checked
   * options; in *n the length of the list. If i is past its end, *type and *options are NULL and the
   * function succeeds. A host of an earlier version has no such member: compare struct_size.
   * Errors: PLAIT_ERR_INVALID, as above. */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_item)(const plait_options *o, const char *name, uint64_t i,
                                                     const char **type, const plait_options **options, uint64_t *n);
};
#ifdef __cplusplus
}
#endif
#endif /* PLAIT_OPTION_H */
