/* plait/comm.h - communication backends: they connect ranks to groups and perform collectives.
 *
 * A group is an ordered list of ranks; each rank opens its own end. The engine prepares calls once,
 * when the session opens, and starts them many times. start() puts a call behind the work that is
 * already on a queue and returns; finish() orders the queue's later work behind the call. On a
 * device whose queue works in the caller's thread the backend runs the call on a thread of its own
 * between the two, so that a program computes while it communicates.
 *
 * Letters: R ranks of the group, r the position of this rank in it, n elements.
 *
 * All ranks of a group start the same calls in the same order. Sends and receives are matched by
 * peer and order, and wait for no other call. A call of no elements need not wait for the other
 * ranks; a barrier must. A reduction takes the ranks in one fixed order, so the same layout gives
 * the same bits, and every rank receives the same ones.
 *
 * Calls in graphs. If a backend communicates the memory of a device that records (device.h), the
 * engine may call start() and finish() of a call while a queue captures, both inside one capture:
 * they record the call, and every launch of the graph performs it. Sends and receives are never
 * recorded. The same call may also be started outside of a capture. All members launch the same
 * graphs in the same order.
 *
 * Threads. In a group on host memory different calls may be started and finished on different
 * threads at once, while the owner prepares or releases others. The engine does so in groups from
 * which it builds a hierarchical group over several hosts.
 *
 * Errors. PLAIT_ERR_PEER means that another rank is the cause, or that the group has been aborted;
 * any other code means that this rank is. The engine reports the rank that is the cause on all
 * ranks, so a backend must not return PLAIT_ERR_PEER for a fault of its own rank. An error of
 * open(), prepare() or memory() fails plait_session_open(), and one of start(), finish() or
 * status() the step or other call of the session, with the same code; on every rank the job is then
 * over. */
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

/* The kinds of calls, with the shapes of `in` and `out` in elements. More may be added: prepare()
 * refuses a kind that it does not know. */
#define PLAIT_COMM_BARRIER 1u        /* -; n = 0 */
#define PLAIT_COMM_ALL_REDUCE 2u     /* in (n) -> out (n), reduced over all ranks; out may be in */
#define PLAIT_COMM_REDUCE_SCATTER 3u /* in (R, n) -> out (n): row r, reduced over all ranks; out may be row r of in */
#define PLAIT_COMM_ALL_GATHER 4u     /* in (n) -> out (R, n); in may be row r of out */
#define PLAIT_COMM_BROADCAST 5u      /* in (n) of the peer -> out (n) of every rank; out may be in */
#define PLAIT_COMM_ALL_TO_ALL 6u     /* in (R, n) -> out (R, n): row s is row r of rank s's in; no overlap */
#define PLAIT_COMM_SEND 7u           /* in (n) -> to the peer */
#define PLAIT_COMM_RECEIVE 8u        /* from the peer -> out (n) */

/* Reductions. */
#define PLAIT_COMM_SUM 1u /* f32, bf16 and f16 are added in f32 or more and rounded once; integers wrap around */
#define PLAIT_COMM_MAX 2u /* NaN if any operand is NaN */
#define PLAIT_COMM_MIN 3u /* the same */

/* One call. `in` and `out` are addresses in the memory that the group communicates (of a device, or
 * of the host) and stay the same for all starts. */
typedef struct plait_comm_desc {
  size_t struct_size;
  uint32_t kind;      /* PLAIT_COMM_* */
  uint32_t dtype;     /* PLAIT_F32, ...; kinds that reduce take any type except PLAIT_BOOL */
  uint32_t reduction; /* PLAIT_COMM_SUM, ... for the kinds that reduce, otherwise 0 */
  uint32_t peer;      /* position of the root (broadcast) or of the other end (send, receive), otherwise 0 */
  uint64_t n;         /* as in the list of kinds; 0 for a barrier */
  const void *in;     /* unused by a receive, and by a broadcast on all ranks but the root */
  void *out;          /* unused by a send */
} plait_comm_desc;

/* Small values that the ranks of a group publish for each other while they connect. The engine
 * implements it; every group has a name space of its own. */
