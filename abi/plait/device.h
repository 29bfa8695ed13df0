/* plait/device.h - devices and kernels. A device gives memory, queues and events; kernels are apart, one item per (op, device,
 * implementation), so that a third-party op can bring kernels for a device it did not write.
 *
 * Work is asynchronous: enqueue() returns at once on a GPU and may run in place on a CPU. Kernels are selected (pure, no
 * device touched, so that a plan can be made anywhere), prepared once, and run many times.
 *
 * When run() of a kernel is called. plait_device_info.records says it:
 *   0  The device computes on the host. Outside a capture enqueue() calls run(); inside one it only notes the call, and every
 *      launch of the graph calls run() again.
 *   1  The device records its own work. enqueue() calls run() at once, on the caller's thread, inside a capture and outside:
 *      run() puts work on the queue and returns. A launch repeats the recorded work and calls no run(). The operands of a
 *      recorded kernel are fixed; what changes from launch to launch lies in device memory.
 * The engine prepares every kernel of a session before its first capture, so prepare() may compile, allocate and meet other
 * ranks. Calls with equal descriptors share one prepared kernel, on several operands and queues: run() changes nothing of it.
 * A kernel that needs state of its own, or the host's hand at each run, says PLAIT_KERNEL_HOST.
 *
 * Host memory of a copy. Memory of host_alloc() is copied asynchronously. With other memory of the host, copy() may
 * wait for the queue first; the engine copies no such memory in a step of a device that has host_alloc(). A copy that is
 * recorded uses the same host memory at each launch, so it must be memory of host_alloc() where the device has some.
 *
 * Launches. A graph may be launched again before its last launch has ended. On one queue the launches run one after the other;
 * whoever launches it on two queues orders them by events.
 *
 * Native handles. plait_device and plait_queue are opaque, but a device may publish what they begin with, for kernels and
 * communication backends that other plugins bring: a struct that begins with `size_t struct_size`, in a header named after the
 * device, under abi/plait/. Only items that name that device may look. */
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
typedef struct plait_queue plait_queue;   /* work in order */
typedef struct plait_event plait_event;   /* a point in a queue */
typedef struct plait_graph plait_graph;   /* captured work, launched as one */
typedef struct plait_kernel plait_kernel; /* one prepared kernel */

/* Answer of a kernel's select(). The caller sets struct_size and detail_size. */
typedef struct plait_choice {
  size_t struct_size;
  uint64_t workspace;   /* bytes of scratch that run() needs, any content, aligned to 64 */
  char *detail;         /* (detail_size) NUL-terminated: the variant chosen, or why it was refused */
  uint64_t detail_size; /* capacity */
} plait_choice;

/* Kind "plait.kernel/1": one implementation of an op on a device. Static. Several may exist for an op and a device; the one with
 * the highest priority that accepts is taken; a plain one of priority 0 should end every list. */
typedef struct plait_kernel_item {
  size_t struct_size;
  const char *name;   /* "jit_map" */
  const char *op;     /* op it implements */
  const char *device; /* name of the device item */
  int32_t priority;
  uint32_t reserved;
  /* 1: takes this desc, and *choice is set; 0: refuses, and choice->detail says why. Passes fold neighbours into an op by
   * attributes and operands of its own: refuse what you don't know. Pure. [thread: any; blocks: no] */
  uint32_t(PLAIT_CALL *select)(const plait_op_desc *desc, plait_choice *choice);
  /* Makes the kernel; desc is borrowed. [thread: owner of the device; blocks: may generate code] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *prepare)(const plait_host *host, plait_device *device, const plait_op_desc *desc,
                                                    plait_kernel **out);
  /* Puts one execution on the queue. operands: inputs, then outputs; aligned to 64 where the engine planned them.
   * No allocation, no lock. Failure is NULL or an error made with the host of prepare().
   * [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *run)(const plait_kernel *kernel, plait_queue *queue, void *const *operands,
                                                void *workspace);
  /* [thread: owner of the device; blocks: no] */
  void(PLAIT_CALL *release)(plait_kernel *kernel);

  /* Since struct_size 80. PLAIT_KERNEL_*; the rest is 0. */
  uint32_t flags;
  uint32_t reserved2;
} plait_kernel_item;

/* run() works on the host: it reads or changes more than its operands, or keeps state from run to run. Every op has a kernel
 * of its own. On a device that records it is never recorded: the engine calls run() at each launch, between two graphs. */
#define PLAIT_KERNEL_HOST 1u

/* Directions of a copy. */
#define PLAIT_COPY_TO_DEVICE 1u
#define PLAIT_COPY_TO_HOST 2u
#define PLAIT_COPY_ON_DEVICE 3u

