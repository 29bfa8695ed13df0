/* plait/encode.h - the host side of tokenizers: text to token ids and back, and conversations.
 *
 *   plait_tokenizer *tokenizer;
 *   plait_tokens *tokens;
 *   plait_tokenizer_open(engine, "type = \"bytes\"", PLAIT_NTS, NULL, &tokenizer);
 *   plait_tokenizer_encode(tokenizer, "Once upon a time", PLAIT_NTS, 0, &tokens);
 *   ... plait_tokens_data(tokens), plait_tokens_size(tokens) ...
 *   plait_tokens_free(tokens);
 *   plait_tokenizer_close(tokenizer);
 *
 * Plugins bring tokenizers by tokenizer.h. The conventions of base.h and plait.h apply. */
#ifndef PLAIT_ENCODE_H
#define PLAIT_ENCODE_H

#include <plait/plait.h>
#include <plait/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tokenizer: text to token ids and back. */
typedef struct plait_tokenizer plait_tokenizer;

/* Opens a tokenizer; plait_tokenizer_close() frees it. `toml` (size bytes) holds its type and the
 * options of that item: `type = "hf"\npath = "tokenizer.json"`. Relative paths start in the data
 * folder, else in the current folder. `name` stands for the text in messages (NULL: "tokenizer").
 * Errors: PLAIT_ERR_CONFIG with all problems of the text, one per line; PLAIT_ERR_PLUGIN when the
 * plugin describes it wrongly, or the code with which the plugin failed: PLAIT_ERR_NOT_FOUND or
 * PLAIT_ERR_IO for a file, PLAIT_ERR_DATA for its content, PLAIT_ERR_UNIMPLEMENTED for a sort of
 * tokenizer that the plugin does not know; PLAIT_ERR_STATE. The engine is unchanged.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_tokenizer_open(plait_engine *engine, const char *toml, uint64_t size,
                                                                      const char *name, plait_tokenizer **out);
/* Returns JSON: {"schema": 1, "type", "plugin", "vocabulary" (number of ids), "fingerprint" (16
 * hexadecimal digits; equal where all ids are), "specials": [{"text", "id", "role": "begin", "end",
 * "pad", "unknown" or "other"}]}. plait_text_free() frees it.
 * Errors: PLAIT_ERR_STATE after fork(). The tokenizer is unchanged. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_tokenizer_describe(const plait_tokenizer *tokenizer,
                                                                          plait_text **json);

/* Ids that a tokenizer returned: data (size), valid until plait_tokens_free().
 * [thread: any; blocks: no] */
typedef struct plait_tokens plait_tokens;
PLAIT_API const int32_t *PLAIT_CALL plait_tokens_data(const plait_tokens *t);
PLAIT_API uint64_t PLAIT_CALL plait_tokens_size(const plait_tokens *t);
/* Sequences of bytes that were not UTF-8, each replaced by U+FFFD, and the byte offset of the first
 * one (0 without any). [thread: any; blocks: no] */
PLAIT_API uint64_t PLAIT_CALL plait_tokens_replaced(const plait_tokens *t, uint64_t *first);
/* Frees ids. [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_tokens_free(plait_tokens *t);

/* Returns the ids of a text. flags: PLAIT_ENCODE_* of plait/tokenizer.h; 0: without the tokens that the tokenizer puts
 * around a text, and with special tokens where the text writes them. plait_tokens_free() frees *out.
 * Errors: PLAIT_ERR_DATA for a text that no tokens cover, or with PLAIT_ENCODE_STRICT for one that
 * is not UTF-8, with the byte; PLAIT_ERR_PLUGIN when the plugin returns ids out of range;
 * PLAIT_ERR_STATE after fork(). The tokenizer is unchanged.
 * [thread: any, several at a time; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_tokenizer_encode(const plait_tokenizer *tokenizer, const char *text,
                                                                        uint64_t size, uint32_t flags, plait_tokens **out);
/* Returns the text of ids (n); not always UTF-8, since a token may hold a part of a character.
 * flags: PLAIT_DECODE_* of plait/tokenizer.h. plait_text_free() frees *out.
 * Errors: PLAIT_ERR_INVALID for an id that the vocabulary does not have, with its position;
 * PLAIT_ERR_STATE after fork(). The tokenizer is unchanged.
 * [thread: any, several at a time; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_tokenizer_decode(const plait_tokenizer *tokenizer,
                                                                        const int32_t *ids, uint64_t n, uint32_t flags,
                                                                        plait_text **out);
/* Closes a tokenizer. [thread: any, after the last call on it; blocks: no] */
PLAIT_API void PLAIT_CALL plait_tokenizer_close(plait_tokenizer *tokenizer);

/* --- conversations --------------------------------------------------------------------------- */

/* A turn of a conversation. Roles: "system" (the first turn only), "user", "assistant". This struct
 * never changes. */
typedef struct plait_chat_message {
  const char *role;
  const char *text;
  uint64_t size; /* bytes of text */
} plait_chat_message;

#define PLAIT_CHAT_GENERATE 1u /* ends where the assistant's next turn begins, for generation */
/* Returns JSON: [{"name", "help"}], the chat templates that the library knows. plait_text_free()
 * frees it. Errors: PLAIT_ERR_MEMORY. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_chat_templates(plait_text **json);
/* Writes a conversation (n messages) as the named template has it, with the special tokens of the
 * models that it comes from, as text. flags: PLAIT_CHAT_*. plait_text_free() frees *text.
 * Errors: PLAIT_ERR_NOT_FOUND for a template that is not known, with the names of all;
 * PLAIT_ERR_INVALID for a conversation that the template cannot express, with the message.
 * [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_chat_render(const char *name, const plait_chat_message *messages,
                                                                   uint64_t n, uint32_t flags, plait_text **text);
/* Returns the ids of a conversation, as the dataset fine_tune has them. Special tokens that a message
 * writes are ordinary text: a message cannot end its own turn. Where the tokenizer does not have the
 * template's begin and end of a text as special tokens, its own stand there. plait_tokens_free()
 * frees *out.
 * Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_INVALID as plait_chat_render(); and as plait_tokenizer_encode().
 * [thread: any, several at a time; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_chat_encode(const plait_tokenizer *tokenizer, const char *name,
                                                                   const plait_chat_message *messages, uint64_t n,
                                                                   uint32_t flags, plait_tokens **out);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_ENCODE_H */
