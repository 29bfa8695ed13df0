/* Loads a trained language model and continues a prompt twice at the same time. The first text is
 * written as it comes; the second sequence is ended by the callback after 20 tokens. */
#include <plait/generate.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_OVERRIDES 64

/* Every fallible call returns an error to free, or NULL. */
static void must(plait_error* error) {
  if (!error) return;
  fprintf(stderr, "%s\n", plait_error_full_text(error));
  plait_error_free(error);
  exit(1);
}

typedef struct {
  uint64_t shown, ended; /* numbers of the two sequences */
  int tokens[2];
} Watch;

/* Called for each token. A text is whole characters: bytes of an incomplete one come later. */
static uint32_t PLAIT_CALL on_token(void* user, const plait_token* t) {
  Watch* watch = user;
  if (t->id >= 0) watch->tokens[t->sequence == watch->ended]++;
  if (t->sequence == watch->shown) {
    fwrite(t->text, 1, t->size, stdout);
    fflush(stdout);
  }
  return t->sequence == watch->ended && watch->tokens[1] >= 20;
}

static plait_session* load(plait_engine* engine, const char* file, const char* checkpoint, int n,
                           char** keys) {
  const char* overrides[MOST_OVERRIDES + 2] = {"generate.only=true", "generate.slots=2"};
  if (n > MOST_OVERRIDES) n = MOST_OVERRIDES;
  for (int i = 0; i < n; ++i) overrides[2 + i] = keys[i];
  plait_experiment_options options = {
      .struct_size = sizeof options, .overrides = overrides, .n_overrides = (uint32_t)n + 2};
  plait_experiment* experiment;
  must(plait_experiment_read(engine, file, PLAIT_NTS, &options, &experiment));
  plait_plan* plan;
  must(plait_plan_make(experiment, &plan));
  plait_session_options quiet = {
      .struct_size = sizeof quiet, .no_files = 1, .resume = PLAIT_RESUME_NEVER};
  plait_session* session;
  must(plait_session_open(plan, &quiet, &session));
  must(plait_session_load_parameters(session, checkpoint));
  plait_plan_close(plan); /* the session keeps what it needs */
  plait_experiment_close(experiment);
  return session;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: %s EXPERIMENT CHECKPOINT PROMPT [key=value...]\n", argv[0]);
    return 2;
  }
  plait_engine* engine;
  must(plait_engine_open(NULL, &engine));
  plait_session* session = load(engine, argv[1], argv[2], argc - 4, argv + 4);
  plait_generator* generator;
  must(plait_generator_open(session, NULL, &generator));

  const plait_sampling sampling = {.struct_size = sizeof sampling, .temperature = 0.8, .seed = 1};
  const plait_prompt prompt = {.struct_size = sizeof prompt,
                               .text = argv[3],
                               .size = PLAIT_NTS,
                               .sampling = &sampling,
                               .max_tokens = 60};
  Watch watch = {0};
  must(plait_generator_add(generator, &prompt, &watch.shown));
  must(plait_generator_add(generator, &prompt, &watch.ended));
  printf("%s", argv[3]);
  for (uint64_t left = 1; left > 0;) must(plait_generator_step(generator, on_token, &watch, &left));
  printf("\n%d tokens shown, the other sequence ended after %d\n", watch.tokens[0],
         watch.tokens[1]);

  plait_generator_close(generator);
  plait_session_close(session);
  plait_engine_close(engine);
  return 0;
}
