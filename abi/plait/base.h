/* plait/base.h - conventions of the whole ABI, and the words everything else uses.
 *
 * 1. C11, no C++. Integers have fixed width; sizes in bytes are uint64_t or size_t; no enum is ever stored; no struct is
 *    passed by value; no varargs; no callback may throw, exit, or print.
 * 2. Every struct that may grow begins with `size_t struct_size`, set by whoever made it to sizeof(the struct). A reader
 *    touches only the fields that fit. Structs are append-only; the smallest size ever accepted is that of ABI 1. In an
 *    array of such structs the stride is the struct_size of its first element. Structs without it never change.
 * 3. Strings are UTF-8. Texts in static tables (names, help) end in NUL. Texts that travel at run time come as pointer and
 *    length; PLAIT_NTS as the length says "NUL-terminated, count it yourself".
 * 4. A fallible call returns `plait_error *`: NULL means done. On error every out-parameter is untouched, and the error is
 *    the only thing to free. Releasing functions accept NULL and return nothing.
 * 5. Pointers: `in` is borrowed for the call unless said otherwise; `out` objects belong to the caller and are freed by the
 *    function named in the comment. Texts inside an object live as long as the object.
 * 6. Each function carries a tag [thread: ...; blocks: ...]. `any`: from any thread at any time. `owner`: from one
 *    thread at a time per object; engines and sessions answer a second one with PLAIT_ERR_STATE. `plan`: only inside the
 *    callback that handed out the context. `compute`: the thread that runs programs; must not allocate or lock. blocks: what
 *    the function may wait for; its own computing is no waiting. A tag holds for what follows it without a comment or an empty
 *    line between; that of a struct for all its functions without one of their own.
 */
#ifndef PLAIT_BASE_H
#define PLAIT_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI number. A break of this ABI raises it, renames the plugin entry symbol and the SONAME. Product versions are apart. */
#define PLAIT_ABI_VERSION 1

#if defined(_WIN32)
#define PLAIT_CALL __cdecl
#define PLAIT_EXPORT __declspec(dllexport)
#define PLAIT_API __declspec(dllimport)
#else
#define PLAIT_CALL
#define PLAIT_EXPORT __attribute__((visibility("default")))
#define PLAIT_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define PLAIT_MUST_USE __attribute__((warn_unused_result))
#else
#define PLAIT_MUST_USE
#endif

/* "The text ends in NUL" in place of a length. */
#define PLAIT_NTS UINT64_MAX

/* An error: code, text, and the chain of errors that caused it. Opaque; read it with plait_error_* (plait.h). */
typedef struct plait_error plait_error;

/* Error codes. They may gain members; treat an unknown one as PLAIT_ERR_INTERNAL. */
#define PLAIT_OK 0u
#define PLAIT_ERR_INVALID 1u       /* an argument of this call is wrong: the caller's bug */
#define PLAIT_ERR_CONFIG 2u        /* the experiment file, an override or an option is wrong: the user's text */
#define PLAIT_ERR_NOT_FOUND 3u     /* a file, item, parameter or value that was named does not exist */
#define PLAIT_ERR_UNIMPLEMENTED 4u /* this build, plugin or device does not offer it */
#define PLAIT_ERR_IO 5u            /* the operating system refused: path and reason are in the text */
#define PLAIT_ERR_DATA 6u          /* a file's content is malformed, truncated or fails its checksum */
#define PLAIT_ERR_PLUGIN 7u        /* a plugin could not be loaded, or broke its contract */
#define PLAIT_ERR_MEMORY 8u        /* out of memory; the text says how much was asked for */
#define PLAIT_ERR_NUMERIC 9u       /* non-finite values where the run may not go on */
#define PLAIT_ERR_CANCELLED 10u    /* stopped on request, state saved where the text says so */
#define PLAIT_ERR_STATE 11u        /* a call out of order, or from the wrong thread */
#define PLAIT_ERR_DEVICE 12u       /* a device is missing or failed */
#define PLAIT_ERR_PEER 13u         /* another rank died, hangs or disagrees */
#define PLAIT_ERR_INTERNAL 14u     /* a bug in the engine: please report the text */

/* Log levels. */
#define PLAIT_LOG_DEBUG 0u
#define PLAIT_LOG_INFO 1u
#define PLAIT_LOG_WARN 2u
#define PLAIT_LOG_ERROR 3u

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_BASE_H */
