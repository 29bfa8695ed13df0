/* plait/cuda.h - the native handles of the device called "cuda", for kernels and communication
 * backends of other plugins. The header needs no header of CUDA; a cast gives the type of CUDA that
 * a comment names.
 *
 * A plait_device * of that device points to a plait_cuda_device, and a plait_queue * of it to a
 * plait_cuda_queue:
 *
 *   plait_error *run(const plait_kernel *kernel, plait_queue *queue, void *const *operands, void *workspace) {
 *     CUstream stream = (CUstream)((const plait_cuda_queue *)queue)->stream;
 *     ...
 *
 * Only a kernel or a backend whose `device` is "cuda" may do that: another device has other structs
 * behind these pointers. Members that end beyond struct_size are not there.
 *
 * Ownership. The device plugin writes the structs when it opens the device or the queue, and leaves
 * them unchanged until it closes them; nobody else writes them. Context and stream belong to the
 * device: whoever borrows them does not destroy, reset or synchronise them, and does not begin or
 * end a capture. Pointers of prepare(), run() and plait_comm_setup remain valid until the device
 * and the queue are closed, which is after all kernels and groups.
 *
 * Threads. Any thread may read the structs. The context is current in run() of a kernel for the
 * device, and, from open() to close(), on the thread that opened the device, where prepare() and
 * release() are called. On a thread that opened several devices it is the context of the last one:
 * prepare() and release() make theirs current there. All other functions of the device, on whatever
 * thread, leave the context of the thread as they find it; so does every function of a kernel, a
 * backend or a host that changes it. A backend, and every thread that a plugin starts, makes it
 * current itself. Work is put on the stream only in a call that was given the queue, on the thread of that
 * call: in run() of a kernel, and in start() and finish() of a backend.
 *
 * Captures. The device records (device.h), in CUDA's thread-local mode. While the stream captures,
 * run(), start() and finish() only enqueue: they allocate nothing, load no module and wait for
 * nothing. A stream that they fork from this one by an event is joined to it before the capture
 * ends, by start() and finish() together.
 *
 * Errors. A call of CUDA that fails becomes PLAIT_ERR_DEVICE, or PLAIT_ERR_MEMORY when memory is
 * short, in the function that made it. Errors of work on the stream come out of sync() and
 * event_query() of the device. */
#ifndef PLAIT_CUDA_H
#define PLAIT_CUDA_H

#include <plait/base.h>
#include <plait/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a plait_device * of the device "cuda" points to. */
typedef struct plait_cuda_device {
  size_t struct_size;
  int32_t ordinal; /* CUdevice: index of the GPU among those that this process sees */
  uint32_t reserved;
  void *context; /* CUcontext: the primary context of that GPU, which the device retains */
} plait_cuda_device;

/* What a plait_queue * of the device "cuda" points to. */
typedef struct plait_cuda_queue {
  size_t struct_size;
  void *stream;         /* CUstream of the device's context, non-blocking; never NULL */
  plait_device *device; /* a plait_cuda_device */
} plait_cuda_queue;

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_CUDA_H */
