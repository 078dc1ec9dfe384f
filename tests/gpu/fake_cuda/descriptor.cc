#include "descriptor.h"

#include <utility>

namespace fake {
namespace {

bool TensorOf(const Descriptor* from, GraphTensor* tensor) {
  if (!from) return false;
  tensor->type = from->Get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor->dims = from->All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor->strides = from->All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor->uid = from->Get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  tensor->alignment = from->Get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  tensor->is_virtual = from->Get<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  return true;
}

// Returns whether the shapes of a convolution's tensors match.
bool Fits(const GraphOperation& op) {
  if (op.padding_before.size() != 2 || op.padding_after.size() != 2 ||
      op.dilations.size() != 2 || op.strides.size() != 2) {
    return false;
  }
  const GraphTensor& from = op.transposed ? op.y : op.x;
  const GraphTensor& to = op.transposed ? op.x : op.y;
  for (int i = 0; i < 2; ++i) {
    const int64_t window = (op.b.dims[2 + i] - 1) * op.dilations[i] + 1;
    const int64_t padded =
        from.dims[2 + i] + op.padding_before[i] + op.padding_after[i];
    if (op.padding_before[i] < 0 || op.padding_after[i] < 0 ||
        padded < window ||
        (padded - window) / op.strides[i] + 1 != to.dims[2 + i]) {
      return false;
    }
  }
  if (op.transposed) {
    return op.x.dims[0] == op.y.dims[0] && op.b.dims[0] == op.x.dims[1] &&
           op.b.dims[1] == op.y.dims[1];
  }
  return op.x.dims[0] == op.y.dims[0] && op.b.dims[0] == op.y.dims[1] &&
         op.x.dims[1] % op.b.dims[1] == 0 &&
         op.b.dims[0] % (op.x.dims[1] / op.b.dims[1]) == 0;
}

}  // namespace

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_CHAR:
      return sizeof(char);
    case CUDNN_TYPE_INT64:
      return sizeof(int64_t);
    case CUDNN_TYPE_FLOAT:
      return sizeof(float);
    case CUDNN_TYPE_DOUBLE:
      return sizeof(double);
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    default:
      return sizeof(int);  // enumerations
  }
}

DescriptorPtr Find(const Descriptors& descriptors, const void* handle) {
  const auto it = descriptors.find(handle);
  return it == descriptors.end() ? nullptr : it->second;
}

Attribute MakeAttribute(const Descriptors& descriptors,
                        cudnnBackendAttributeType_t type, int64_t count,
                        const void* array) {
  Attribute attribute;
  attribute.type = type;
  attribute.count = count;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      attribute.descriptors.push_back(Find(
          descriptors, static_cast<const cudnnBackendDescriptor_t*>(array)[i]));
    }
  } else {
    const char* const bytes = static_cast<const char*>(array);
    attribute.bytes.assign(bytes, bytes + count * SizeOf(type));
  }
  return attribute;
}

cudnnStatus_t BuildGraph(Descriptor* descriptor, std::string* why) {
  const auto fail = [&](cudnnStatus_t status, const char* reason) {
    *why = reason;
    return status;
  };
  auto graph = std::make_shared<OperationGraph>();
  for (const DescriptorPtr& from :
       descriptor->attributes[CUDNN_ATTR_OPERATIONGRAPH_OPS].descriptors) {
    GraphOperation op;
    bool complete;
    op.transposed =
        from->type ==
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    if (op.transposed ||
        from->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      op.convolution = op.has_b = true;
      const Descriptor* const conv = from->Ref(
          op.transposed ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                        : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      complete =
          TensorOf(from->Ref(op.transposed
                                 ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
                                 : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                   &op.x) &&
          TensorOf(from->Ref(op.transposed
                                 ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
                                 : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
                   &op.b) &&
          TensorOf(from->Ref(op.transposed
                                 ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
                                 : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
                   &op.y) &&
          conv;
      if (complete) {
        op.padding_before =
            conv->All<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
        op.padding_after =
            conv->All<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
        op.dilations = conv->All<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
        op.strides = conv->All<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
        complete = Fits(op);
      }
    } else if (from->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
      const Descriptor* const mode =
          from->Ref(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      op.has_b =
          TensorOf(from->Ref(CUDNN_ATTR_OPERATION_POINTWISE_BDESC), &op.b);
      complete =
          TensorOf(from->Ref(CUDNN_ATTR_OPERATION_POINTWISE_XDESC), &op.x) &&
          TensorOf(from->Ref(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), &op.y) &&
          mode;
      if (complete) {
        op.mode = mode->Get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
        op.lower_clip = mode->Get(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0.0);
        op.upper_clip = mode->Get(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, 1e300);
        op.lower_clip_slope =
            mode->Get(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0);
        op.elu_alpha = mode->Get(CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1.0);
        op.swish_beta = mode->Get(CUDNN_ATTR_POINTWISE_SWISH_BETA, 1.0);
        complete = op.x.dims == op.y.dims &&
                   (op.has_b || (op.mode != CUDNN_POINTWISE_ADD &&
                                 op.mode != CUDNN_POINTWISE_MUL));
      }
    } else {
      return fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                  "an operation the fake does not know");
    }
    if (!complete) {
      return fail(CUDNN_STATUS_BAD_PARAM, "an operation that is not complete");
    }
    for (const GraphTensor* tensor : {&op.x, &op.y, &op.b}) {
      if (tensor == &op.b && !op.has_b) continue;
      if (tensor->dims.size() != 4 || tensor->strides.size() != 4 ||
          tensor->strides[1] != 1) {
        return fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "not channels-last");
      }
    }
    graph->operations.push_back(std::move(op));
  }
  if (graph->operations.empty()) {
    return fail(CUDNN_STATUS_BAD_PARAM, "a graph without operations");
  }
  descriptor->graph = std::move(graph);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace fake
