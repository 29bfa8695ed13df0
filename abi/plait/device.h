/* plait/device.h - devices and kernels. A device provides memory, queues and events. Kernels are
 * items of their own, one per (op, device, implementation), so a plugin with a new op can bring
 * kernels for devices of other plugins.
 *
 * Work is asynchronous: on a GPU enqueue() returns at once; a device that computes on the host may
 * run the work in place. A kernel is selected at plan time (a pure function, so a plan can be made
 * on any machine), prepared once, and run many times.
 *
 * When run() is called. plait_device_info.records says it:
 *   0  The device computes on the host. Outside of a capture enqueue() calls run(). Inside a capture
 *      it only notes the call, and every launch of the graph calls run() again.
 *   1  The device records its work. enqueue() calls run() at once, on the caller's thread, inside
 *      and outside of a capture; run() puts work on the queue and returns. A launch repeats the
 *      recorded work and calls no run(). The operands of a recorded kernel are fixed: whatever
 *      changes from launch to launch lies in device memory.
 * The engine prepares every kernel of a session before its first capture, so prepare() may compile,
 * allocate and communicate with other ranks. Calls with equal descriptors share one prepared kernel,
 * with several operands and queues, so run() must not modify it. A kernel that has state of its own,
 * or needs the host at each run, sets PLAIT_KERNEL_HOST.
 *
 * Host memory in copies. A copy from or to memory of host_alloc() is asynchronous. For other host
 * memory copy() may wait for the queue; in a step the engine copies no such memory if the device has
 * host_alloc(). A recorded copy uses the same host memory at each launch, which must be memory of
 * host_alloc() if the device has that function.
 *
 * Launches. A graph may be launched again before its previous launch has ended. On one queue the
 * launches run one after the other; a caller that uses two queues orders them by events.
 *
 * Native handles. A device may publish the structs to which its plait_device and plait_queue point,
 * for items that name that device: see cuda.h.
 *
 * Errors. A function returns NULL or an error made with the host that it was given, or that its
 * object was opened with; the engine keeps the code and adds the names of the plugin, the function
 * and the op. An error while a session is opened fails plait_session_open(): everything that was
 * opened is closed again, a queue possibly inside a capture. An error in a step fails the step with
 * the same code: work that was already on the queue may have run, and the memory that it writes is
 * undefined. The engine may use the queue again, for instance to load a checkpoint, and closes
 * everything in the end; a device that has failed for good returns its error each time. A device
 * that records and takes longer than run.device_timeout (plus topology.timeout if a backend
 * works on its memory) is given up: the engine waits for, closes and frees nothing of it any more; it stays as it is, its
 * plugin loaded, until the process ends.
 *
 * Types. Layers use the types of the experiment's [precision]. The engine itself counts updates in
 * f64 and sums metrics over ranks in f64, so every device has kernels of map for f64 as well. */
#ifndef PLAIT_DEVICE_H
#define PLAIT_DEVICE_H

#include <plait/base.h>
#include <plait/op.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque objects of a device plugin. */
typedef struct plait_device plait_device;
typedef struct plait_queue plait_queue;   /* executes work in order */
typedef struct plait_event plait_event;   /* a point in a queue */
typedef struct plait_graph plait_graph;   /* captured work that is launched as a whole */
typedef struct plait_kernel plait_kernel; /* one prepared kernel */

/* The result of a kernel's select(). The caller sets struct_size, detail and detail_size. */
typedef struct plait_choice {
  size_t struct_size;
  uint64_t workspace;   /* bytes of scratch memory that run() needs: any content, aligned to 64 */
  char *detail;         /* (detail_size) ends in NUL: the variant chosen, or the reason of a refusal */
  uint64_t detail_size; /* capacity */
} plait_choice;

/* One of the algorithms that a kernel can compute by: bytes that its plugin alone understands. This
 * struct never changes. */
typedef struct plait_algorithm {
  uint64_t words[8];
} plait_algorithm;

/* Kind "plait.kernel/1": one implementation of an op on a device. Static. If an op has several on a
 * device, the engine takes the one of the highest priority that accepts the call. A plain kernel of
 * priority 0 that accepts everything should end the list. */
