/* plait/peft.h - PEFT methods: few parameters, trained beside a model that stays as it is.
 *
 * This header is a draft: it may change in any way until it is recorded as a part of the ABI.
 *
 * A method changes what single matrix products, look-ups and layers compute. It writes ops at plan
 * time, where a layer writes them and before gradients are derived; layers know nothing of it, and
 * it knows nothing of devices, precision and ranks. Patterns in the experiment say which parameters
 * and layers it changes:
 *
 *   [[model.adapters]]
 *   type = "lora"
 *   match = ["*.attn.*.weight"]
 *
 * The whole of a method that scales each output of a product (in the C++ of plugin.hpp):
 *
 *   Value wrap(Builder& b, const Options&, const PeftTarget& t) {
 *     return t.output * b.parameter("scale", Shape({b.shape(t.output).last()}), Init::constant(1));
 *   }
 *   static const auto item = peft<wrap>(NAME, HELP, PLAIT_PEFT_PRODUCT, OPTIONS);
 */
#ifndef PLAIT_PEFT_H
#define PLAIT_PEFT_H

#include <plait/base.h>
#include <plait/build.h>
#include <plait/option.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a method changes. */
#define PLAIT_PEFT_PRODUCT 1u /* a product with a parameter of two dimensions */
#define PLAIT_PEFT_LOOKUP 2u  /* rows of a table, which is a parameter, by their numbers */
#define PLAIT_PEFT_LAYER 4u   /* a layer */
#define PLAIT_PEFT_GROUPED 8u /* a product of groups of rows, each with a matrix of its own: experts */

/* One place where a method is applied. I and O are the inputs and outputs of a product, V and C the
 * rows and columns of a table, E the groups of a grouped product (experts), N all its rows, R.. any
 * number of dimensions. Borrowed for the call. */
typedef struct plait_peft_target {
  size_t struct_size;
  const char *name; /* layer and parameter, "model.h0.attn.q.weight"; or the layer */
  uint32_t what;    /* one PLAIT_PEFT_* */
  uint32_t out_in;  /* of a product: 1 if the weight is (O,I), 0 if it is (I,O) */
  /* What enters: x (R..,I) of a product, row numbers (R..) of a look-up, the first input of a
   * layer. */
  plait_value input;
  /* What leaves: (R..,O), the bias included; (R..,C); the first output of a layer. */
  plait_value output;
  plait_value weight; /* (O,I) or (I,O); (V,C); 0 of a layer */
  plait_value bias;   /* (O); 0: none */
  /* How tensor parallelism may shard the weight: see plait_parameter. */
  int64_t shard_unit;
  int32_t shard_dim;
  /* In wrap(), of a method that adds terms to the loss (plait_build_table.add_loss): the number of
   * targets of the adapter, so that a term may be a mean over them. 0 at first, while they are
   * counted: then wrap() adds the term as well, and is called again with their number. */
  uint32_t n_targets;
  /* Of a grouped product, whose input is (N,I), output (N,O), weight (E,O,I) or (E,I,O) and bias
   * (E,O): where the rows of each group begin and, last, N: (E+1), as the op grouped_matmul takes
   * them. 0 of all others. */
  plait_value groups;
} plait_peft_target;

/* A parameter of an adapter, as the builder returned it, and the value with which it starts. */
typedef struct plait_peft_start {
  plait_value parameter, value;
} plait_peft_start;
#define PLAIT_PEFT_MAX_STARTS 16u /* of one target */

/* A parameter of an adapter behind an update of the optimizer. (P..) is its global shape; n is what
 * score() gives for each target, T the number of targets of the adapter. Values are f32, or f64
 * where [precision] says so. Borrowed for the call. */
typedef struct plait_peft_update {
  size_t struct_size;
  const char *name;      /* the parameter's own, as wrap() requests it: "a" */
  plait_value parameter; /* (P..), as the optimizer leaves it */
  plait_value gradient;  /* (P..), as the optimizer read it: of the mean loss, clipped */
  plait_value step;      /* (): number of this update of the adapter, from 1 */
  int64_t total_steps;   /* of the run; 0: unknown */
  uint32_t n_targets;    /* T: of this entry of the adapter */
  uint32_t reserved;
  /* For update() only; 0 in score(). */
  plait_value scores;     /* (n): of this target, all its parameters added */
  plait_value all_scores; /* (T,n): of all targets of the adapter's entry, on all ranks */
} plait_peft_update;

