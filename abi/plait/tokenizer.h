/* plait/tokenizer.h - tokenizers: text to token ids and back.
 *
 * A tokenizer is a pure function of its options and files: any machine, any thread and any number
 * of threads give the same ids. Texts are UTF-8 without a terminating NUL; they may contain NUL. */
#ifndef PLAIT_TOKENIZER_H
#define PLAIT_TOKENIZER_H

#include <plait/base.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The role of a special token: a token that stands for no piece of text. */
#define PLAIT_TOKEN_OTHER 0u
#define PLAIT_TOKEN_BEGIN 1u   /* begins a document */
#define PLAIT_TOKEN_END 2u     /* ends a document, and what is generated; there may be several */
#define PLAIT_TOKEN_PAD 3u     /* fills a batch */
#define PLAIT_TOKEN_UNKNOWN 4u /* stands for text that no token covers */

/* A special token. This struct never changes. */
typedef struct plait_special_token {
  const char *text;   /* as written in a text: "<|endoftext|>" */
  uint64_t text_size; /* bytes of text */
  int32_t id;
  uint32_t role; /* PLAIT_TOKEN_* */
} plait_special_token;

/* plait_tokenizer_info.flags */
#define PLAIT_TOKENIZER_ANY_BYTES 1u /* encode() accepts any bytes; else the engine hands it valid UTF-8 only */

typedef struct plait_tokenizer_info {
  size_t struct_size;
  uint32_t flags;                      /* PLAIT_TOKENIZER_* */
  int32_t vocabulary;                  /* ids are at least 0 and below it; at least 1 */
  const plait_special_token *specials; /* (n_specials); lives as long as the tokenizer */
  uint32_t n_specials;
  uint32_t reserved;
  uint64_t fingerprint; /* hash of all that decides the ids */
} plait_tokenizer_info;

/* Flags of encode(). */
#define PLAIT_ENCODE_WRAP 1u  /* add the tokens that the tokenizer puts around a text, as a beginning */
#define PLAIT_ENCODE_PLAIN 2u /* special tokens that are written in the text are ordinary text */
/* Of plait_tokenizer_encode() alone: bytes that are not UTF-8 are an error, not replaced by U+FFFD. */
#define PLAIT_ENCODE_STRICT 0x10000u
/* Flags of decode(). */
#define PLAIT_DECODE_SKIP_SPECIAL 1u /* leave special tokens out */

/* Takes the next ids (n), or the next bytes of a text. Borrowed for the call. Returns 1 to end the
 * encode() or decode() that calls it, which then returns NULL, else 0. Calls nothing of the
 * tokenizer. [thread: any; blocks: no] */
typedef uint32_t(PLAIT_CALL *plait_ids_sink)(void *user, const int32_t *ids, uint64_t n);
typedef uint32_t(PLAIT_CALL *plait_bytes_sink)(void *user, const char *bytes, uint64_t n);

/* Kind "plait.tokenizer/1". Static. */
typedef struct plait_tokenizer_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reserved;
  /* Opens the tokenizer; close() frees it. Paths in options are already resolved; the files are not
   * trusted.
   * Errors: PLAIT_ERR_NOT_FOUND or PLAIT_ERR_IO for a file that cannot be opened or read;
   * PLAIT_ERR_DATA for malformed content, with file, place, found and expected; PLAIT_ERR_CONFIG
   * for options that contradict each other; PLAIT_ERR_UNIMPLEMENTED for a sort of tokenizer that
   * the item does not know, by its name. Nothing stays open. [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, void **tokenizer);
  /* Describes the tokenizer. The caller sets struct_size. Errors: PLAIT_ERR_INTERNAL; none is
   * expected. [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *info)(const void *tokenizer, plait_tokenizer_info *out);
  /* Hands the ids of a text (size bytes) to `sink`, in order, in as many calls as it likes. flags:
   * PLAIT_ENCODE_*; the tokenizer ignores those it does not know.
   * Errors: PLAIT_ERR_DATA for text that no token covers, with the byte where it begins. The
   * tokenizer is unchanged. [thread: any, several at a time; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *encode)(const void *tokenizer, const char *text, uint64_t size, uint32_t flags,
                                                   plait_ids_sink sink, void *user);
  /* Hands the text of ids (n), which are in range, to `sink`. flags: PLAIT_DECODE_*. The bytes are
   * not always UTF-8: a token may hold a part of a character.
   * Errors: PLAIT_ERR_MEMORY. [thread: any, several at a time; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *decode)(const void *tokenizer, const int32_t *ids, uint64_t n, uint32_t flags,
                                                   plait_bytes_sink sink, void *user);
  /* Frees the tokenizer. [thread: any, after the last call; blocks: no] */
  void(PLAIT_CALL *close)(void *tokenizer);
} plait_tokenizer_item;

#define PLAIT_KIND_TOKENIZER "plait.tokenizer/1"

/* A tokenizer of any plugin, opened by the host for a plugin. */
typedef struct plait_host_tokenizer plait_host_tokenizer;

/* Extension "plait.tokenizers/1" of the host: a plugin uses the tokenizer that an option of type
 * PLAIT_OPT_ITEM describes. */
typedef struct plait_tokenizers_table {
  size_t struct_size;
  /* Opens a tokenizer by the values of get_item(); close() frees it, before the object closes for
   * which it was opened. Errors: those of its open(), PLAIT_ERR_PLUGIN. [thread: owner; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const char *type, const plait_options *options,
                                                 plait_host_tokenizer **out);
  /* Describes it; never fails, and lives as long as the tokenizer. [thread: any; blocks: no] */
  const plait_tokenizer_info *(PLAIT_CALL *info)(const plait_host_tokenizer *tokenizer);
  /* The ids of a text, checked, in one call of `sink`. flags: PLAIT_ENCODE_*, PLAIT_ENCODE_STRICT too.
   * Writes into *replaced (NULL: nowhere) how many sequences of bytes were not UTF-8.
   * Errors: PLAIT_ERR_DATA and others, as plait_tokenizer_encode(). [thread: any, several at a time; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *encode)(const plait_host_tokenizer *tokenizer, const char *text, uint64_t size,
                                                   uint32_t flags, plait_ids_sink sink, void *user, uint64_t *replaced);
  /* The text of ids (n), in one call of `sink`. Errors: PLAIT_ERR_INVALID, as plait_tokenizer_decode().
   * [thread: any, several at a time; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *decode)(const plait_host_tokenizer *tokenizer, const int32_t *ids, uint64_t n,
                                                   uint32_t flags, plait_bytes_sink sink, void *user);
  /* Closes it. [thread: any, after the last call; blocks: no] */
  void(PLAIT_CALL *close)(plait_host_tokenizer *tokenizer);
} plait_tokenizers_table;

#define PLAIT_EXTENSION_TOKENIZERS "plait.tokenizers/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_TOKENIZER_H */
