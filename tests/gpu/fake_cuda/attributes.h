// The attributes of cuDNN's descriptors that the engine sets: of which
// descriptor each is, of which type, and how many values it has, as the
// reference of cudnn_graph.h says.
#ifndef IOS_TF_TESTS_FAKE_CUDA_ATTRIBUTES_H_
#define IOS_TF_TESTS_FAKE_CUDA_ATTRIBUTES_H_

#include <cudnn_graph.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace fake {

using DescriptorTypes = std::set<cudnnBackendDescriptorType_t>;

struct AttributeRule {
  cudnnBackendAttributeName_t name;
  DescriptorTypes owners;
  std::set<cudnnBackendAttributeType_t> types;
  int64_t least = 1, most = 1;     // values
  DescriptorTypes refers_to = {};  // of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

inline const std::vector<AttributeRule>& AttributeRules() {
  constexpr int64_t kDims = 8;     // CUDNN_DIM_MAX
  constexpr int64_t kSpatial = 6;  // CUDNN_DIM_MAX - 2
  constexpr int64_t kMany = 1 << 30;
  const DescriptorTypes tensor = {CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  const DescriptorTypes conv = {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR};
  const DescriptorTypes pointwise = {CUDNN_BACKEND_POINTWISE_DESCRIPTOR};
  const DescriptorTypes forward = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
  const DescriptorTypes backward = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR};
  const DescriptorTypes map = {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR};
  const DescriptorTypes graph = {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  const DescriptorTypes heuristics = {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR};
  const DescriptorTypes config = {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR};
  const DescriptorTypes plan = {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  const DescriptorTypes pack = {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};
  const DescriptorTypes operations = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR};
  static const auto* const rules = new std::vector<AttributeRule>{
      {CUDNN_ATTR_TENSOR_DATA_TYPE, tensor, {CUDNN_TYPE_DATA_TYPE}},
      {CUDNN_ATTR_TENSOR_DIMENSIONS, tensor, {CUDNN_TYPE_INT64}, 1, kDims},
      {CUDNN_ATTR_TENSOR_STRIDES, tensor, {CUDNN_TYPE_INT64}, 1, kDims},
      {CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor, {CUDNN_TYPE_INT64}},
      {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, tensor, {CUDNN_TYPE_INT64}},
      {CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor, {CUDNN_TYPE_BOOLEAN}},
      {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, conv, {CUDNN_TYPE_DATA_TYPE}},
      {CUDNN_ATTR_CONVOLUTION_CONV_MODE, conv, {CUDNN_TYPE_CONVOLUTION_MODE}},
      {CUDNN_ATTR_CONVOLUTION_DILATIONS, conv, {CUDNN_TYPE_INT64}, 1, kSpatial},
      {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, conv, {CUDNN_TYPE_INT64}},
      {CUDNN_ATTR_POINTWISE_MODE, pointwise, {CUDNN_TYPE_POINTWISE_MODE}},
      {CUDNN_ATTR_POINTWISE_MATH_PREC, pointwise, {CUDNN_TYPE_DATA_TYPE}},
      {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
       pointwise,
       {CUDNN_TYPE_NAN_PROPOGATION}},
      {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_ELU_ALPHA,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_SWISH_BETA,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       forward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
       forward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       backward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
       backward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       conv},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       conv},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       pointwise},
      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1,
       map,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2,
       map,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, graph, {CUDNN_TYPE_HANDLE}},
      {CUDNN_ATTR_OPERATIONGRAPH_OPS,
       graph,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       kMany,
       operations},
      {CUDNN_ATTR_ENGINEHEUR_MODE, heuristics, {CUDNN_TYPE_HEUR_MODE}},
      {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
       heuristics,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       graph},
      {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, plan, {CUDNN_TYPE_HANDLE}},
      {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
       plan,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       config},
      {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
       plan,
       {CUDNN_TYPE_CHAR},
       1,
       kMany},
      {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, pack, {CUDNN_TYPE_INT64}, 1, kMany},
      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
       pack,
       {CUDNN_TYPE_VOID_PTR},
       1,
       kMany},
      {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, pack, {CUDNN_TYPE_VOID_PTR}},
  };
  return *rules;
}

inline const AttributeRule* FindRule(cudnnBackendAttributeName_t name) {
  for (const AttributeRule& rule : AttributeRules()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// What is wrong with setting an attribute so; empty if nothing is.
inline std::string WrongAttribute(cudnnBackendDescriptorType_t owner,
                                  cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type,
                                  int64_t count) {
  const std::string which = "attribute " + std::to_string(name);
  const AttributeRule* const rule = FindRule(name);
  if (!rule) return which + " is not known to the fake";
  if (!rule->owners.count(owner)) {
    return which + " is not one of a descriptor of type " +
           std::to_string(owner);
  }
  if (!rule->types.count(type)) {
    return which + " is set with type " + std::to_string(type);
  }
  if (count < rule->least || count > rule->most) {
    return which + " is set with " + std::to_string(count) + " values";
  }
  return "";
}

inline bool MayRefer(cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptorType_t to) {
  return FindRule(name)->refers_to.count(to) != 0;
}

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_ATTRIBUTES_H_