/* Kind "plait.peft/1". Static. */
typedef struct plait_peft_item {
  size_t struct_size;
  const char *name;
  const char *help;
  const plait_option *options; /* (n_options) */
  uint32_t n_options;
  uint32_t targets; /* sum of PLAIT_PEFT_*: what the method can change */
  /* Writes ops and sets *output to what readers of `target->output` read instead; of its shape.
   * Parameters that it requests belong to the adapter: their full name is that of the target, a
   * dot, the name of the adapter, a dot and their own. They are trained; those of the model are
   * frozen unless the experiment names them in `train`. `target->output` is what the adapters
   * before this one have made of it; input, weight and bias are the model's own.
   * Errors: PLAIT_ERR_INVALID for a target or options that the method does not accept, or an error
   * of `b` unchanged; no plan is made. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *wrap)(plait_builder *b, const plait_options *options,
                                                 const plait_peft_target *target,
                                                 plait_value *output);
  /* Writes what weight and bias are to be so that the model alone computes what it computes with
   * the adapter, which then starts anew: an adapter that can be merged changes nothing at its
   * initial values. target->input and output are 0; target->weight and bias are the model's own, as
   * in wrap(). *weight and *bias come as what the adapters before this one have made of them, and
   * are to be set; the bias is 0 where there is none. Requests no parameters that wrap() does not.
   * The ops run when a host merges (adapters.h), in the type of parameters.
   * NULL: the adapter cannot be merged.
   * Errors: PLAIT_ERR_PLUGIN or PLAIT_ERR_MEMORY of `b`, unchanged; any other one, for instance
   * PLAIT_ERR_UNIMPLEMENTED, says why this target cannot be merged, which the host is told when it
   * asks for it. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *merge)(plait_builder *b, const plait_options *options,
                                                  const plait_peft_target *target,
                                                  plait_value *weight, plait_value *bias);
  /* Writes initial values that follow from the weight, such as the norms of its rows: sets `starts`
   * (PLAIT_PEFT_MAX_STARTS) and their number *n. Other parameters of the adapter keep those that
   * wrap() asked for. target->input and output are 0. The ops run once, when the weights are there,
   * unless the adapter comes from a checkpoint; and again when it has been merged.
   * NULL: none does. Errors: PLAIT_ERR_INVALID, or one of `b`, as of wrap(). [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *start)(plait_builder *b, const plait_options *options,
                                                  const plait_peft_target *target,
                                                  plait_peft_start *starts, uint32_t *n);
  /* What the method does behind each update of the optimizer, for a method that chooses between its
   * targets, such as one that gives a budget of ranks to those that matter most. Both are called
   * for each trained parameter of a target, and write ops as the rule of an optimizer with
   * PLAIT_SCOPE_TENSOR does (optimizer.h): as if there were one rank, with state() and
   * tensor_state() that belong to the parameter and are saved beside the optimizer's own.
   *
   * score() sets *scores (n): n is the same for all parameters of all targets. The engine adds
   * up one target's, and gathers them over all ranks. *scores 0: nothing of this parameter.
   * update() then sets *parameter to what it is to be; it comes as update->parameter. It reads
   * states as score() has set them.
   * Neither has an effect in a step that is skipped. Both NULL: the optimizer alone decides.
   * Errors: PLAIT_ERR_INVALID, or one of `b`, as of wrap(). [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *score)(plait_builder *b, const plait_options *options,
                                                  const plait_peft_update *update, plait_value *scores);
  /* See score(). Errors: PLAIT_ERR_INVALID, or one of `b`, as of wrap(). [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *update)(plait_builder *b, const plait_options *options,
                                                   const plait_peft_update *update, plait_value *parameter);
} plait_peft_item;

#define PLAIT_KIND_PEFT "plait.peft/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_PEFT_H */