typedef struct plait_kernel_item {
  size_t struct_size;
  const char *name;   /* "jit_map" */
  const char *op;     /* the op that it implements */
  const char *device; /* name of the device item */
  int32_t priority;
  uint32_t reserved;
  /* Returns 1 and sets *choice if the kernel accepts the call; 0 if it refuses, with the reason in
   * choice->detail. Passes of the engine fold neighbouring ops into an op and express that by
   * attributes and operands: refuse attributes and operands that you do not know. Pure.
   * [thread: any; blocks: no] */
  uint32_t(PLAIT_CALL *select)(const plait_op_desc *desc, plait_choice *choice);
  /* Prepares the kernel for a call; release() frees *out. desc is borrowed.
   * Errors: PLAIT_ERR_MEMORY; PLAIT_ERR_DEVICE or another code when the code cannot be generated or
   * compiled. The device is unchanged and nothing stays allocated.
   * [thread: owner of the device; blocks: may generate code] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *prepare)(const plait_host *host, plait_device *device, const plait_op_desc *desc,
                                                    plait_kernel **out);
  /* Puts one execution on the queue. operands: inputs, then outputs; those that the engine placed
   * are aligned to 64. Allocates nothing and takes no lock. Errors are made with the host of
   * prepare().
   * Errors: PLAIT_ERR_DEVICE or another code when the work cannot be put on the queue, or fails on
   * a device that computes on the host. The outputs are undefined; the kernel remains usable.
   * [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *run)(const plait_kernel *kernel, plait_queue *queue, void *const *operands,
                                                void *workspace);
  /* Frees a kernel. [thread: owner of the device; blocks: no] */
  void(PLAIT_CALL *release)(plait_kernel *kernel);

  /* Since struct_size 80. A sum of PLAIT_KERNEL_*; all other bits are 0. */
  uint32_t flags;
  uint32_t reserved2;

  /* Since struct_size 96. Both or neither, of a kernel that has several algorithms. With
   * precision.tune the engine calls them when all kernels of a session are prepared, before it
   * captures anything: of all ranks that prepared the kernel for equal descriptors, whose devices
   * have the same identity, one calls tune(), and each calls adopt() with what that found. A kernel
   * that is not tuned chooses without measuring, alike on all ranks.
   *
   * Measures the algorithms in memory of its own and sets *out to the fastest; it may keep the
   * answer for later sessions.
   * Errors: PLAIT_ERR_DEVICE or another code when work on the device fails. The kernel is
   * unchanged. [thread: owner of the device; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *tune)(plait_device *device, const plait_kernel *kernel, plait_algorithm *out);
  /* Lets run() compute by this algorithm from now on.
   * Errors: PLAIT_ERR_INVALID for one that the kernel does not have. The kernel is unchanged.
   * [thread: owner of the device; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *adopt)(plait_kernel *kernel, const plait_algorithm *algorithm);
} plait_kernel_item;

/* run() works on the host: it accesses more than its operands, or keeps state from run to run.
 * Every op has a prepared kernel of its own. A device that records never records it: the engine
 * calls run() at each launch, between two graphs. */
#define PLAIT_KERNEL_HOST 1u

/* Directions of a copy. */
#define PLAIT_COPY_TO_DEVICE 1u
#define PLAIT_COPY_TO_HOST 2u
#define PLAIT_COPY_ON_DEVICE 3u

/* Device properties. */
typedef struct plait_device_info {
  size_t struct_size;
  uint32_t host_visible; /* 1: device pointers are host pointers, and kernels accept other host memory, too */
  uint32_t threads;      /* number of compute threads; 0 if the device has no such number */
  uint64_t memory_bytes; /* installed memory */
  const char *summary;   /* "2 threads, avx512"; lives as long as the device */

  /* Since struct_size 56. A device writes only the fields that fit in the caller's struct. */
  int32_t dl_type;      /* DLPack type of its memory: 1 host, 2 CUDA, ...; 0: 1 if host_visible, otherwise none */
  int32_t dl_id;        /* DLPack index */
  uint32_t records;     /* 1: a capture records device work; see "When run() is called" above */
  uint32_t reserved;    /* 0 */
  const char *identity; /* names everything that decides the bits of results: "NVIDIA H200, 132 SMs, driver 580.65,
                         * cuBLASLt 13.1". It must be equal on all ranks of a job. NULL: nothing to compare. Lives as
                         * long as the device */

  /* Since struct_size 64; as above. 1: the device records, but a launch makes the recorded calls of
   * enqueue() and copy() anew, one by one, as for debuggers. The engine then starts and finishes
   * collectives by itself at each launch, between two graphs. */
  uint32_t by_calls;
  uint32_t reserved2; /* 0 */
} plait_device_info;

/* Orders of a queue and a stream of the host. */
#define PLAIT_QUEUE_AFTER_STREAM 1u
#define PLAIT_STREAM_AFTER_QUEUE 2u

/* Kind "plait.device/1": a device. Static. */
typedef struct plait_device_item {
  size_t struct_size;
  const char *name; /* "cpu" */
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  int32_t priority; /* "auto" takes the device of the highest priority whose probe() returns 1 */

  /* Returns the number of threads that kernels get with these options, 1 to 65536;
   * plait_op_desc.threads. Pure. [thread: any; blocks: no] */
  uint32_t(PLAIT_CALL *threads)(const plait_options *options);
  /* Opens the device; close() frees *out.
   * Errors: PLAIT_ERR_DEVICE when the device is missing or has failed; PLAIT_ERR_CONFIG for options
   * that do not suit this machine; PLAIT_ERR_MEMORY. Nothing stays open; the engine does not call
   * close(). [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, plait_device **out);
  /* Closes the device, after everything that was opened on it. [thread: any; blocks: yes] */
  void(PLAIT_CALL *close)(plait_device *device);
  /* Describes the device. The caller sets struct_size.
   * Errors: PLAIT_ERR_DEVICE. The device is unchanged. [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *info)(const plait_device *device, plait_device_info *out);

  /* Allocates device memory: zeroed, aligned to 64 or more. 0 bytes give an address, too. free()
   * frees it. Errors: PLAIT_ERR_MEMORY with the number of bytes requested. The device is unchanged.
   * [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *alloc)(plait_device *device, uint64_t bytes, void **out);
  /* Frees device memory. A view of it (plait_session_view(), view.h) may outlive its session and be
   * released on any thread. [thread: any; blocks: yes] */
  void(PLAIT_CALL *free)(plait_device *device, void *memory);

  /* Opens a queue. Errors: PLAIT_ERR_DEVICE; PLAIT_ERR_MEMORY. The device is unchanged.
   * [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *queue_open)(plait_device *device, plait_queue **out);
  /* Closes a queue, which is empty unless it has failed. [thread: owner; blocks: yes] */
  void(PLAIT_CALL *queue_close)(plait_queue *queue);
  /* Puts one kernel on the queue or, while the queue captures, into the graph. operands (n) are
   * copied.
   * Errors: an error of run() unchanged; PLAIT_ERR_DEVICE when the work cannot be put on the queue.
   * The kernel has not run, or its outputs are undefined. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *enqueue)(plait_queue *queue, const plait_kernel_item *item,
                                                    const plait_kernel *kernel, void *const *operands, uint32_t n,
                                                    void *workspace);
  /* Puts a copy on the queue or, while the queue captures, into the graph. Host memory must stay
   * valid until the queue has passed the copy.
   * Errors: PLAIT_ERR_DEVICE; PLAIT_ERR_INVALID for host memory that a recorded copy cannot use.
   * The destination is unchanged or undefined. [thread: compute; blocks: on the queue, for host
   * memory that is not of host_alloc()] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *copy)(plait_queue *queue, uint32_t direction, void *to, const void *from,
                                                 uint64_t bytes);
  /* Waits until the queue is empty.
   * Errors: the first error of asynchronous work, usually PLAIT_ERR_DEVICE. The queue is empty; the
   * memory that its work should have written is undefined. [thread: compute; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *sync)(plait_queue *queue);

  /* Opens an event. Errors: PLAIT_ERR_DEVICE; PLAIT_ERR_MEMORY. The device is unchanged.
   * [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_open)(plait_device *device, plait_event **out);
  void(PLAIT_CALL *event_close)(plait_event *event);
  /* Records the event: it passes when the work that is on the queue now has ended.
   * Errors: PLAIT_ERR_DEVICE. The event is not recorded. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_record)(plait_event *event, plait_queue *queue);
  /* Makes later work of `queue` wait for the event.
   * Errors: PLAIT_ERR_DEVICE. Later work does not wait. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_wait)(plait_event *event, plait_queue *queue);
  /* Sets *done to 1 if the event has passed, otherwise to 0.
   * Errors: PLAIT_ERR_DEVICE when the queue has failed before the event. [thread: compute; blocks:
   * no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_query)(plait_event *event, uint32_t *done);

  /* Begins a capture: enqueue() and copy() are recorded instead of run, until capture_end().
   * Allocates memory. Errors: PLAIT_ERR_STATE when the queue captures already; PLAIT_ERR_MEMORY;
   * PLAIT_ERR_DEVICE. The queue is unchanged. [thread: owner; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *capture_begin)(plait_queue *queue);
  /* Ends the capture and returns its graph; graph_close() frees it. Errors: PLAIT_ERR_STATE without
   * capture_begin(); PLAIT_ERR_MEMORY; PLAIT_ERR_DEVICE. The recorded work is discarded.
   * [thread: owner; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *capture_end)(plait_queue *queue, plait_graph **out);
  /* Executes the recorded work in order. Does not allocate.
   * Errors: PLAIT_ERR_STATE while the queue captures: nothing is executed; PLAIT_ERR_DEVICE, or on
   * a device that computes on the host the first error of a run() unchanged: the work behind it is
   * not executed. The graph can be launched again. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *graph_launch)(plait_graph *graph, plait_queue *queue);
  /* Frees a graph, no launch of which is in progress. [thread: owner; blocks: no] */
  void(PLAIT_CALL *graph_close)(plait_graph *graph);

  /* Since struct_size 224, this function and the next two; each may be NULL. Returns 1 if open()
   * with these options is likely to succeed on this machine, otherwise 0. detail (detail_size)
   * receives a text that ends in NUL: what was found, or the reason. The engine asks only for
   * run.device = "auto"; a device that the experiment names is opened or fails. NULL: 1.
   * [thread: any; blocks: may look for a driver] */
  uint32_t(PLAIT_CALL *probe)(const plait_host *host, const plait_options *options, char *detail, uint64_t detail_size);
  /* Allocates host memory that the device copies asynchronously (pinned): zeroed, aligned to 64.
   * host_free() frees it. NULL: the device copies any host memory.
   * Errors: PLAIT_ERR_MEMORY as from alloc(). [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *host_alloc)(plait_device *device, uint64_t bytes, void **out);
  /* Frees memory of host_alloc(); required if host_alloc is present. [thread: any; blocks: yes] */
  void(PLAIT_CALL *host_free)(plait_device *device, void *memory);

  /* Since struct_size 232; may be NULL. Returns the operations per second that products of operands
   * of `dtype` cannot exceed on this device, a multiply-add counted as two: what reports of
   * utilisation divide by. 0: not known. May measure, on the threads of the device, for up to a
   * tenth of a second the first time. [thread: compute; blocks: yes] */
  double(PLAIT_CALL *peak_flops)(plait_device *device, uint32_t dtype);

  /* Since struct_size 240. NULL: the device knows no streams of hosts. Orders a queue and a stream
   * that the host owns, a handle of the device's own API (view.h): later work of the one that
   * `order` names first waits for the work that is on the other now. stream is never NULL.
   * Errors: PLAIT_ERR_INVALID for an order that is not known; PLAIT_ERR_STATE while the queue
   * captures; PLAIT_ERR_DEVICE for a stream that is not one of this device. Nothing waits.
   * [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *order)(plait_queue *queue, uint32_t order, void *stream);
} plait_device_item;

#define PLAIT_KIND_DEVICE "plait.device/1"
#define PLAIT_KIND_KERNEL "plait.kernel/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_DEVICE_H */