/* Device properties. */
typedef struct plait_device_info {
  size_t struct_size;
  uint32_t host_visible; /* 1: device pointers are host pointers, and kernels take other memory of the host as well */
  uint32_t threads;      /* compute threads, 0 where the word means nothing */
  uint64_t memory_bytes; /* installed */
  const char *summary;   /* "2 threads, avx512"; lives as long as the device */

  /* Since struct_size 56: a device writes what fits in the caller's struct. */
  int32_t dl_type;      /* DLPack type of its memory: 1 host, 2 CUDA, ...; 0: host where host_visible, else none */
  int32_t dl_id;        /* DLPack index */
  uint32_t records;     /* 1: a capture records device work; see "When run() is called" above */
  uint32_t reserved;    /* 0 */
  const char *identity; /* "NVIDIA H200, 132 SMs, driver 580.65, cuBLASLt 13.1": what equal ranks have equal, as it decides
                         * the bits of results. Ranks compare it. NULL: nothing. Lives as long as the device */
} plait_device_info;

/* Kind "plait.device/1". Static. */
typedef struct plait_device_item {
  size_t struct_size;
  const char *name; /* "cpu" */
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  int32_t priority; /* "auto" takes the device of the highest priority whose probe() says 1 */

  /* How many threads a kernel will get with these options: what select() is asked with. Pure. [thread: any; blocks: no] */
  uint32_t(PLAIT_CALL *threads)(const plait_options *options);
  /* [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options, plait_device **out);
  /* After everything opened on it was closed. [thread: any; blocks: yes] */
  void(PLAIT_CALL *close)(plait_device *device);
  /* [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *info)(const plait_device *device, plait_device_info *out);

  /* Device memory, aligned to at least 64, content zero; 0 bytes give an address, too. Errors: PLAIT_ERR_MEMORY, whose text
   * says how many bytes were asked for. [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *alloc)(plait_device *device, uint64_t bytes, void **out);
  /* A view may outlive its session and be released anywhere. [thread: any; blocks: yes] */
  void(PLAIT_CALL *free)(plait_device *device, void *memory);

  /* close: after sync(). [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *queue_open)(plait_device *device, plait_queue **out);
  void(PLAIT_CALL *queue_close)(plait_queue *queue);
  /* Puts one kernel on the queue (or, while capturing, into the graph). operands (n) are copied.
   * [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *enqueue)(plait_queue *queue, const plait_kernel_item *item,
                                                    const plait_kernel *kernel, void *const *operands, uint32_t n,
                                                    void *workspace);
  /* Puts a copy on the queue. Host memory stays where it is until the queue has passed the copy.
   * [thread: compute; blocks: on the queue, for host memory that is not of host_alloc()] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *copy)(plait_queue *queue, uint32_t direction, void *to, const void *from,
                                                 uint64_t bytes);
  /* Waits until the queue is empty; reports the first error of asynchronous work. [thread: compute; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *sync)(plait_queue *queue);

  /* [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_open)(plait_device *device, plait_event **out);
  void(PLAIT_CALL *event_close)(plait_event *event);
  /* The event passes when the queue's work up to here is done. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_record)(plait_event *event, plait_queue *queue);
  /* Later work of `queue` waits for the event. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_wait)(plait_event *event, plait_queue *queue);
  /* *done = 1 when the event has passed. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *event_query)(plait_event *event, uint32_t *done);

  /* Between begin and end, enqueue() and copy() are recorded instead of run. Capturing allocates. [thread: owner; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *capture_begin)(plait_queue *queue);
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *capture_end)(plait_queue *queue, plait_graph **out);
  /* Runs the record as it stands, in order. Does not allocate. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *graph_launch)(plait_graph *graph, plait_queue *queue);
  /* No launch of it is under way. [thread: owner; blocks: no] */
  void(PLAIT_CALL *graph_close)(plait_graph *graph);

  /* Since struct_size 224; each may be NULL.
   * Whether open() with these options is likely to work here: 1 or 0. detail (detail_size): NUL-terminated, what was found, or
   * why not. Asked for run.device = "auto" alone; a device that is asked for by name is opened or fails. NULL: yes.
   * [thread: any; blocks: may look for a driver] */
  uint32_t(PLAIT_CALL *probe)(const plait_host *host, const plait_options *options, char *detail, uint64_t detail_size);
  /* Host memory that the device copies asynchronously (pinned), aligned to 64, content zero. Errors: PLAIT_ERR_MEMORY
   * as alloc(). NULL: any host memory will do. [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *host_alloc)(plait_device *device, uint64_t bytes, void **out);
  /* There when host_alloc is. [thread: any; blocks: yes] */
  void(PLAIT_CALL *host_free)(plait_device *device, void *memory);
} plait_device_item;

#define PLAIT_KIND_DEVICE "plait.device/1"
#define PLAIT_KIND_KERNEL "plait.kernel/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_DEVICE_H */
