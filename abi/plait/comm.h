/* plait/comm.h - communication backends: how the ranks of a group exchange tensors.
 *
 * A group is an ordered list of ranks; every rank opens its own end. Calls are prepared once, when the session opens, and
 * started many times. A start takes effect behind the work already on a queue and returns; finish() orders the queue's later
 * work behind the call. On a device whose queue runs in place the backend works on a thread of its own between the two, so
 * that a program computes while it communicates.
 *
 * Letters: R ranks of the group, r this rank's place in it, n elements.
 *
 * All ranks of a group start the same calls in the same order; sends and receives are matched by peer and order, and wait for
 * no other call. Calls of no elements need not wait for the other ranks; a barrier does. A sum is
 * taken in one fixed order of the ranks, so the same layout gives the same bits, and every rank holds the same ones.
 *
 * A backend for the memory of a device that records (device.h) may have start() and finish() of a call called while a queue
 * captures, both inside one capture: they record what is to be done, and every launch does it. Sends and receives are never
 * recorded. The same call may also be started outside a capture. All members launch the same graphs in the same order.
 *
 * Different calls of a group on host memory may be started and finished on different threads at once, while the owner prepares
 * or releases others: the engine does so with the groups of which it composes one over several hosts. */
#ifndef PLAIT_COMM_H
#define PLAIT_COMM_H

#include <plait/base.h>
#include <plait/device.h>
#include <plait/option.h>
#include <plait/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque objects of a backend. */
typedef struct plait_comm plait_comm;           /* one rank's end of a group */
typedef struct plait_comm_call plait_comm_call; /* one prepared call */

/* What a call does, and its n: `in` and `out` in elements. May gain members. */
#define PLAIT_COMM_BARRIER 1u        /* -; n = 0 */
#define PLAIT_COMM_ALL_REDUCE 2u     /* in (n) -> out (n), reduced over all ranks; out may be in */
#define PLAIT_COMM_REDUCE_SCATTER 3u /* in (R, n) -> out (n): row r, reduced; out may be row r of in */
#define PLAIT_COMM_ALL_GATHER 4u     /* in (n) -> out (R, n); in may be row r of out */
#define PLAIT_COMM_BROADCAST 5u      /* the peer's in (n) -> everybody's out (n); out may be in */
#define PLAIT_COMM_ALL_TO_ALL 6u     /* in (R, n) -> out (R, n): row r of every rank's in; out is not in */
#define PLAIT_COMM_SEND 7u           /* in (n) -> the peer */
#define PLAIT_COMM_RECEIVE 8u        /* the peer -> out (n) */

/* How elements of several ranks become one. */
#define PLAIT_COMM_SUM 1u /* f32, bf16 and f16 are added in f32 at least, and rounded once; integers wrap around */
#define PLAIT_COMM_MAX 2u /* not a number, once met, stays */
#define PLAIT_COMM_MIN 3u

/* One call. Addresses are of the group's device; they stay the same for all starts. */
typedef struct plait_comm_desc {
  size_t struct_size;
  uint32_t kind;      /* PLAIT_COMM_* */
  uint32_t dtype;     /* PLAIT_F32, ... any element type; reductions not PLAIT_BOOL */
  uint32_t reduction; /* PLAIT_COMM_SUM, ... for the kinds that reduce, else 0 */
  uint32_t peer;      /* place of the root or of the other end, for the kinds that have one, else 0 */
  uint64_t n;
  const void *in;
  void *out;
} plait_comm_desc;

/* Small values that the ranks of a job lay down for each other while a group comes about. The engine's; every group has a
 * name space of its own. */
