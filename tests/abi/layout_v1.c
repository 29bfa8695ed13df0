/* The layout of every struct of ABI 1, as shipped, on machines with 64-bit longs and pointers. This
 * file never changes: a struct that grows gets a new file layout_v2.c for its new members and keeps
 * its old ones at their old offsets. Sizes of structs that begin with struct_size may grow: then
 * SIZE becomes AT_LEAST. */
#include <stddef.h>

#include <plait/base.h>
#include <plait/build.h>
#include <plait/comm.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/map.h>
#include <plait/op.h>
#include <plait/optimizer.h>
#include <plait/option.h>
#include <plait/plait.h>
#include <plait/plugin.h>
#include <plait/tensor.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " changed its size")
#define AT_LEAST(type, bytes) _Static_assert(sizeof(type) >= (bytes), #type " lost members")
#define AT(type, member, offset) \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " moved")

#if defined(__LP64__)
/* option.h */
SIZE(plait_option, 72);
AT(plait_option, struct_size, 0);
AT(plait_option, name, 8);
AT(plait_option, type, 16);
AT(plait_option, flags, 20);
AT(plait_option, default_value, 24);
AT(plait_option, min, 32);
AT(plait_option, max, 40);
AT(plait_option, choices, 48);
AT(plait_option, unit, 56);
AT(plait_option, help, 64);

SIZE(plait_options, 8);
AT(plait_options, table, 0);

AT(plait_options_table, struct_size, 0);
AT(plait_options_table, get_bool, 8);
AT(plait_options_table, get_int, 16);
AT(plait_options_table, get_real, 24);
AT(plait_options_table, get_text, 32);
AT(plait_options_table, get_ints, 40);
AT(plait_options_table, get_reals, 48);
AT(plait_options_table, get_texts, 56);
AT(plait_options_table, origin, 64);

/* tensor.h */
SIZE(plait_shape, 72);
AT(plait_shape, dtype, 0);
AT(plait_shape, ndim, 4);
AT(plait_shape, dims, 8);

SIZE(plait_dl_device, 8);
AT(plait_dl_device, type, 0);
AT(plait_dl_device, id, 4);

SIZE(plait_dl_dtype, 4);
AT(plait_dl_dtype, code, 0);
AT(plait_dl_dtype, bits, 1);
AT(plait_dl_dtype, lanes, 2);

SIZE(plait_dl_tensor, 48);
AT(plait_dl_tensor, data, 0);
AT(plait_dl_tensor, device, 8);
AT(plait_dl_tensor, ndim, 16);
AT(plait_dl_tensor, dtype, 20);
AT(plait_dl_tensor, shape, 24);
AT(plait_dl_tensor, strides, 32);
AT(plait_dl_tensor, byte_offset, 40);

SIZE(plait_dl_managed, 80);
AT(plait_dl_managed, major, 0);
AT(plait_dl_managed, minor, 4);
AT(plait_dl_managed, manager_ctx, 8);
AT(plait_dl_managed, deleter, 16);
AT(plait_dl_managed, flags, 24);
AT(plait_dl_managed, tensor, 32);

/* build.h */
SIZE(plait_attr, 48);
AT(plait_attr, name, 0);
AT(plait_attr, type, 8);
AT(plait_attr, n, 12);
AT(plait_attr, i, 16);
AT(plait_attr, f, 24);
AT(plait_attr, text, 32);
AT(plait_attr, ints, 40);

AT_LEAST(plait_parameter, 112);
AT(plait_parameter, struct_size, 0);
AT(plait_parameter, name, 8);
AT(plait_parameter, shape, 16);
AT(plait_parameter, init, 88);
AT(plait_parameter, shard_dim, 92);
AT(plait_parameter, init_a, 96);
AT(plait_parameter, init_b, 104);

SIZE(plait_builder, 8);
AT(plait_builder, table, 0);

