/* Trains from a C11 program that owns the loop and feeds its own samples. The model separates
 * points inside a ring from points outside. Prints its accuracy on fresh points and a
 * parameter. */
#include <math.h>
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 64
#define TEST 512

/* [data.train] only declares the fields and their shapes here: every batch is fed below. */
static const char kExperiment[] =
    "[run]\n"
    "name = 'ring'\n"
    "[batch]\n"
    "global = 64\n"
    "eval = 512\n"
    "[data.train]\n"
    "type = 'synthetic'\n"
    "samples = 64\n"
    "shape = [2]\n"
    "classes = 2\n"
    "[model]\n"
    "layers = [{type = 'linear', out = 32}, {type = 'tanh'}, {type = 'linear', out = 32}, {type = "
    "'tanh'},\n"
    "          {type = 'linear', out = 2}]\n"
    "[loss]\n"
    "type = 'cross_entropy'\n"
    "[optimizer]\n"
    "type = 'adamw'\n"
    "learning_rate = 0.01\n";

/* Every fallible call returns an error to free, or NULL. */
static void must(plait_error* error) {
  if (!error) return;
  fprintf(stderr, "%s\n", plait_error_full_text(error));
  plait_error_free(error);
  exit(1);
}

static void PLAIT_CALL on_log(void* user, uint32_t level, const char* text, uint64_t size) {
  (void)user, (void)level;
  fprintf(stderr, "%.*s\n", (int)size, text);
}

/* n points (n, 2) in [-2, 2) and their labels (n): 1 inside the ring of radii 0.7 and 1.5. */
static void make_points(uint32_t* random, int n, float* x, int32_t* label) {
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < 2; ++k) {
      *random = *random * 1664525u + 1013904223u;
      x[2 * i + k] = (float)(*random >> 8) / (float)(1 << 22) - 2.0f;
    }
    const float radius = sqrtf(x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1]);
    label[i] = radius > 0.7f && radius < 1.5f;
  }
}

/* Describes host memory as a DLPack tensor. Strides NULL: row-major. */
static plait_dl_tensor tensor(void* data, uint8_t code, int32_t ndim, int64_t* shape) {
  const plait_dl_tensor t = {data, {1, 0}, ndim, {code, 32, 1}, shape, NULL, 0};
  return t;
}

static void train(plait_session* session, int steps) {
  uint32_t random = 1;
  float x[BATCH * 2];
  int32_t label[BATCH];
  int64_t shape[2] = {BATCH, 2};
  const plait_dl_tensor x_tensor = tensor(x, 2, 2, shape),
                        label_tensor = tensor(label, 0, 1, shape);
  const plait_feed feeds[] = {{sizeof(plait_feed), "x", &x_tensor},
                              {sizeof(plait_feed), "label", &label_tensor}};
  for (int i = 0; i < steps; ++i) {
    make_points(&random, BATCH, x, label);
    plait_step_result result = {.struct_size = sizeof result};
    must(plait_session_step(session, feeds, 2, &result));
    if (result.step % 250 == 0)
      printf("step %lld loss %.4f\n", (long long)result.step, result.loss);
  }
}

/* The share of fresh points that are told right. */
static double test(plait_session* session) {
  uint32_t random = 12345;
  static float x[TEST * 2], scores[TEST * 2];
  static int32_t label[TEST];
  int64_t shape[2] = {TEST, 2};
  make_points(&random, TEST, x, label);
  const plait_dl_tensor x_tensor = tensor(x, 2, 2, shape);
  const plait_feed feed = {sizeof(plait_feed), "x", &x_tensor};
  must(plait_session_predict(session, &feed, 1, "output", scores, sizeof scores));
  int right = 0;
  for (int i = 0; i < TEST; ++i) right += (scores[2 * i + 1] > scores[2 * i]) == label[i];
  return (double)right / TEST;
}

int main(int argc, char** argv) {
  plait_engine* engine;
  plait_experiment* experiment;
  plait_plan* plan;
  plait_session* session;
  const plait_engine_options engine_options = {
      .struct_size = sizeof engine_options, .log = on_log, .log_level = PLAIT_LOG_WARN};
  const plait_session_options session_options = {.struct_size = sizeof session_options,
                                                 .no_files = 1};
  must(plait_engine_open(&engine_options, &engine));
  must(plait_experiment_parse(engine, kExperiment, PLAIT_NTS, "ring", NULL, &experiment));
  must(plait_plan_make(experiment, &plan)); /* everything is decided, nothing allocated */
  must(plait_session_open(plan, &session_options, &session));

  train(session, argc > 1 ? atoi(argv[1]) : 1000);
  const double accuracy = test(session);
  printf("accuracy on %d fresh points %.4f\n", TEST, accuracy);

  float bias[32];
  must(plait_session_read(session, "model.linear1.bias", bias, sizeof bias));
  printf("model.linear1.bias starts with %.4f %.4f %.4f\n", bias[0], bias[1], bias[2]);

  plait_session_close(session);
  plait_plan_close(plan);
  plait_experiment_close(experiment);
  plait_engine_close(engine);
  return accuracy > 0.9 ? 0 : 1;
}
