/* What structs of ABI 1 have gained behind the members of layout_v1.c, in the same words. */
#include <stddef.h>

#include <plait/adapters.h>
#include <plait/build.h>
#include <plait/checkpoint.h>
#include <plait/comm.h>
#include <plait/cuda.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/encode.h>
#include <plait/format.h>
#include <plait/generate.h>
#include <plait/optimizer.h>
#include <plait/plait.h>
#include <plait/plugin.h>
#include <plait/tokenizer.h>
#include <plait/view.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " changed its size")
#define AT(type, member, offset) \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " moved")

#if defined(__LP64__)
/* models.h, session.h */
SIZE(plait_export_options, 64);
AT(plait_export_options, struct_size, 0);
AT(plait_export_options, max_shard_bytes, 8);
AT(plait_export_options, names, 16);
AT(plait_export_options, n_names, 24);
AT(plait_export_options, reserved, 28);
AT(plait_export_options, format, 32);
AT(plait_export_options, format_size, 40);
AT(plait_export_options, experiment, 48);
AT(plait_export_options, dtype, 56);
AT(plait_export_options, reserved2, 60);

SIZE(plait_prediction, 24);
AT(plait_prediction, value, 0);
AT(plait_prediction, out, 8);
AT(plait_prediction, bytes, 16);

/* checkpoint.h */
SIZE(plait_adapter_source, 32);
AT(plait_adapter_source, struct_size, 0);
AT(plait_adapter_source, path, 8);
AT(plait_adapter_source, from, 16);
AT(plait_adapter_source, format, 24);

SIZE(plait_convert_options, 40);
AT(plait_convert_options, struct_size, 0);
AT(plait_convert_options, max_shard_bytes, 8);
AT(plait_convert_options, shards, 16);
AT(plait_convert_options, no_optimizer, 20);
AT(plait_convert_options, progress, 24);
AT(plait_convert_options, user, 32);

/* encode.h */
SIZE(plait_chat_message, 24);
AT(plait_chat_message, role, 0);
AT(plait_chat_message, text, 8);
AT(plait_chat_message, size, 16);

/* generate.h */
SIZE(plait_generator_options, 16);
AT(plait_generator_options, struct_size, 0);
AT(plait_generator_options, tokenizer, 8);

SIZE(plait_sampling, 56);
AT(plait_sampling, struct_size, 0);
AT(plait_sampling, temperature, 8);
AT(plait_sampling, top_p, 16);
AT(plait_sampling, min_p, 24);
AT(plait_sampling, repetition_penalty, 32);
AT(plait_sampling, top_k, 40);
AT(plait_sampling, seed, 48);

SIZE(plait_prompt, 152);
AT(plait_prompt, struct_size, 0);
AT(plait_prompt, ids, 8);
AT(plait_prompt, n_ids, 16);
AT(plait_prompt, text, 24);
AT(plait_prompt, size, 32);
AT(plait_prompt, plain, 40);
AT(plait_prompt, unwrapped, 44);
AT(plait_prompt, sampling, 48);
AT(plait_prompt, max_tokens, 56);
AT(plait_prompt, min_tokens, 64);
AT(plait_prompt, end_ids, 72);
AT(plait_prompt, n_end_ids, 80);
AT(plait_prompt, stop, 88);
AT(plait_prompt, n_stop, 96);
AT(plait_prompt, log_probabilities, 104);
AT(plait_prompt, reserved, 108);
AT(plait_prompt, best, 112);
AT(plait_prompt, messages, 120);
AT(plait_prompt, n_messages, 128);
AT(plait_prompt, chat_template, 136);
AT(plait_prompt, adapter, 144);

SIZE(plait_token, 88);
AT(plait_token, struct_size, 0);
AT(plait_token, sequence, 8);
AT(plait_token, index, 16);
AT(plait_token, id, 24);
AT(plait_token, finish, 28);
AT(plait_token, text, 32);
AT(plait_token, size, 40);
AT(plait_token, log_probability, 48);
AT(plait_token, best_ids, 56);
AT(plait_token, best_log_probabilities, 64);
AT(plait_token, n_best, 72);
AT(plait_token, n_reused, 80);

SIZE(plait_metric_value, 16);
AT(plait_metric_value, name, 0);
AT(plait_metric_value, value, 8);

SIZE(plait_step_result, 168);
AT(plait_step_result, tokens, 72);
AT(plait_step_result, skipped_steps, 80);
AT(plait_step_result, grad_norm_clipped, 88);
AT(plait_step_result, mean_loss, 96);
AT(plait_step_result, samples_per_s, 104);
AT(plait_step_result, tokens_per_s, 112);
AT(plait_step_result, tflops, 120);
AT(plait_step_result, tflops_full, 128);
AT(plait_step_result, mfu, 136);
AT(plait_step_result, mfu_full, 144);
AT(plait_step_result, metrics, 152);
AT(plait_step_result, n_metrics, 160);
AT(plait_step_result, reserved, 164);

