// The numbers of cudnn_types.hpp are those of cuDNN's header.
#include <cudnn_graph.h>
#include <doctest/doctest.h>

#include <type_traits>

#include "plugins/devices/cuda/attention/cudnn_types.hpp"

using namespace plait::cuda::dnn;

namespace {

template <class Ours, class Theirs>
void same(Ours ours, Theirs theirs) {
  static_assert(sizeof(Ours) == sizeof(Theirs));
  CHECK(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs));
}

// Whether a value of one type is passed as one of the other.
template <class A, class B>
constexpr bool alike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> && std::is_void_v<B>;
  else
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
}
template <class R, class... A>
struct Signature {
  template <class S, class... B>
  static constexpr bool fits(S (*)(B...)) {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return alike<R, S>() && (alike<A, B>() && ...);
  }
};
template <class R, class... A>
Signature<R, A...> signature(R (*)(A...)) {
  return {};
}

}  // namespace

TEST_CASE("functions") {
#define PLAIT_CHECK(name, result, parameters)                                          \
  static_assert(decltype(signature(static_cast<result(*) parameters>(nullptr)))::fits( \
      static_cast<decltype(&::name)>(nullptr)));
  PLAIT_CUDNN(PLAIT_CHECK)
#undef PLAIT_CHECK
}

TEST_CASE("kinds of descriptors") {
  same(Kind::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  same(Kind::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  same(Kind::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  same(Kind::heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  same(Kind::plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  same(Kind::pointwise_operation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  same(Kind::graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  same(Kind::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  same(Kind::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  same(Kind::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  same(Kind::matmul_operation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  same(Kind::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  same(Kind::reduction_operation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
}

TEST_CASE("attributes") {
  same(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
  same(Attribute::pointwise_precision, CUDNN_ATTR_POINTWISE_MATH_PREC);
  same(Attribute::pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS);
  same(Attribute::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
  same(Attribute::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  same(Attribute::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  same(Attribute::config_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
  same(Attribute::config_workspace, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
  same(Attribute::plan_handle, 400);
  same(Attribute::plan_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  same(Attribute::plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  same(Attribute::pointwise_operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  same(Attribute::pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  same(Attribute::pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  same(Attribute::pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  same(Attribute::pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  same(Attribute::graph_handle, 800);
  same(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  same(Attribute::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  same(Attribute::tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
  same(Attribute::tensor_dims, CUDNN_ATTR_TENSOR_DIMENSIONS);
  same(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
  same(Attribute::tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  same(Attribute::tensor_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  same(Attribute::tensor_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  same(Attribute::pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  same(Attribute::pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  same(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  same(Attribute::engine_notes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  same(Attribute::matmul_precision, CUDNN_ATTR_MATMUL_COMP_TYPE);
  same(Attribute::matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  same(Attribute::matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  same(Attribute::matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  same(Attribute::matmul_operation, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  same(Attribute::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
  same(Attribute::reduction_precision, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  same(Attribute::reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  same(Attribute::reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  same(Attribute::reduction_operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
}

TEST_CASE("types and values") {
  same(Type::handle, CUDNN_TYPE_HANDLE);
  same(Type::data_type, CUDNN_TYPE_DATA_TYPE);
  same(Type::boolean, CUDNN_TYPE_BOOLEAN);
  same(Type::int64, CUDNN_TYPE_INT64);
  same(Type::pointer, CUDNN_TYPE_VOID_PTR);
  same(Type::heuristics_mode, CUDNN_TYPE_HEUR_MODE);
  same(Type::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
  same(Type::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
  same(Type::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  same(Type::reduction_operator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  same(Type::characters, CUDNN_TYPE_CHAR);
  same(Data::f32, CUDNN_DATA_FLOAT);
  same(Data::f16, CUDNN_DATA_HALF);
  same(Data::i32, CUDNN_DATA_INT32);
  same(Data::bf16, CUDNN_DATA_BFLOAT16);
  same(Data::boolean, CUDNN_DATA_BOOLEAN);
  same(Pointwise::add, CUDNN_POINTWISE_ADD);
  same(Pointwise::mul, CUDNN_POINTWISE_MUL);
  same(Pointwise::div, CUDNN_POINTWISE_DIV);
  same(Pointwise::sub, CUDNN_POINTWISE_SUB);
  same(Pointwise::exp, CUDNN_POINTWISE_EXP);
  same(Pointwise::log, CUDNN_POINTWISE_LOG);
  same(Pointwise::greater_or_equal, CUDNN_POINTWISE_CMP_GE);
  same(Pointwise::index, CUDNN_POINTWISE_GEN_INDEX);
  same(Pointwise::select, CUDNN_POINTWISE_BINARY_SELECT);
  same(Reduction::add, CUDNN_REDUCE_TENSOR_ADD);
  same(Reduction::max, CUDNN_REDUCE_TENSOR_MAX);
  same(Heuristics::a, CUDNN_HEUR_MODE_A);
  same(Note::nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  CHECK(kNotes >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
#if CUDNN_VERSION >= 90800
  same(Kind::device, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  same(Attribute::heuristics_device, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  same(Attribute::plan_device, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  same(Attribute::device_json, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
#endif
}
