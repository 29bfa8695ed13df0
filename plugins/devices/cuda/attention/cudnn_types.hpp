// The part of cuDNN's backend interface that attention needs, by the numbers of cudnn_graph.h: the
// plugin is built without headers of cuDNN. tests/cuda_emulator/cudnn compares them where those
// headers are.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // what a CUstream points to

namespace plait::cuda::dnn {

using Handle = struct HandleContents*;  // of a context and a stream; not for two threads at once
using Descriptor = void*;
using Status = int32_t;  // 0: success
using Stream = CUstream_st*;

enum class Kind : int32_t {  // of a descriptor
  pointwise = 0,
  engine = 2,
  engine_config = 3,
  heuristics = 4,
  plan = 5,
  pointwise_operation = 13,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  matmul_operation = 19,
  reduction = 21,
  reduction_operation = 22,
  device = 38,
};

enum class Attribute : int32_t {
  pointwise_mode = 0,
  pointwise_precision = 1,
  pointwise_axis = 9,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  config_engine = 300,
  config_workspace = 303,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  plan_device = 407,
  pointwise_operation = 750,
  pointwise_x = 751,
  pointwise_b = 752,
  pointwise_y = 753,
  pointwise_t = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_dims = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_virtual = 907,
  tensor_by_value = 908,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_notes = 1303,
  engine_device = 1307,
  matmul_precision = 1500,
  matmul_a = 1520,
  matmul_b = 1521,
  matmul_c = 1522,
  matmul_operation = 1523,
  reduction_operator = 1600,
  reduction_precision = 1601,
  reduction_x = 1610,
  reduction_y = 1611,
  reduction_operation = 1612,
  device_json = 2702,
};

enum class Type : int32_t {  // of the values of an attribute
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  pointer = 6,
  heuristics_mode = 8,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
  characters = 24,
};

enum class Data : int32_t { f32 = 0, f16 = 2, i32 = 4, bf16 = 9, boolean = 11 };
enum class Pointwise : int32_t {
  add = 0,
  mul = 1,
  div = 6,
  sub = 9,
  exp = 13,
  log = 15,
  greater_or_equal = 303,
  index = 501,
  select = 601,
};
enum class Reduction : int32_t { add = 0, max = 3 };
enum class Heuristics : int32_t { a = 3 };
enum class Note : int32_t { nondeterministic = 4 };
constexpr int64_t kNotes = 10;

// X(name, result, parameters): every function that the plugin calls.
#define PLAIT_CUDNN(X)                                                                           \
  X(cudnnGetVersion, size_t, ())                                                                 \
  X(cudnnGetErrorString, const char*, (::plait::cuda::dnn::Status))                              \
  X(cudnnGetLastErrorString, void, (char*, size_t))                                              \
  X(cudnnCreate, ::plait::cuda::dnn::Status, (::plait::cuda::dnn::Handle*))                      \
  X(cudnnDestroy, ::plait::cuda::dnn::Status, (::plait::cuda::dnn::Handle))                      \
  X(cudnnSetStream, ::plait::cuda::dnn::Status, (::plait::cuda::dnn::Handle, CUstream_st*))      \
  X(cudnnBackendCreateDescriptor, ::plait::cuda::dnn::Status,                                    \
    (::plait::cuda::dnn::Kind, ::plait::cuda::dnn::Descriptor*))                                 \
  X(cudnnBackendDestroyDescriptor, ::plait::cuda::dnn::Status, (::plait::cuda::dnn::Descriptor)) \
  X(cudnnBackendFinalize, ::plait::cuda::dnn::Status, (::plait::cuda::dnn::Descriptor))          \
  X(cudnnBackendSetAttribute, ::plait::cuda::dnn::Status,                                        \
    (::plait::cuda::dnn::Descriptor, ::plait::cuda::dnn::Attribute, ::plait::cuda::dnn::Type,    \
     int64_t, const void*))                                                                      \
  X(cudnnBackendGetAttribute, ::plait::cuda::dnn::Status,                                        \
    (::plait::cuda::dnn::Descriptor, ::plait::cuda::dnn::Attribute, ::plait::cuda::dnn::Type,    \
     int64_t, int64_t*, void*))                                                                  \
  X(cudnnBackendExecute, ::plait::cuda::dnn::Status,                                             \
    (::plait::cuda::dnn::Handle, ::plait::cuda::dnn::Descriptor, ::plait::cuda::dnn::Descriptor))

}  // namespace plait::cuda::dnn
