/* plait/view.h - the memory of a session where it lies: parameters, outputs and results as DLPack
 * tensors on the session's device, and the order of a session's work and that of a host's streams.
 * For hosts that compute on the same device, such as a framework or kernels of their own. Such a
 * host feeds tensors of the device to plait_session_step() as well.
 *
 *   plait_view_options o = {sizeof o};
 *   o.stream = stream;                              (CUDA: the CUstream that will read)
 *   plait_session_view_of(session, "model.fc.weight", &o, &view);
 *   ...                                             (work on the stream reads view->tensor)
 *   plait_session_wait_stream(session, stream);     (the session's next step comes behind it)
 *   plait_session_step(session, feeds, n, NULL);    (feeds: written by that stream, too)
 *   view->deleter(view);
 *
 * Streams. A stream is a handle of the device's own API, for the device "cuda" a CUstream (a
 * cudaStream_t) of the GPU's primary context, which PyTorch, CuPy and the runtime API use as well;
 * also CUDA's handles 1 and 2 of default streams, as DLPack numbers them. It stays the host's: the
 * session keeps no reference. NULL names no stream.
 *
 * Order. All work of a session is on queues of its own, which wait for no stream by themselves. A
 * call has done its work when it returns, except inside the callback of plait_session_run(), where
 * the next step may be in flight. So a host orders two things: it calls plait_session_wait_stream()
 * behind work of its own that writes what the session reads (feeds, parameters through a view) or
 * still reads what the session writes; and inside that callback it asks for a new view, which waits
 * for the step in flight.
 *
 * Lifetime. A view keeps the memory that it shows, but not its content: the next call that computes
 * may change it. Its deleter may run before or after the session is closed, on any thread. The
 * tensor belongs to the view; it is contiguous and row-major. */
#ifndef PLAIT_VIEW_H
#define PLAIT_VIEW_H

#include <plait/base.h>
#include <plait/plait.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a view shows. */
#define PLAIT_VIEW_PARAMETER 0u /* a parameter, in its own dtype and shape */
/* A value to predict, as in plait_session_predict(): of all samples of a batch, in the order of the
 * last prediction or evaluated batch. Rows behind its n samples are padding. */
#define PLAIT_VIEW_OUTPUT 1u
/* Results of the last step: "MODEL.loss" (mean over the global batch, as plait_step_result.loss of
 * one model), "MODEL.grad_norm" and "MODEL.grad_norm.ADAPTER" (before clipping) are scalars (shape
 * ()); of a metric with train = true, and of one of several losses ("loss.NAME", "loss.ADAPTER"),
 * the sums of the step that its value is made of (n), as its item defines them. */
#define PLAIT_VIEW_RESULT 2u

typedef struct plait_view_options {
  size_t struct_size;
  uint32_t kind;          /* PLAIT_VIEW_* */
  uint32_t flags;         /* PLAIT_DL_READ_ONLY: the host will not write to it; others 0 */
  plait_dl_device device; /* where the host can use it; type 0: wherever it lies */
  void *stream;           /* that will read it; NULL: the call waits until the content is there */
} plait_view_options;

/* Returns a view, without a copy; its deleter frees it. options NULL: of a parameter, wherever it
 * lies. With a stream, later work of that stream waits for the session's, and the call does not.
 * A view of a parameter that is not read-only counts as one of plait_session_view(): while it lives
 * the host may write at any time, so that copies of parameters are made anew before each launch.
 * Outputs and results are read-only. Not collective.
 * Errors: PLAIT_ERR_NOT_FOUND when there is nothing of that name, with the nearest;
 * PLAIT_ERR_CONFIG when evaluate.outputs keeps no memory for an output; PLAIT_ERR_INVALID for
 * options that are not known; PLAIT_ERR_UNIMPLEMENTED when it lies on another device than the host
 * asks for, the parameter is distributed over ranks (plait_session_read() works for both), the
 * device has no type of DLPack, or it knows no streams; PLAIT_ERR_STATE; PLAIT_ERR_PEER; a code of
 * the device. The session is unchanged. [thread: owner; blocks: on the device, without a stream] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_view_of(plait_session *session, const char *name,
                                                                       const plait_view_options *options,
                                                                       plait_dl_managed **out);

/* Later work of the session waits for the work that is on the stream now; the call does not. Not
 * collective.
 * Errors: PLAIT_ERR_UNIMPLEMENTED when the device knows no streams; PLAIT_ERR_STATE; a code of the
 * device, for instance for a stream of another one: nothing waits. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_wait_stream(plait_session *session, void *stream);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_VIEW_H */