SIZE(plait_engine_options, 72);
AT(plait_engine_options, on_late, 56);
AT(plait_engine_options, on_late_user, 64);

SIZE(plait_session_options, 64);
AT(plait_session_options, stop_after, 56);

SIZE(plait_profile_options, 40);
AT(plait_profile_options, struct_size, 0);
AT(plait_profile_options, entry_point, 8);
AT(plait_profile_options, dataset, 16);
AT(plait_profile_options, runs, 24);
AT(plait_profile_options, warm_up, 28);
AT(plait_profile_options, trace, 32);
AT(plait_profile_options, reserved, 36);

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

/* option.h */
SIZE(plait_options_table, 80);
AT(plait_options_table, get_item, 72);

/* tokenizer.h */
SIZE(plait_tokenizers_table, 48);
AT(plait_tokenizers_table, struct_size, 0);
AT(plait_tokenizers_table, open, 8);
AT(plait_tokenizers_table, info, 16);
AT(plait_tokenizers_table, encode, 24);
AT(plait_tokenizers_table, decode, 32);
AT(plait_tokenizers_table, close, 40);

/* dataset.h */
SIZE(plait_datasets_table, 56);
AT(plait_datasets_table, struct_size, 0);
AT(plait_datasets_table, open, 8);
AT(plait_datasets_table, info, 16);
AT(plait_datasets_table, read, 24);
AT(plait_datasets_table, close, 32);

/* build.h */
SIZE(plait_parameter, 128);
AT(plait_parameter, shard_unit, 112);
AT(plait_parameter, flags, 120);
AT(plait_parameter, reserved, 124);

/* format.h */
SIZE(plait_tensor_place, 40);
AT(plait_tensor_place, parameter, 0);
AT(plait_tensor_place, tensor, 8);
AT(plait_tensor_place, row, 16);
AT(plait_tensor_place, n_rows, 24);
AT(plait_tensor_place, flags, 32);
AT(plait_tensor_place, reserved, 36);

SIZE(plait_format_output, 72);
AT(plait_format_output, struct_size, 0);
AT(plait_format_output, user, 8);
AT(plait_format_output, file, 16);
AT(plait_format_output, copy, 24);
AT(plait_format_output, place, 32);
AT(plait_format_output, ignore, 40);
AT(plait_format_output, weights, 48);
AT(plait_format_output, block, 56);
AT(plait_format_output, slices, 64);

SIZE(plait_tensor_block, 48);
AT(plait_tensor_block, parameter, 0);
AT(plait_tensor_block, tensor, 8);
AT(plait_tensor_block, row, 16);
AT(plait_tensor_block, column, 24);
AT(plait_tensor_block, rows, 32);
AT(plait_tensor_block, columns, 40);

SIZE(plait_tensor_slices, 48);
AT(plait_tensor_slices, parameter, 0);
AT(plait_tensor_slices, tensors, 8);
AT(plait_tensor_slices, n_tensors, 16);
AT(plait_tensor_slices, row, 24);
AT(plait_tensor_slices, n_rows, 32);
AT(plait_tensor_slices, flags, 40);
AT(plait_tensor_slices, reserved, 44);

SIZE(plait_format_item, 56);
AT(plait_format_item, struct_size, 0);
AT(plait_format_item, name, 8);
AT(plait_format_item, help, 16);
AT(plait_format_item, options, 24);
AT(plait_format_item, n_options, 32);
AT(plait_format_item, reserved, 36);
AT(plait_format_item, read, 40);
AT(plait_format_item, write, 48);

/* tokenizer.h */
SIZE(plait_special_token, 24);
AT(plait_special_token, text, 0);
AT(plait_special_token, text_size, 8);
AT(plait_special_token, id, 16);
AT(plait_special_token, role, 20);

SIZE(plait_tokenizer_info, 40);
AT(plait_tokenizer_info, struct_size, 0);
AT(plait_tokenizer_info, flags, 8);
AT(plait_tokenizer_info, vocabulary, 12);
AT(plait_tokenizer_info, specials, 16);
AT(plait_tokenizer_info, n_specials, 24);
AT(plait_tokenizer_info, reserved, 28);
AT(plait_tokenizer_info, fingerprint, 32);

SIZE(plait_tokenizer_item, 80);
AT(plait_tokenizer_item, struct_size, 0);
AT(plait_tokenizer_item, name, 8);
AT(plait_tokenizer_item, help, 16);
AT(plait_tokenizer_item, options, 24);
AT(plait_tokenizer_item, n_options, 32);
AT(plait_tokenizer_item, reserved, 36);
AT(plait_tokenizer_item, open, 40);
AT(plait_tokenizer_item, info, 48);
AT(plait_tokenizer_item, encode, 56);
AT(plait_tokenizer_item, decode, 64);
AT(plait_tokenizer_item, close, 72);