typedef struct plait_store plait_store;
struct plait_store {
  size_t struct_size;
  void *self;
  /* Publishes a value of at most 64 KiB. The value is copied. The key must be unused; it consists
   * of letters, digits and dots, at most 256 together with the name of the group.
   * Errors: PLAIT_ERR_STATE when the key is in use; PLAIT_ERR_INVALID for a malformed key or a
   * value that is too large; PLAIT_ERR_PEER when the job is over, or rank 0 does not answer in
   * time: the value may then be published. Otherwise nothing is. [thread: any; blocks: on the
   * network] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *set)(void *self, const char *key, const void *data, uint64_t size);
  /* Waits for a value and copies it to data (capacity); *size receives its size.
   * Errors: PLAIT_ERR_PEER when no rank has published it within the group's connect_timeout, or
   * when the job is over; PLAIT_ERR_INVALID for a malformed key, or when `capacity` is too small.
   * data and *size are unchanged. [thread: any; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get)(void *self, const char *key, void *data, uint64_t capacity, uint64_t *size);

  /* Since struct_size 40; may be NULL. The same for at most `seconds`, whatever connect_timeout is:
   * for a caller that has a reason of its own to stop waiting. *found receives 1, or 0 when no rank
   * has published the value by then; data and *size are then unchanged.
   * Errors: PLAIT_ERR_PEER when the job is over; PLAIT_ERR_INVALID as from get(). data, *size and
   * *found are unchanged. [thread: any; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_within)(void *self, const char *key, double seconds, void *data,
                                                       uint64_t capacity, uint64_t *size, uint32_t *found);
};

/* The description of a group for open(). Borrowed for that call, except the store and the device,
 * which outlive the group. */
typedef struct plait_comm_setup {
  size_t struct_size;
  const char *name;         /* "data[0]"; unique in the job, for messages */
  uint32_t rank;            /* r */
  uint32_t size;            /* R */
  const char *const *hosts; /* (R) host of each member; members with equal texts share a machine */
  const char *const *ranks; /* (R) name of each member for messages: "rank 3 (pipeline 1, data 0, tensor 1)" */
  const plait_store *store;
  double connect_timeout; /* seconds until all members must have connected */
  double timeout;         /* seconds for one call, from its start on this rank */

  /* Since struct_size 72. The open device whose memory the group communicates. NULL: host
   * memory. */
  plait_device *device;
} plait_comm_setup;

/* What the ranks of this machine are to exchange over a backend; for probe(). */
typedef struct plait_comm_needs {
  size_t struct_size;
  uint32_t ranks;  /* of the job on this machine */
  uint32_t groups; /* that they belong to, each counted once per rank */
  uint64_t bytes;  /* at most so many: of their operands in calls under way at once */
} plait_comm_needs;

/* The distance that a backend bridges. The engine takes the backend of the smallest reach that
 * connects all members. */
#define PLAIT_COMM_REACH_PROCESS 1u /* threads of one process */
#define PLAIT_COMM_REACH_HOST 2u    /* processes of one machine */
#define PLAIT_COMM_REACH_NETWORK 3u

/* Kind "plait.comm/1": a backend. Static. */
typedef struct plait_comm_item {
  size_t struct_size;
  const char *name; /* "gloo" */
  const char *help;
  const plait_option *options;
  uint32_t n_options;
  uint32_t reach;     /* PLAIT_COMM_REACH_* */
  const char *device; /* name of the device item whose memory it communicates; NULL: host memory */

  /* Connects this rank; returns when all members are connected. close() frees *out.
   * Errors: PLAIT_ERR_PEER naming the missing members after connect_timeout, or an error of
   * setup->store unchanged; PLAIT_ERR_CONFIG for options that do not suit this machine;
   * PLAIT_ERR_IO, PLAIT_ERR_MEMORY or another code for a fault of this rank. Nothing stays open or
   * allocated; the engine does not call close(). [thread: owner; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const plait_options *options,
                                                 const plait_comm_setup *setup, plait_comm **out);
  /* Leaves the group and frees it. All its calls have been released before.
   * [thread: owner; blocks: until its own threads have ended] */
  void(PLAIT_CALL *close)(plait_comm *comm);

  /* Checks a call and allocates the memory it needs; release() frees *out. desc is borrowed.
   * Errors: PLAIT_ERR_INVALID for an unknown kind or type, a peer that is not a member, or operands
   * that overlap where they must not; PLAIT_ERR_MEMORY. The group is unchanged.
   * [thread: owner; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *prepare)(plait_comm *comm, const plait_comm_desc *desc, plait_comm_call **out);
  /* Frees a call. Only after an error may it be in flight; the group then fails.
   * [thread: owner; blocks: no] */
  void(PLAIT_CALL *release)(plait_comm_call *call);

  /* Starts the call behind the work on the queue. It may be started again after finish(). Allocates
   * nothing and holds no lock while it waits. For host memory queue may be NULL: the call then
   * starts at once.
   * Errors: PLAIT_ERR_PEER with the reason when the group has failed or been aborted;
   * PLAIT_ERR_STATE when the call is in flight. The call is not started, and the engine does not
   * call finish() for it. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *start)(plait_comm_call *call, plait_queue *queue);
  /* Orders the queue's later work behind the call. For host memory it waits until the call has
   * ended and returns its error.
   * Errors: PLAIT_ERR_PEER naming the group, the kind and the missing members, after `timeout`,
   * when a member is lost, or when the group has been aborted; PLAIT_ERR_STATE when the call was
   * not started. The call is no longer in flight, and `out` is undefined. After PLAIT_ERR_PEER the
   * group has failed: every further call fails with the same text.
   * [thread: compute; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *finish)(plait_comm_call *call, plait_queue *queue);

  /* Ends the group on this rank: within milliseconds every call in flight fails with PLAIT_ERR_PEER
   * and this text, and so does every later one. The other members lose this rank no later than
   * that. May be called repeatedly: the first text stays. [thread: any; blocks: no] */
  void(PLAIT_CALL *abort)(plait_comm *comm, const char *text, uint64_t size);

  /* Since struct_size 112. NULL: the backend has no such memory. Allocates `bytes` of zeroed memory
   * for this rank that every member can access: device memory where `device` names a device,
   * otherwise host memory; aligned to 64, freed by close(). All members call it in the same order
   * with the same size; it counts as a call that is started and finished. *out becomes NULL on
   * every member if one of them cannot provide the memory, if bytes is 0, or if the group has one
   * member. A call may use such memory only in place, on all members and at the same offset. From
   * its start() to its finish(), and for ever once the group has failed, members may read and write
   * each other's operands.
   * Errors: PLAIT_ERR_PEER as from finish(), and when members ask for different sizes; any other
   * code for a fault of this rank. The group has failed. [thread: owner; blocks: until all members
   * have called] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *memory)(plait_comm *comm, uint64_t bytes, void **out);

  /* Since struct_size 120. NULL: the group never fails on its own. Returns NULL while the group
   * works, otherwise a new error with the reason. A launch of a graph that holds calls does not
   * call finish(), so the engine asks here while it waits for the queue and after every sync(). A
   * queue passes calls that have failed, so that sync() returns.
   * Errors: PLAIT_ERR_PEER as from finish(), each time; it may be the cause of an error that says
   * what was under way. [thread: compute; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *status)(plait_comm *comm);

  /* Since struct_size 128. NULL: the backend works wherever it reaches. Whether this machine has
   * what those ranks need. Every rank asks before it opens a group. If one rank is refused, no rank
   * uses the backend: with topology.backend = "auto" all take the next one, otherwise all fail.
   * Errors: PLAIT_ERR_MEMORY or PLAIT_ERR_IO with a text of what is needed, what was found, and how
   * to provide it. Nothing stays open or allocated. [thread: owner; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *probe)(const plait_host *host, const plait_options *options,
                                                  const plait_comm_needs *needs);

  /* Since struct_size 136. NULL: the ranks share no memory through the backend. For plans: *bytes
   * receives how much memory of the machine those ranks share at most, as probe() counts it, and
   * *available how much of it they could have now, UINT64_MAX where that is not known. Makes no
   * memory, and refuses nothing that does not fit.
   * Errors: PLAIT_ERR_INTERNAL. *bytes and *available are unchanged. [thread: any; blocks: on files] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *shared_memory)(const plait_host *host, const plait_options *options,
                                                          const plait_comm_needs *needs, uint64_t *bytes,
                                                          uint64_t *available);
} plait_comm_item;

#define PLAIT_KIND_COMM "plait.comm/1"

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_COMM_H */
