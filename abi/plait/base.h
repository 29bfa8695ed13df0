/* plait/base.h - the conventions of the whole ABI, the error codes and the log levels.
 *
 * 1. The ABI is C11 without C++. Integers have a fixed width; byte counts are uint64_t or size_t.
 *    No enum is stored, no struct is passed by value, and no function takes varargs. No callback
 *    may throw, exit the process or print.
 * 2. Every struct that may grow begins with `size_t struct_size`. Its creator sets it to sizeof(the
 *    struct); its reader touches only the fields that fit in it. Fields are only ever appended, and
 *    the size of ABI 1 is the smallest that is accepted. In an array of such structs the stride is
 *    the struct_size of the first element. A struct without struct_size never changes.
 * 3. Strings are UTF-8. Texts in static tables (names, help) end in NUL, and so does every `const
 *    char *` parameter that has no length beside it. Other texts are passed as pointer and length;
 *    the length PLAIT_NTS means that the text ends in NUL.
 * 4. A fallible function returns `plait_error *`; NULL means success. After an error every
 *    out-parameter is unchanged, and the caller frees only the error, with plait_error_free(). Any
 *    fallible function can return PLAIT_ERR_INVALID (a required pointer is NULL, or a struct_size
 *    is smaller than in ABI 1), PLAIT_ERR_MEMORY or PLAIT_ERR_INTERNAL; the `Errors:` line of a
 *    function names its other codes and says what a failure changes. An error that a plugin
 *    returned keeps the plugin's code. Releasing functions accept NULL and return nothing.
 * 5. An input pointer is borrowed for the call unless its comment says otherwise. An object
 *    returned through an out-parameter belongs to the caller, who frees it with the function that
 *    the comment names. A text inside an object lives as long as the object.
 * 6. Every function has a tag [thread: ...; blocks: ...]. `any`: from any thread at any time.
 *    `owner`: from one thread at a time per object; engines and sessions refuse a second thread
 *    with PLAIT_ERR_STATE. `plan`: only inside the callback that received the context. `compute`:
 *    on the thread that runs programs; the function must not allocate memory or take a lock.
 *    `blocks` names everything the function may wait for; its own computation is not waiting. A tag
 *    applies to every declaration up to the next comment or blank line. A tag on a struct applies
 *    to all its function pointers that have none. */
#ifndef PLAIT_BASE_H
#define PLAIT_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI number. An incompatible change raises it and renames the plugin entry symbol and the
 * SONAME. It is independent of the product version. */
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

/* A length that means: the text ends in NUL. */
#define PLAIT_NTS UINT64_MAX

/* An error: a code, a text, and the chain of errors that caused it. Opaque; plait_error_code(),
 * plait_error_text() and plait_error_cause() of engine.h read it, plait_error_free() frees it. */
typedef struct plait_error plait_error;

/* Error codes. New ones may be added; treat an unknown code as PLAIT_ERR_INTERNAL. */
#define PLAIT_OK 0u
#define PLAIT_ERR_INVALID 1u       /* an argument of the call is wrong: a bug in the caller */
#define PLAIT_ERR_CONFIG 2u        /* the experiment file, an override or a setting is wrong */
#define PLAIT_ERR_NOT_FOUND 3u     /* a named file, item, parameter or value does not exist */
#define PLAIT_ERR_UNIMPLEMENTED 4u /* this build, plugin or device does not support it */
#define PLAIT_ERR_IO 5u            /* the operating system refused; the text has path and reason */
#define PLAIT_ERR_DATA 6u          /* data is malformed, truncated, corrupt or out of range */
#define PLAIT_ERR_PLUGIN 7u        /* a plugin could not be loaded or violated the ABI */
#define PLAIT_ERR_MEMORY 8u        /* out of memory; the text says how much was requested */
#define PLAIT_ERR_NUMERIC 9u       /* training cannot continue because of non-finite values */
#define PLAIT_ERR_CANCELLED 10u    /* stopped on request; the text names the checkpoint, if any */
#define PLAIT_ERR_STATE 11u        /* a call in the wrong order or on the wrong thread */
#define PLAIT_ERR_DEVICE 12u       /* a device is missing or has failed */
#define PLAIT_ERR_PEER 13u         /* another rank died, hangs, failed or disagrees */
#define PLAIT_ERR_INTERNAL 14u     /* a bug in the engine; please report the text */

/* Log levels. */
#define PLAIT_LOG_DEBUG 0u
#define PLAIT_LOG_INFO 1u
#define PLAIT_LOG_WARN 2u
#define PLAIT_LOG_ERROR 3u

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_BASE_H */