AT_LEAST(plait_build_table, 88);
AT(plait_build_table, struct_size, 0);
AT(plait_build_table, op, 8);
AT(plait_build_table, constant, 16);
AT(plait_build_table, shape, 24);
AT(plait_build_table, parameter, 32);
AT(plait_build_table, named, 40);
AT(plait_build_table, training, 48);
AT(plait_build_table, scope, 56);
AT(plait_build_table, state, 64);
AT(plait_build_table, set_state, 72);
AT(plait_build_table, fail, 80);

/* map.h */
SIZE(plait_map_instr, 24);
AT(plait_map_instr, op, 0);
AT(plait_map_instr, a, 4);
AT(plait_map_instr, b, 8);
AT(plait_map_instr, c, 12);
AT(plait_map_instr, value, 16);

SIZE(plait_map, 40);
AT(plait_map, struct_size, 0);
AT(plait_map, n_inputs, 8);
AT(plait_map, n_instrs, 12);
AT(plait_map, n_outputs, 16);
AT(plait_map, reserved, 20);
AT(plait_map, instrs, 24);
AT(plait_map, outputs, 32);

/* plugin.h */
SIZE(plait_host, 72);
AT(plait_host, struct_size, 0);
AT(plait_host, abi, 8);
AT(plait_host, reserved, 12);
AT(plait_host, error_new, 16);
AT(plait_host, error_code, 24);
AT(plait_host, error_text, 32);
AT(plait_host, error_free, 40);
AT(plait_host, log, 48);
AT(plait_host, add, 56);
AT(plait_host, extension, 64);

SIZE(plait_plugin, 64);
AT(plait_plugin, struct_size, 0);
AT(plait_plugin, abi, 8);
AT(plait_plugin, reserved, 12);
AT(plait_plugin, name, 16);
AT(plait_plugin, version, 24);
AT(plait_plugin, license, 32);
AT(plait_plugin, summary, 40);
AT(plait_plugin, open, 48);
AT(plait_plugin, close, 56);

/* op.h */
SIZE(plait_op_desc, 72);
AT(plait_op_desc, struct_size, 0);
AT(plait_op_desc, op, 8);
AT(plait_op_desc, n_inputs, 16);
AT(plait_op_desc, n_outputs, 20);
AT(plait_op_desc, n_attrs, 24);
AT(plait_op_desc, threads, 28);
AT(plait_op_desc, inputs, 32);
AT(plait_op_desc, outputs, 40);
AT(plait_op_desc, attrs, 48);
AT(plait_op_desc, alias, 56);
AT(plait_op_desc, map, 64);

SIZE(plait_op_use, 64);
AT(plait_op_use, struct_size, 0);
AT(plait_op_use, n_inputs, 8);
AT(plait_op_use, n_outputs, 12);
AT(plait_op_use, n_attrs, 16);
AT(plait_op_use, reserved, 20);
AT(plait_op_use, inputs, 24);
AT(plait_op_use, outputs, 32);
AT(plait_op_use, d_outputs, 40);
AT(plait_op_use, needs_grad, 48);
AT(plait_op_use, attrs, 56);

AT_LEAST(plait_op_item, 56);
AT(plait_op_item, struct_size, 0);
AT(plait_op_item, name, 8);
AT(plait_op_item, help, 16);
AT(plait_op_item, n_outputs, 24);
AT(plait_op_item, reserved, 28);
AT(plait_op_item, infer, 32);
AT(plait_op_item, gradient, 40);
AT(plait_op_item, flops, 48);
AT(plait_op_item, attrs, 56);
AT(plait_op_item, n_attrs, 64);
AT(plait_op_item, reserved2, 68);
AT(plait_op_item, shard, 72);

SIZE(plait_placement, 16);
AT(plait_placement, kind, 0);
AT(plait_placement, dim, 4);
AT(plait_placement, reduction, 8);
AT(plait_placement, reserved, 12);

