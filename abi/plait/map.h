/* plait/map.h - the element-wise expression that the op `map` evaluates: a short program in SSA
 * form.
 *
 * Registers 0 to n_inputs-1 hold the inputs; instruction i defines register n_inputs+i from earlier
 * registers. Inputs broadcast to the common shape of the outputs by the usual rule: shapes are
 * aligned at the right, and an extent of 1 repeats. The arithmetic is f32, or f64 if any operand is
 * f64. Loads and stores convert: to bf16 and f16 with rounding to nearest even, to integers toward
 * zero. NaN propagates through arithmetic, MAX, MIN and RELU. Truth values are 1.0 and 0.0; any
 * value but 0 is true. An output may have the same address as an input of the same type and shape:
 * the map then works in place. */
#ifndef PLAIT_MAP_H
#define PLAIT_MAP_H

#include <plait/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLAIT_MAP_CONST 0u /* the field `value` */
#define PLAIT_MAP_COPY 1u  /* a */
#define PLAIT_MAP_ADD 2u
#define PLAIT_MAP_SUB 3u
#define PLAIT_MAP_MUL 4u
#define PLAIT_MAP_DIV 5u
#define PLAIT_MAP_MAX 6u
#define PLAIT_MAP_MIN 7u
#define PLAIT_MAP_POW 8u /* a to the power of b */
#define PLAIT_MAP_NEG 9u
#define PLAIT_MAP_ABS 10u
#define PLAIT_MAP_EXP 11u
#define PLAIT_MAP_LOG 12u
#define PLAIT_MAP_SQRT 13u
#define PLAIT_MAP_RSQRT 14u
#define PLAIT_MAP_RECIP 15u
#define PLAIT_MAP_TANH 16u
#define PLAIT_MAP_SIGMOID 17u
#define PLAIT_MAP_ERF 18u
#define PLAIT_MAP_RELU 19u
#define PLAIT_MAP_FLOOR 20u
#define PLAIT_MAP_SIGN 21u   /* -1, 0, 1 */
#define PLAIT_MAP_LT 22u     /* a < b */
#define PLAIT_MAP_LE 23u     /* a <= b */
#define PLAIT_MAP_EQ 24u     /* a == b */
#define PLAIT_MAP_SELECT 25u /* a ? b : c */
#define PLAIT_MAP_FMA 26u    /* a * b + c */
#define PLAIT_MAP_EXPM1 27u
#define PLAIT_MAP_LOG1P 28u
#define PLAIT_MAP_IS_FINITE 29u
#define PLAIT_MAP_AND 30u
#define PLAIT_MAP_OR 31u
#define PLAIT_MAP_NOT 32u

/* One instruction. Unused fields are 0. This struct never changes. */
typedef struct plait_map_instr {
  uint32_t op;
  uint32_t a, b, c; /* registers */
  double value;     /* the constant of PLAIT_MAP_CONST */
} plait_map_instr;

/* An expression. Every function that takes one borrows it for the call. */
typedef struct plait_map {
  size_t struct_size;
  uint32_t n_inputs;
  uint32_t n_instrs;
  uint32_t n_outputs;            /* >= 1 */
  uint32_t reserved;             /* 0 */
  const plait_map_instr *instrs; /* (n_instrs) */
  const uint32_t *outputs;       /* (n_outputs): the registers that are stored */
} plait_map;

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_MAP_H */
