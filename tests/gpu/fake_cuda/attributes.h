// Rules for the attributes of cuDNN's descriptors that the engine sets, from
// the reference of cudnn_graph.h. A rule says which descriptors have the
// attribute, whether it is required, its type and its number of values. The
// real cuDNN does not check all of these rules: test_real_cudnn.py lists the
// attributes that it accepts to be missing.
#ifndef IOS_TF_TESTS_FAKE_CUDA_ATTRIBUTES_H_
#define IOS_TF_TESTS_FAKE_CUDA_ATTRIBUTES_H_

#include <cudnn_graph.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace fake {

using DescriptorTypes = std::set<cudnnBackendDescriptorType_t>;

enum Need { kOptional, kRequired };

struct AttributeRule {
  cudnnBackendAttributeName_t name;
  Need need;
  DescriptorTypes owners;
  std::set<cudnnBackendAttributeType_t> types;
  int64_t least = 1, most = 1;     // number of values
  DescriptorTypes refers_to = {};  // if the values are descriptors
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
      {CUDNN_ATTR_TENSOR_DATA_TYPE, kRequired, tensor, {CUDNN_TYPE_DATA_TYPE}},
      {CUDNN_ATTR_TENSOR_DIMENSIONS,
       kRequired,
       tensor,
       {CUDNN_TYPE_INT64},
       1,
       kDims},
      {CUDNN_ATTR_TENSOR_STRIDES,
       kRequired,
       tensor,
       {CUDNN_TYPE_INT64},
       1,
       kDims},
      {CUDNN_ATTR_TENSOR_UNIQUE_ID, kRequired, tensor, {CUDNN_TYPE_INT64}},
      {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kRequired, tensor, {CUDNN_TYPE_INT64}},
      {CUDNN_ATTR_TENSOR_IS_VIRTUAL, kOptional, tensor, {CUDNN_TYPE_BOOLEAN}},
      {CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
       kRequired,
       conv,
       {CUDNN_TYPE_DATA_TYPE}},
      {CUDNN_ATTR_CONVOLUTION_CONV_MODE,
       kRequired,
       conv,
       {CUDNN_TYPE_CONVOLUTION_MODE}},
      {CUDNN_ATTR_CONVOLUTION_DILATIONS,
       kRequired,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
       kRequired,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
       kRequired,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
       kRequired,
       conv,
       {CUDNN_TYPE_INT64},
       1,
       kSpatial},
      {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
       kRequired,
       conv,
       {CUDNN_TYPE_INT64}},
      {CUDNN_ATTR_POINTWISE_MODE,
       kRequired,
       pointwise,
       {CUDNN_TYPE_POINTWISE_MODE}},
      {CUDNN_ATTR_POINTWISE_MATH_PREC,
       kRequired,
       pointwise,
       {CUDNN_TYPE_DATA_TYPE}},
      {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
       kOptional,
       pointwise,
       {CUDNN_TYPE_NAN_PROPOGATION}},
      {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP,
       kOptional,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
       kOptional,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
       kOptional,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_ELU_ALPHA,
       kOptional,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA,
       kOptional,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_POINTWISE_SWISH_BETA,
       kOptional,
       pointwise,
       {CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       kRequired,
       forward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
       kRequired,
       forward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       kRequired,
       backward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
       kRequired,
       backward,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       kRequired,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       conv},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       kRequired,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       kRequired,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       kRequired,
       forward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       kRequired,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       conv},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       kRequired,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       kRequired,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       kRequired,
       backward,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
       kRequired,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       pointwise},
      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
       kRequired,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
       kOptional,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
       kRequired,
       map,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       tensor},
      {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1,
       kOptional,
       map,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2,
       kOptional,
       map,
       {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
      {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, kRequired, graph, {CUDNN_TYPE_HANDLE}},
      {CUDNN_ATTR_OPERATIONGRAPH_OPS,
       kRequired,
       graph,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       kMany,
       operations},
      {CUDNN_ATTR_ENGINEHEUR_MODE,
       kRequired,
       heuristics,
       {CUDNN_TYPE_HEUR_MODE}},
      {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
       kRequired,
       heuristics,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       graph},
      {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, kOptional, plan, {CUDNN_TYPE_HANDLE}},
      {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
       kOptional,
       plan,
       {CUDNN_TYPE_BACKEND_DESCRIPTOR},
       1,
       1,
       config},
      {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
       kOptional,
       plan,
       {CUDNN_TYPE_CHAR},
       1,
       kMany},
      {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
       kRequired,
       pack,
       {CUDNN_TYPE_INT64},
       1,
       kMany},
      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
       kRequired,
       pack,
       {CUDNN_TYPE_VOID_PTR},
       1,
       kMany},
      {CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
       kOptional,
       pack,
       {CUDNN_TYPE_VOID_PTR}},
  };
  return *rules;
}

inline const AttributeRule* FindRule(cudnnBackendAttributeName_t name) {
  for (const AttributeRule& rule : AttributeRules()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// Returns why the attribute `name` of a descriptor of type `owner` must not
// have `count` values of type `type`. Returns an empty string if it may.
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

inline std::string NotSet(cudnnBackendAttributeName_t name) {
  return "attribute " + std::to_string(name) + " is not set";
}

// Returns a message that names the first required attribute that is not in
// `given`, or an empty string if no required attribute is missing.
template <typename Attributes>
std::string MissingAttribute(cudnnBackendDescriptorType_t owner,
                             const Attributes& given) {
  for (const AttributeRule& rule : AttributeRules()) {
    if (rule.need == kRequired && rule.owners.count(owner) &&
        !given.count(rule.name)) {
      return NotSet(rule.name);
    }
  }
  return "";
}

inline bool MayRefer(cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptorType_t to) {
  return FindRule(name)->refers_to.count(to) != 0;
}

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_ATTRIBUTES_H_