SIZE(plait_shard_use, 56);
AT(plait_shard_use, struct_size, 0);
AT(plait_shard_use, op, 8);
AT(plait_shard_use, n_axes, 16);
AT(plait_shard_use, keeps_zeros, 20);
AT(plait_shard_use, ranks, 24);
AT(plait_shard_use, have, 32);
AT(plait_shard_use, inputs, 40);
AT(plait_shard_use, outputs, 48);

/* layer.h */
SIZE(plait_layer_item, 56);
AT(plait_layer_item, struct_size, 0);
AT(plait_layer_item, name, 8);
AT(plait_layer_item, help, 16);
AT(plait_layer_item, options, 24);
AT(plait_layer_item, n_options, 32);
AT(plait_layer_item, min_inputs, 36);
AT(plait_layer_item, max_inputs, 40);
AT(plait_layer_item, n_outputs, 44);
AT(plait_layer_item, build, 48);

SIZE(plait_loss_item, 56);
AT(plait_loss_item, struct_size, 0);
AT(plait_loss_item, name, 8);
AT(plait_loss_item, help, 16);
AT(plait_loss_item, options, 24);
AT(plait_loss_item, n_options, 32);
AT(plait_loss_item, min_inputs, 36);
AT(plait_loss_item, max_inputs, 40);
AT(plait_loss_item, reserved, 44);
AT(plait_loss_item, build, 48);

SIZE(plait_metric_item, 72);
AT(plait_metric_item, struct_size, 0);
AT(plait_metric_item, name, 8);
AT(plait_metric_item, help, 16);
AT(plait_metric_item, options, 24);
AT(plait_metric_item, n_options, 32);
AT(plait_metric_item, min_inputs, 36);
AT(plait_metric_item, max_inputs, 40);
AT(plait_metric_item, n_state, 44);
AT(plait_metric_item, higher_is_better, 48);
AT(plait_metric_item, reserved, 52);
AT(plait_metric_item, build, 56);
AT(plait_metric_item, finish, 64);

/* optimizer.h */
AT_LEAST(plait_update, 32);
AT(plait_update, struct_size, 0);
AT(plait_update, parameter, 8);
AT(plait_update, gradient, 12);
AT(plait_update, learning_rate, 16);
AT(plait_update, schedule_factor, 20);
AT(plait_update, step, 24);
AT(plait_update, weight_decay, 28);

AT_LEAST(plait_optimizer_item, 64);
AT(plait_optimizer_item, struct_size, 0);
AT(plait_optimizer_item, name, 8);
AT(plait_optimizer_item, help, 16);
AT(plait_optimizer_item, options, 24);
AT(plait_optimizer_item, n_options, 32);
AT(plait_optimizer_item, reserved, 36);
AT(plait_optimizer_item, default_learning_rate, 40);
AT(plait_optimizer_item, default_weight_decay, 48);
AT(plait_optimizer_item, build, 56);

SIZE(plait_schedule_item, 64);
AT(plait_schedule_item, struct_size, 0);
AT(plait_schedule_item, name, 8);
AT(plait_schedule_item, help, 16);
AT(plait_schedule_item, options, 24);
AT(plait_schedule_item, n_options, 32);
AT(plait_schedule_item, reserved, 36);
AT(plait_schedule_item, open, 40);
AT(plait_schedule_item, factor, 48);
AT(plait_schedule_item, close, 56);

/* dataset.h */
SIZE(plait_field, 88);
AT(plait_field, name, 0);
AT(plait_field, role, 8);
AT(plait_field, reserved, 12);
AT(plait_field, shape, 16);

SIZE(plait_dataset_info, 48);
AT(plait_dataset_info, struct_size, 0);
AT(plait_dataset_info, n_samples, 8);
AT(plait_dataset_info, fields, 16);
AT(plait_dataset_info, n_fields, 24);
AT(plait_dataset_info, reserved, 28);
AT(plait_dataset_info, host_bytes, 32);
AT(plait_dataset_info, fingerprint, 40);

