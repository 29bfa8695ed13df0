// What tests tell the emulated NCCL. In PLAIT_NCCL_EMULATOR, or by the function:
//   version=22000       the version that it says it has
//   init=R:E            rank R cannot connect: error E (an ncclResult_t)
//   never=R             rank R waits for ever while it connects
//   hang=R:N            the Nth exchange of rank R, counted from 0 in each communicator, hangs
//   error=R:N:E         the communicator reports error E when rank R comes to its Nth exchange
//   fail=ENTRY:N:E      the Nth call of an entry point does nothing and returns error E; calls are
//                       counted from 1 over all ranks of the process, since the faults were set
// Several are separated by blanks. Ranks are those of communicators, of which messages have their
// own.
#pragma once

extern "C" __attribute__((visibility("default"))) void nccl_emulator_configure(const char* faults);
// Whether the call that fail= names has come.
extern "C" __attribute__((visibility("default"))) bool nccl_emulator_has_failed();