/* device.h */
SIZE(plait_algorithm, 64);
AT(plait_algorithm, words, 0);
SIZE(plait_kernel_item, 96);
AT(plait_kernel_item, tune, 80);
AT(plait_kernel_item, adopt, 88);
AT(plait_kernel_item, flags, 72);
AT(plait_kernel_item, reserved2, 76);

SIZE(plait_device_info, 64);
AT(plait_device_info, dl_type, 32);
AT(plait_device_info, dl_id, 36);
AT(plait_device_info, records, 40);
AT(plait_device_info, reserved, 44);
AT(plait_device_info, identity, 48);
AT(plait_device_info, by_calls, 56);
AT(plait_device_info, reserved2, 60);

SIZE(plait_device_item, 240);
SIZE(plait_dataset_item, 96);
AT(plait_dataset_item, text_of, 72);
AT(plait_dataset_item, read_epoch, 80);
AT(plait_dataset_item, open_metadata, 88);
AT(plait_datasets_table, text_of, 40);
AT(plait_datasets_table, read_epoch, 48);
AT(plait_device_item, peak_flops, 224);
AT(plait_device_item, order, 232);
AT(plait_device_item, probe, 200);
AT(plait_device_item, host_alloc, 208);
AT(plait_device_item, host_free, 216);

/* build.h */
SIZE(plait_state, 128);
AT(plait_state, struct_size, 0);
AT(plait_state, name, 8);
AT(plait_state, shape, 16);
AT(plait_state, initial, 88);
AT(plait_state, parameter_dims, 96);

SIZE(plait_build_table, 104);
AT(plait_build_table, tensor_state, 88);
AT(plait_build_table, add_loss, 96);

/* optimizer.h */
SIZE(plait_parameter_info, 96);
AT(plait_parameter_info, struct_size, 0);
AT(plait_parameter_info, name, 8);
AT(plait_parameter_info, shape, 16);
AT(plait_parameter_info, flags, 88);
AT(plait_parameter_info, reserved, 92);

SIZE(plait_update, 48);
AT(plait_update, scope, 32);
AT(plait_update, reserved, 36);
AT(plait_update, info, 40);

SIZE(plait_optimizer_item, 72);
AT(plait_optimizer_item, scope, 64);

/* cuda.h */
SIZE(plait_cuda_device, 24);
AT(plait_cuda_device, struct_size, 0);
AT(plait_cuda_device, ordinal, 8);
AT(plait_cuda_device, reserved, 12);
AT(plait_cuda_device, context, 16);

SIZE(plait_cuda_queue, 24);
AT(plait_cuda_queue, struct_size, 0);
AT(plait_cuda_queue, stream, 8);
AT(plait_cuda_queue, device, 16);

/* view.h */
SIZE(plait_view_options, 32);
AT(plait_view_options, struct_size, 0);
AT(plait_view_options, kind, 8);
AT(plait_view_options, flags, 12);
AT(plait_view_options, device, 16);
AT(plait_view_options, stream, 24);

/* comm.h */
SIZE(plait_store, 40);
AT(plait_store, get_within, 32);

SIZE(plait_comm_setup, 72);
AT(plait_comm_setup, device, 64);

SIZE(plait_comm_needs, 24);
AT(plait_comm_needs, struct_size, 0);
AT(plait_comm_needs, ranks, 8);
AT(plait_comm_needs, groups, 12);
AT(plait_comm_needs, bytes, 16);

SIZE(plait_comm_item, 136);
AT(plait_comm_item, status, 112);
AT(plait_comm_item, probe, 120);
AT(plait_comm_item, shared_memory, 128);
#endif

_Static_assert(PLAIT_KERNEL_HOST == 1, "flags of kernels moved");
_Static_assert(PLAIT_OPT_BY_TARGET == 16, "flags of options moved");
_Static_assert(PLAIT_F8E4M3 == 9 && PLAIT_F8E5M2 == 10, "element types moved");
_Static_assert(PLAIT_SCOPE_ELEMENT == 0 && PLAIT_SCOPE_TENSOR == 1, "scopes of optimizers moved");
_Static_assert(PLAIT_PARAMETER_TABLE == 1 && PLAIT_PARAMETER_OUTPUT == 2 &&
                   PLAIT_PARAMETER_ELEMENTWISE == 4 && PLAIT_PARAMETER_GROUPED == 8,
               "flags of parameters moved");

extern int abi_layout_v2; /* ISO C wants something in a translation unit */