AT(plait_dataset_item, struct_size, 0);
AT(plait_dataset_item, name, 8);
AT(plait_dataset_item, help, 16);
AT(plait_dataset_item, options, 24);
AT(plait_dataset_item, n_options, 32);
AT(plait_dataset_item, reserved, 36);
AT(plait_dataset_item, open, 40);
AT(plait_dataset_item, info, 48);
AT(plait_dataset_item, read, 56);
AT(plait_dataset_item, close, 64);

/* device.h */
SIZE(plait_choice, 32);
AT(plait_choice, struct_size, 0);
AT(plait_choice, workspace, 8);
AT(plait_choice, detail, 16);
AT(plait_choice, detail_size, 24);

AT_LEAST(plait_kernel_item, 72);
AT(plait_kernel_item, struct_size, 0);
AT(plait_kernel_item, name, 8);
AT(plait_kernel_item, op, 16);
AT(plait_kernel_item, device, 24);
AT(plait_kernel_item, priority, 32);
AT(plait_kernel_item, reserved, 36);
AT(plait_kernel_item, select, 40);
AT(plait_kernel_item, prepare, 48);
AT(plait_kernel_item, run, 56);
AT(plait_kernel_item, release, 64);

AT_LEAST(plait_device_info, 32);
AT(plait_device_info, struct_size, 0);
AT(plait_device_info, host_visible, 8);
AT(plait_device_info, threads, 12);
AT(plait_device_info, memory_bytes, 16);
AT(plait_device_info, summary, 24);

AT_LEAST(plait_device_item, 200);
AT(plait_device_item, struct_size, 0);
AT(plait_device_item, name, 8);
AT(plait_device_item, help, 16);
AT(plait_device_item, options, 24);
AT(plait_device_item, n_options, 32);
AT(plait_device_item, priority, 36);
AT(plait_device_item, threads, 40);
AT(plait_device_item, open, 48);
AT(plait_device_item, close, 56);
AT(plait_device_item, info, 64);
AT(plait_device_item, alloc, 72);
AT(plait_device_item, free, 80);
AT(plait_device_item, queue_open, 88);
AT(plait_device_item, queue_close, 96);
AT(plait_device_item, enqueue, 104);
AT(plait_device_item, copy, 112);
AT(plait_device_item, sync, 120);
AT(plait_device_item, event_open, 128);
AT(plait_device_item, event_close, 136);
AT(plait_device_item, event_record, 144);
AT(plait_device_item, event_wait, 152);
AT(plait_device_item, event_query, 160);
AT(plait_device_item, capture_begin, 168);
AT(plait_device_item, capture_end, 176);
AT(plait_device_item, graph_launch, 184);
AT(plait_device_item, graph_close, 192);

/* comm.h */
SIZE(plait_comm_desc, 48);
AT(plait_comm_desc, struct_size, 0);
AT(plait_comm_desc, kind, 8);
AT(plait_comm_desc, dtype, 12);
AT(plait_comm_desc, reduction, 16);
AT(plait_comm_desc, peer, 20);
AT(plait_comm_desc, n, 24);
AT(plait_comm_desc, in, 32);
AT(plait_comm_desc, out, 40);

AT_LEAST(plait_store, 32);
AT(plait_store, struct_size, 0);
AT(plait_store, self, 8);
AT(plait_store, set, 16);
AT(plait_store, get, 24);

AT_LEAST(plait_comm_setup, 64);
AT(plait_comm_setup, struct_size, 0);
AT(plait_comm_setup, name, 8);
AT(plait_comm_setup, rank, 16);
AT(plait_comm_setup, size, 20);
AT(plait_comm_setup, hosts, 24);
AT(plait_comm_setup, ranks, 32);
AT(plait_comm_setup, store, 40);
AT(plait_comm_setup, connect_timeout, 48);
AT(plait_comm_setup, timeout, 56);

