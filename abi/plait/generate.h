/* plait/generate.h - the host side of generation: token after token from a session.
 *
 * A plan generates if its experiment has `generate.slots` above 0 (`generate.only` plans nothing
 * else). Sequences wait for a free slot; each slot has a KV cache. A generator uses the
 * session's parameters: a host may train, generate and train on. Steps or loads between two tokens of a
 * sequence leave its cache as the old parameters made it; add the text again as a new prompt then.
 *
 *   plait_generator *generator;
 *   plait_prompt prompt = {.struct_size = sizeof prompt, .text = "Once upon a time", .size = PLAIT_NTS};
 *   plait_generator_open(session, NULL, &generator);
 *   plait_generator_add(generator, &prompt, NULL);
 *   for (uint64_t left = 1; left > 0;) plait_generator_step(generator, on_token, user, &left);
 *   plait_generator_close(generator);
 *
 * What is drawn depends on seed, sequence and place alone, not on slots, other sequences, ranks or
 * chunks of the prompt. With generate.prefix_caching a prompt reuses keys and values that a free slot
 * has cached of the same first tokens by the same adapter, until parameters change, and not while a
 * host has a view of one; logits then differ by rounding. Where several ranks have the session, all
 * make the same calls.
 *
 * The conventions of base.h and plait.h apply. A generator and its session serve one thread at a
 * time together. When the session is closed, calls on its generators fail with PLAIT_ERR_STATE. */
#ifndef PLAIT_GENERATE_H
#define PLAIT_GENERATE_H

#include <plait/encode.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plait_generator plait_generator;

typedef struct plait_generator_options {
  size_t struct_size;
  const plait_tokenizer *tokenizer; /* of prompts and texts; NULL: the experiment's [tokenizer], if it has one.
                                     * Borrowed until the generator is closed */
} plait_generator_options;

/* How a token is drawn, in this order: penalty, temperature, top_k, top_p, min_p. A member that is 0
 * does nothing; a temperature of 0 takes the most likely token, the lowest id of equals. */
typedef struct plait_sampling {
  size_t struct_size;
  double temperature;        /* divides the logits */
  double top_p;              /* keeps the most likely tokens whose probabilities sum up to this */
  double min_p;              /* keeps tokens at least this share as likely as the likeliest */
  double repetition_penalty; /* divides positive logits of tokens that the sequence has, multiplies negative ones */
  int64_t top_k;             /* keeps so many most likely tokens, and all that are equal to the last */
  uint64_t seed;
} plait_sampling;

typedef struct plait_prompt {
  size_t struct_size;
  const int32_t *ids; /* (n_ids) the prompt; in front of a text or conversation, if there is one */
  uint64_t n_ids;
  const char *text; /* (size) the prompt as text; needs a tokenizer */
  uint64_t size;
  uint32_t plain;                 /* 1: special tokens that are written in `text` are ordinary text */
  uint32_t unwrapped;             /* 1: without the tokens that the tokenizer puts around a text */
  const plait_sampling *sampling; /* NULL: as [generate] says */
  int64_t max_tokens;             /* after the prompt; 0: as [generate] says */
  int64_t min_tokens;             /* no end id is drawn before; 0: as [generate] says */
  const int32_t *end_ids;         /* (n_end_ids) NULL: generate.end, else the end tokens of the tokenizer */
  uint64_t n_end_ids;
  const char *const *stop; /* (n_stop) texts that end the sequence and are left out of it; NULL: generate.stop */
  uint64_t n_stop;
  uint32_t log_probabilities; /* 1: report the log-probability of each token */
  uint32_t reserved;
  uint64_t best; /* report so many most likely tokens with theirs, too */
  /* (n_messages) the prompt as a conversation, which the assistant continues; NULL: a text, or ids
   * alone. What ends its turn ends the sequence, beside the end ids. */
  const plait_chat_message *messages;
  uint64_t n_messages;
  const char *chat_template; /* of plait_chat_templates(); NULL: generate.chat_template */
  /* With model.adapter_field: the adapter that computes the sequence; NULL: the model alone. */
  const char *adapter;
} plait_prompt;

