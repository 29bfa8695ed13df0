/* What structs of ABI 1 have gained behind the members of layout_v1.c, in the same words. */
#include <stddef.h>

#include <plait/comm.h>
#include <plait/device.h>
#include <plait/plugin.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " changed its size")
#define AT(type, member, offset) \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " moved")

#if defined(__LP64__)
/* plugin.h */
SIZE(plait_job_place, 24);
AT(plait_job_place, struct_size, 0);
AT(plait_job_place, rank, 8);
AT(plait_job_place, world, 12);
AT(plait_job_place, local_rank, 16);
AT(plait_job_place, local_size, 20);

SIZE(plait_job_table, 16);
AT(plait_job_table, struct_size, 0);
AT(plait_job_table, get, 8);

/* device.h */
SIZE(plait_kernel_item, 80);
AT(plait_kernel_item, flags, 72);
AT(plait_kernel_item, reserved2, 76);

SIZE(plait_device_info, 56);
AT(plait_device_info, dl_type, 32);
AT(plait_device_info, dl_id, 36);
AT(plait_device_info, records, 40);
AT(plait_device_info, reserved, 44);
AT(plait_device_info, identity, 48);

SIZE(plait_device_item, 224);
AT(plait_device_item, probe, 200);
AT(plait_device_item, host_alloc, 208);
AT(plait_device_item, host_free, 216);

/* comm.h */
SIZE(plait_comm_setup, 72);
AT(plait_comm_setup, device, 64);

SIZE(plait_comm_item, 120);
AT(plait_comm_item, status, 112);
#endif

_Static_assert(PLAIT_KERNEL_HOST == 1, "flags of kernels moved");

extern int abi_layout_v2; /* ISO C wants something in a translation unit */