AT_LEAST(plait_comm_item, 112);
AT(plait_comm_item, struct_size, 0);
AT(plait_comm_item, name, 8);
AT(plait_comm_item, help, 16);
AT(plait_comm_item, options, 24);
AT(plait_comm_item, n_options, 32);
AT(plait_comm_item, reach, 36);
AT(plait_comm_item, device, 40);
AT(plait_comm_item, open, 48);
AT(plait_comm_item, close, 56);
AT(plait_comm_item, prepare, 64);
AT(plait_comm_item, release, 72);
AT(plait_comm_item, start, 80);
AT(plait_comm_item, finish, 88);
AT(plait_comm_item, abort, 96);
AT(plait_comm_item, memory, 104);

/* engine.h, session.h */
AT_LEAST(plait_engine_options, 56);
AT(plait_engine_options, struct_size, 0);
AT(plait_engine_options, log, 8);
AT(plait_engine_options, log_user, 16);
AT(plait_engine_options, log_level, 24);
AT(plait_engine_options, no_default_plugins, 28);
AT(plait_engine_options, plugin_paths, 32);
AT(plait_engine_options, n_plugin_paths, 40);
AT(plait_engine_options, keep_plugins_loaded, 44);
AT(plait_engine_options, data_folder, 48);

SIZE(plait_experiment_options, 24);
AT(plait_experiment_options, struct_size, 0);
AT(plait_experiment_options, overrides, 8);
AT(plait_experiment_options, n_overrides, 16);
AT(plait_experiment_options, reserved, 20);

SIZE(plait_job_options, 64);
AT(plait_job_options, struct_size, 0);
AT(plait_job_options, rank, 8);
AT(plait_job_options, size, 12);
AT(plait_job_options, local_rank, 16);
AT(plait_job_options, local_size, 20);
AT(plait_job_options, rendezvous, 24);
AT(plait_job_options, secret, 32);
AT(plait_job_options, secret_size, 40);
AT(plait_job_options, connect_timeout, 48);
AT(plait_job_options, timeout, 56);

AT_LEAST(plait_step_result, 72);
AT(plait_step_result, struct_size, 0);
AT(plait_step_result, step, 8);
AT(plait_step_result, epoch, 16);
AT(plait_step_result, samples, 24);
AT(plait_step_result, loss, 32);
AT(plait_step_result, grad_norm, 40);
AT(plait_step_result, learning_rate, 48);
AT(plait_step_result, seconds, 56);
AT(plait_step_result, skipped, 64);
AT(plait_step_result, finished, 68);

AT_LEAST(plait_session_options, 56);
AT(plait_session_options, struct_size, 0);
AT(plait_session_options, run_dir, 8);
AT(plait_session_options, no_files, 16);
AT(plait_session_options, resume, 20);
AT(plait_session_options, progress, 24);
AT(plait_session_options, reserved, 28);
AT(plait_session_options, on_step, 32);
AT(plait_session_options, on_step_user, 40);
AT(plait_session_options, command, 48);

SIZE(plait_feed, 24);
AT(plait_feed, struct_size, 0);
AT(plait_feed, field, 8);
AT(plait_feed, tensor, 16);

#endif

/* Tables that never grow and ids that never change. */
_Static_assert(PLAIT_F32 == 1 && PLAIT_F64 == 2 && PLAIT_BF16 == 3 && PLAIT_F16 == 4,
               "element types moved");
_Static_assert(PLAIT_I32 == 5 && PLAIT_I64 == 6 && PLAIT_U8 == 7 && PLAIT_BOOL == 8,
               "element types moved");
_Static_assert(PLAIT_OPT_BOOL == 1 && PLAIT_OPT_PATH == 8, "option types moved");
_Static_assert(PLAIT_COMM_BARRIER == 1 && PLAIT_COMM_RECEIVE == 8 && PLAIT_COMM_MIN == 3,
               "kinds of calls moved");
_Static_assert(PLAIT_ERR_INVALID == 1 && PLAIT_ERR_INTERNAL == 14, "error codes moved");
_Static_assert(PLAIT_ABI_VERSION == 1, "a new ABI needs a new file of layouts");

extern int abi_layout_v1; /* ISO C wants something in a translation unit */