#define PLAIT_FINISH_NONE 0u      /* not finished: more tokens follow */
#define PLAIT_FINISH_END 1u       /* an end id was drawn, which is this token */
#define PLAIT_FINISH_STOP 2u      /* a stop text was found; the text ends before it */
#define PLAIT_FINISH_LENGTH 3u    /* max_tokens, or generate.length */
#define PLAIT_FINISH_CANCELLED 4u /* by the callback or plait_generator_cancel(); without a token */
#define PLAIT_FINISH_FAILED 5u    /* its logits were not finite; without a token. The step returns the error */

/* A token that was drawn. Pointers are valid during the callback. */
typedef struct plait_token {
  size_t struct_size;
  uint64_t sequence;
  int64_t index;    /* 0: the first token after the prompt */
  int32_t id;       /* -1: none, the sequence was cancelled or failed */
  uint32_t finish;  /* PLAIT_FINISH_* */
  const char *text; /* (size) UTF-8 that this token completed; without a tokenizer nothing, but never NULL.
                     * Bytes of an incomplete character, and what may begin a stop text, come later, at the
                     * latest with the last report of the sequence */
  uint64_t size;
  double log_probability;  /* of `id`, by the model, as near as f32: without temperature and penalty; NaN: not asked for */
  const int32_t *best_ids; /* (n_best) most likely tokens, the likeliest first */
  const double *best_log_probabilities;
  uint64_t n_best;
  int64_t n_reused; /* tokens of the prompt that were cached before, with generate.prefix_caching */
} plait_token;

/* Called for each token. Returns 0 for more tokens, 1 to end the sequence, the same on all ranks. It
 * may not call functions of the generator or of its session. [thread: owner; blocks: allowed] */
typedef uint32_t(PLAIT_CALL *plait_token_callback)(void *user, const plait_token *token);

/* Opens the generator of a session; plait_generator_close() frees *out. A session has one at a time.
 * options may be NULL.
 * Errors: PLAIT_ERR_CONFIG when the plan does not generate, or the tokenizer has more ids than the
 * model; PLAIT_ERR_STATE when another generator of the session is open; the errors of
 * plait_tokenizer_open(). The session is unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_generator_open(plait_session *session,
                                                                      const plait_generator_options *options,
                                                                      plait_generator **out);
/* Adds a sequence, which waits for a slot; its number goes to *sequence (may be NULL): 0, 1, ...
 * Errors: PLAIT_ERR_INVALID for an empty prompt, an id that the model does not have, a prompt that
 * leaves no room for a token within generate.length, sampling out of range, or a text without a
 * tokenizer; PLAIT_ERR_NOT_FOUND for an adapter that the model lacks, with those that it has;
 * PLAIT_ERR_CONFIG for one without model.adapter_field; the errors of plait_chat_encode(). The
 * generator is unchanged. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_generator_add(plait_generator *generator, const plait_prompt *prompt,
                                                                     uint64_t *sequence);
/* Gives waiting sequences the free slots, computes their prompts, and draws one token of each
 * sequence that has a slot. on_token (may be NULL) is called for each, by slot. *left (may be NULL)
 * is the number of sequences that are not finished. After plait_session_cancel() all sequences
 * end, on all ranks if it was called on one. Collective.
 * Errors: PLAIT_ERR_NUMERIC when the logits of a sequence are not finite, naming it: it is finished, the
 * others have their token; step again for more. PLAIT_ERR_PEER, PLAIT_ERR_DEVICE, PLAIT_ERR_PLUGIN: sequences that
 * had a slot are finished.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_generator_step(plait_generator *generator,
                                                                      plait_token_callback on_token, void *user,
                                                                      uint64_t *left);
/* Ends a sequence; the next step reports it. A finished or unknown one is left alone.
 * Errors: PLAIT_ERR_STATE. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_generator_cancel(plait_generator *generator, uint64_t sequence);
/* Closes a generator and drops its sequences. [thread: any, after the last call on it; blocks: no] */
PLAIT_API void PLAIT_CALL plait_generator_close(plait_generator *generator);

#ifdef __cplusplus
}
#endif

#endif