typedef struct plait_store plait_store;
struct plait_store {
  size_t struct_size;
  void *self;
  /* Lays down a value, at most 64 KiB, under a key that is not yet taken: letters, digits and dots.
   * [thread: any; blocks: on the network] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *set)(void *self, const char *key, const void *data, uint64_t size);
  /* Waits for a value and copies it; *size is its size. Errors: PLAIT_ERR_PEER after the group's connect_timeout or when the
   * job is over, PLAIT_ERR_INVALID when capacity is too small. [thread: any; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get)(void *self, const char *key, void *data, uint64_t capacity, uint64_t *size);
};

/* What a backend learns of the group it is to connect. Borrowed for the call of open(), the store until close(). */
typedef struct plait_comm_setup {
  size_t struct_size;
  const char *name;         /* "data[0]"; unique in the job, for messages */
  uint32_t rank;            /* r */
  uint32_t size;            /* R */
  const char *const *hosts; /* (R) where each member runs; equal texts share a machine */
  const char *const *ranks; /* (R) how messages call each member: "rank 3 (stage 1, data 0, tensor 1)" */
  const plait_store *store;
  double connect_timeout; /* seconds for all members to arrive */
  double timeout;         /* seconds for one call, from its start on this rank */

  /* Since struct_size 72. The opened device whose memory the group exchanges; it outlives the group. NULL: host memory. */
  plait_device *device;
} plait_comm_setup;

/* How far a backend reaches. The engine takes the nearest that reaches all members. */
#define PLAIT_COMM_REACH_PROCESS 1u /* threads of one process */
#define PLAIT_COMM_REACH_HOST 2u    /* processes of one machine */
#define PLAIT_COMM_REACH_NETWORK 3u

/* Kind "plait.comm/1". Static. */
typedef struct plait_comm_item {
  size_t struct_size;
  const char *name; /* "gloo" */
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reach;     /* PLAIT_COMM_REACH_*: how far apart members may be */
  const char *device; /* device item whose memory it exchanges; NULL: host memory */

  /* Connects this rank; returns when all members have. Errors: PLAIT_ERR_PEER naming the members that are missing.
   * [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options,
                                                 const plait_comm_setup *setup, plait_comm **out);
  /* Leaves the group: aborts what is under way. Its calls are released before.
   * [thread: owner; blocks: until its own threads have ended] */
  void(PLAIT_CALL *close)(plait_comm *comm);

  /* Checks a call and takes the memory it needs; desc is borrowed. [thread: owner; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *prepare)(plait_comm *comm, const plait_comm_desc *desc, plait_comm_call **out);
  /* Of a call that is not under way. [thread: owner; blocks: no] */
  void(PLAIT_CALL *release)(plait_comm_call *call);

  /* Starts the call behind what is on the queue. A call may be started again after finish(), and has nothing to finish when
   * start() failed. No allocation, no lock held while waiting. queue may be NULL for host memory: then it starts at once.
   * [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *start)(plait_comm_call *call, plait_queue *queue);
  /* Orders the queue's later work behind the call; on host memory waits for its end and reports its error: PLAIT_ERR_PEER
   * naming group, kind, and the members that are missing. After an error all further calls of the group fail with it.
   * [thread: compute; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *finish)(plait_comm_call *call, plait_queue *queue);

  /* Ends the group from outside: every call under way and to come fails with PLAIT_ERR_PEER and this text, within
   * milliseconds; other ranks lose this one, at the latest then. Repeatable: the first text stays. [thread: any; blocks: no] */
  void(PLAIT_CALL *abort)(plait_comm *comm, const char *text, uint64_t size);

  /* Since struct_size 112. Memory of the host, or of the device where the backend names one, that all members reach: `bytes` of it for this rank, at a multiple of 64, zero at
   * first; it stays until close(). All members call it in the same order with the same bytes. *out = NULL, on all of them, where
   * one has too little of it, for no bytes, and in a group of one. Calls may lie in it: in place, on all members or on none, equally
   * far from its beginning; and from start() to finish(), or for good when the group fails, members may read and write each other's
   * tensors. It counts as a call that is started and finished, in order and time. Errors: PLAIT_ERR_PEER as finish(), and when
   * members ask for different bytes; any other ends the group. A backend may have none: NULL.
   * [thread: owner; blocks: until all members have called] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *memory)(plait_comm *comm, uint64_t bytes, void **out);

  /* Since struct_size 120. NULL while the group is well; else a new error that says why calls fail, PLAIT_ERR_PEER as finish().
   * On a device whose graphs hold the calls nobody calls finish() at a launch: the engine asks here while it waits for the
   * queue and after every sync. A queue passes calls that have failed, so that a sync ends. NULL slot: always well.
   * [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *status)(plait_comm *comm);
} plait_comm_item;

#define PLAIT_KIND_COMM "plait.comm/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_COMM_H */
