/* plait/tensor.h - element types, shapes, and tensor views compatible with DLPack. */
#ifndef PLAIT_TENSOR_H
#define PLAIT_TENSOR_H

#include <plait/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. An id never changes its meaning and is never reused. */
#define PLAIT_F32 1u
#define PLAIT_F64 2u
#define PLAIT_BF16 3u
#define PLAIT_F16 4u
#define PLAIT_I32 5u
#define PLAIT_I64 6u
#define PLAIT_U8 7u
#define PLAIT_BOOL 8u    /* one byte, 0 or 1 */
#define PLAIT_F8E4M3 9u  /* 8-bit floats of the OCP, to 448 and to 57344: operands of products, */
#define PLAIT_F8E5M2 10u /* beside a scale. No field, parameter or result has these types. */

#define PLAIT_MAX_NDIM 8

/* Element type and row-major extents of a tensor; ndim 0 is a scalar. dims[ndim..] are 0. An extent
 * may be 0. This struct never changes. */
typedef struct plait_shape {
  uint32_t dtype;
  uint32_t ndim;
  int64_t dims[PLAIT_MAX_NDIM];
} plait_shape;

/* --- DLPack -------------------------------------------------------------------------------------
 * These structs have the memory layout of DLPack 1.x (DLDevice, DLDataType, DLTensor and
 * DLManagedTensorVersioned), so that a host needs no other header; pointers may be cast between the
 * two. The DLPack standard freezes them. */

typedef struct plait_dl_device {
  int32_t type; /* 1 host memory, 2 CUDA, 3 pinned host memory */
  int32_t id;
} plait_dl_device;

typedef struct plait_dl_dtype {
  uint8_t code; /* 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool, 10 f8e4m3, 12 f8e5m2 */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} plait_dl_dtype;

typedef struct plait_dl_tensor {
  void *data; /* may be NULL when the tensor is empty */
  plait_dl_device device;
  int32_t ndim;
  plait_dl_dtype dtype;
  int64_t *shape; /* (ndim) */
  /* (ndim), in elements. A producer never sets NULL; a consumer reads NULL as row-major. */
  int64_t *strides;
  uint64_t byte_offset;
} plait_dl_tensor;

#define PLAIT_DL_READ_ONLY 1u
#define PLAIT_DL_COPIED 2u

typedef struct plait_dl_managed {
  uint32_t major; /* 1; with any other value a consumer calls deleter and reads nothing else */
  uint32_t minor;
  void *manager_ctx;
  /* Releases the view and its reference to the memory; may be NULL.
   * [thread: any; blocks: as free() of the device] */
  void(PLAIT_CALL *deleter)(struct plait_dl_managed *self);
  uint64_t flags;
  plait_dl_tensor tensor;
} plait_dl_managed;

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_TENSOR_H */
