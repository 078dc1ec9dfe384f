// The fake libcudnn: the backend API, descriptors as bags of attributes. It has
// a few engines that differ in time, workspace, exactness and what they
// support.
#include <cudnn_graph.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>
#include <type_traits>

#include "attributes.h"
#include "graph.h"
#include "machine.h"

struct cudnnContext {
  CUcontext context = nullptr;
  cudaStream_t stream = nullptr;
  std::thread::id thread;  // that has set the stream
};

namespace {

using fake::Machine;

struct Descriptor;
using DescriptorPtr = std::shared_ptr<Descriptor>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count = 0;
  std::vector<char> bytes;
  std::vector<DescriptorPtr> descriptors;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  std::shared_ptr<fake::OperationGraph>
      graph;                 // of a graph and what comes of it
  int engine = -1;           // likewise
  bool executed = false;     // a plan
  std::vector<int> engines;  // of a heuristic

  bool Has(cudnnBackendAttributeName_t name) const {
    return attributes.count(name) != 0;
  }
  template <typename T>
  std::vector<T> All(cudnnBackendAttributeName_t name) const {
    const auto it = attributes.find(name);
    if (it == attributes.end()) return {};
    std::vector<T> values(it->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), it->second.bytes.data(),
                it->second.bytes.size());
    return values;
  }
  template <typename T>
  T Get(cudnnBackendAttributeName_t name, T otherwise) const {
    const std::vector<T> values = All<T>(name);
    return values.empty() ? otherwise : values[0];
  }
  const Descriptor* Ref(cudnnBackendAttributeName_t name) const {
    const auto it = attributes.find(name);
    return it == attributes.end() || it->second.descriptors.empty()
               ? nullptr
               : it->second.descriptors[0].get();
  }
};

struct Engine {
  double time;           // relative
  int64_t workspace;     // of a dense convolution of round numbers of channels
  bool needs_alignment;  // of 16 bytes
  fake::Arithmetic float_arithmetic;
  bool works;
};

// The fastest is not exact enough for float32, the one after it may be faster
// or slower than the first, the last is listed and cannot be built.
constexpr Engine kEngines[] = {
    {1.5, 0, false, fake::Arithmetic::kFloat32, true},
    {1.0, 4096, true, fake::Arithmetic::kTf32, true},
    {0.5, 0, false, fake::Arithmetic::kBFloat16, true},
    {1.2, 512, false, fake::Arithmetic::kFloat32, true},
    {1.0, 0, false, fake::Arithmetic::kFloat32, false},
};
constexpr int kReadyEngines = sizeof(kEngines) / sizeof(kEngines[0]);

// Behind these come those that fuse any graph and are compiled when a plan is
// built, unless the option "ready_tiles" says otherwise: as many as the option
// "tiles" says, each twice as fast as the one before. They take tensors of any
// pitch.
int EngineCount() { return kReadyEngines + Machine::Get().Option("tiles"); }

bool IsTile(int engine) { return engine >= kReadyEngines; }

bool Compiles(int engine) {
  return IsTile(engine) && !Machine::Get().Option("ready_tiles");
}

Engine EngineAt(int engine) {
  if (!IsTile(engine)) return kEngines[engine];
  return {std::ldexp(1.2, kReadyEngines - engine), 0, false,
          fake::Arithmetic::kTf32, true};
}

std::map<void*, DescriptorPtr>& Descriptors() {
  static auto* descriptors = new std::map<void*, DescriptorPtr>;
  return *descriptors;
}

DescriptorPtr Find(cudnnBackendDescriptor_t handle) {
  const auto it = Descriptors().find(handle);
  return it == Descriptors().end() ? nullptr : it->second;
}

thread_local std::string last_error;

cudnnStatus_t Fail(cudnnStatus_t status, const std::string& why) {
  last_error = why;
  return status;
}

#define FAKE_ENTER()                 \
  Machine& machine = Machine::Get(); \
  std::lock_guard<std::recursive_mutex> lock(machine.mutex)

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

bool TensorOf(const Descriptor* from, fake::GraphTensor* tensor) {
  if (!from) return false;
  tensor->type = from->Get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor->dims = from->All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor->strides = from->All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor->uid = from->Get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  tensor->alignment = from->Get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  tensor->is_virtual = from->Get<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  return true;
}

// Whether the sizes of a convolution agree.
bool Fits(const fake::GraphOperation& op) {
  if (op.padding_before.size() != 2 || op.padding_after.size() != 2 ||
      op.dilations.size() != 2 || op.strides.size() != 2) {
    return false;
  }
  const fake::GraphTensor& from = op.transposed ? op.y : op.x;
  const fake::GraphTensor& to = op.transposed ? op.x : op.y;
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

cudnnStatus_t BuildGraph(Descriptor* descriptor) {
  auto graph = std::make_shared<fake::OperationGraph>();
  for (const DescriptorPtr& from :
       descriptor->attributes[CUDNN_ATTR_OPERATIONGRAPH_OPS].descriptors) {
    fake::GraphOperation op;
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
      return Fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                  "an operation the fake does not know");
    }
    if (!complete) {
      return Fail(CUDNN_STATUS_BAD_PARAM, "an operation that is not complete");
    }
    for (const fake::GraphTensor* tensor : {&op.x, &op.y, &op.b}) {
      if (tensor == &op.b && !op.has_b) continue;
      if (tensor->dims.size() != 4 || tensor->strides.size() != 4 ||
          tensor->strides[1] != 1) {
        return Fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "not channels-last");
      }
    }
    graph->operations.push_back(std::move(op));
  }
  if (graph->operations.empty()) {
    return Fail(CUDNN_STATUS_BAD_PARAM, "a graph without operations");
  }
  descriptor->graph = std::move(graph);
  return CUDNN_STATUS_SUCCESS;
}

// An error for a graph that, as options say, this cuDNN cannot compute.
cudnnStatus_t CheckSupported(const fake::OperationGraph& graph) {
  const Machine& machine = Machine::Get();
  const int64_t most = machine.Option("max_operations", 8);
  if (static_cast<int64_t>(graph.operations.size()) > most) {
    return Fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                "too many operations");
  }
  for (const fake::GraphOperation& op : graph.operations) {
    if (op.convolution && op.padding_before != op.padding_after &&
        machine.Option("no_asymmetric_padding")) {
      return Fail(CUDNN_STATUS_NOT_SUPPORTED_PADDING, "asymmetric padding");
    }
  }
  for (const fake::GraphTensor& tensor : graph.Tensors()) {
    if (tensor.strides[3] != tensor.dims[1] &&
        tensor.dims[2] * tensor.dims[3] > 1 && machine.Option("no_pitch")) {
      return Fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "a pitched tensor");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

bool IsFloat(const fake::OperationGraph& graph) {
  return graph.operations[0].x.type == CUDNN_DATA_FLOAT;
}

// As cuDNN's: engines with tensor cores copy tensors that have a pitch, or a
// number of channels that is no multiple of 16 bytes.
int64_t WorkspaceOf(int engine, const fake::OperationGraph& graph) {
  int64_t bytes = EngineAt(engine).workspace;
  if (IsTile(engine) || (IsFloat(graph) && EngineAt(engine).float_arithmetic ==
                                               fake::Arithmetic::kFloat32)) {
    return bytes;
  }
  for (const fake::GraphTensor& tensor : graph.Tensors()) {
    if (tensor.dims[2] * tensor.dims[3] == 1) continue;
    const int64_t element = tensor.element_bytes(), channels = tensor.dims[1];
    if (tensor.strides[3] != channels || channels * element % 16 != 0) {
      const int64_t padded = (channels * element + 15) / 16 * 16;
      bytes += tensor.elements() / channels * padded;
    }
  }
  return bytes;
}

bool EndsInIdentity(const fake::OperationGraph& graph) {
  const fake::GraphOperation& last = graph.operations.back();
  return !last.convolution && last.mode == CUDNN_POINTWISE_IDENTITY;
}

// The "JSON" of plans: a graph and its engine, as numbers.
constexpr char kPlanText[] = "FAKE PLAN ";

struct PlanWriter {
  std::ostringstream out;

  template <typename T>
  void operator()(const T& value) {
    out << value << ' ';
  }
  void operator()(const std::vector<int64_t>& values) {
    (*this)(values.size());
    for (int64_t value : values) (*this)(value);
  }
};

struct PlanReader {
  std::istringstream in;

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_enum_v<T>) {
      int number = 0;
      in >> number;
      value = static_cast<T>(number);
    } else {
      in >> value;
    }
  }
  void operator()(std::vector<int64_t>& values) {
    size_t count = 0;
    in >> count;
    values.resize(in && count < 16 ? count : 0);
    for (int64_t& value : values) in >> value;
  }
};

template <typename Visitor>
void Visit(Visitor& visit, fake::GraphTensor& tensor) {
  visit(tensor.type);
  visit(tensor.dims);
  visit(tensor.strides);
  visit(tensor.uid);
  visit(tensor.alignment);
  visit(tensor.is_virtual);
}

template <typename Visitor>
void Visit(Visitor& visit, fake::GraphOperation& op) {
  visit(op.convolution);
  visit(op.transposed);
  visit(op.has_b);
  Visit(visit, op.x);
  Visit(visit, op.y);
  if (op.has_b) Visit(visit, op.b);
  for (auto* values :
       {&op.padding_before, &op.padding_after, &op.dilations, &op.strides}) {
    visit(*values);
  }
  visit(op.mode);
  for (double* value : {&op.lower_clip, &op.upper_clip, &op.lower_clip_slope,
                        &op.elu_alpha, &op.swish_beta}) {
    visit(*value);
  }
}

std::vector<char> WritePlan(const Descriptor& plan) {
  PlanWriter write;
  write.out.precision(17);
  write.out << kPlanText;
  write(plan.engine);
  write(plan.graph->operations.size());
  for (fake::GraphOperation op : plan.graph->operations) Visit(write, op);
  const std::string text = write.out.str();
  return {text.begin(), text.end()};
}

cudnnStatus_t ReadPlan(Descriptor* plan) {
  const auto text =
      plan->All<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  const size_t begin = std::strlen(kPlanText);
  if (std::string(text.begin(), text.end()).compare(0, begin, kPlanText) != 0) {
    return Fail(CUDNN_STATUS_BAD_PARAM, "no plan");
  }
  PlanReader read{
      std::istringstream(std::string(text.begin() + begin, text.end()))};
  size_t count = 0;
  read(plan->engine);
  read(count);
  auto graph = std::make_shared<fake::OperationGraph>();
  graph->operations.resize(read.in && count < 16 ? count : 0);
  for (fake::GraphOperation& op : graph->operations) Visit(read, op);
  if (!read.in || count == 0) return Fail(CUDNN_STATUS_BAD_PARAM, "no plan");
  plan->graph = std::move(graph);
  Machine::Get().Count("cudnn plans loaded");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t BuildPlan(Descriptor* plan) {
  if (plan->Has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) {
    return ReadPlan(plan);
  }
  const Descriptor* const config =
      plan->Ref(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!config || config->engine < 0) {
    return Fail(CUDNN_STATUS_BAD_PARAM, "a plan without engine");
  }
  const cudnnStatus_t status = CheckSupported(*config->graph);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const Engine engine = EngineAt(config->engine);
  if (!engine.works) {
    return Fail(CUDNN_STATUS_NOT_SUPPORTED, "an engine that cannot be built");
  }
  for (const fake::GraphTensor& tensor : config->graph->Tensors()) {
    if (engine.needs_alignment && tensor.alignment < 16) {
      return Fail(CUDNN_STATUS_NOT_SUPPORTED, "alignment below 16");
    }
  }
  plan->graph = config->graph;
  plan->engine = config->engine;
  Machine::Get().Count("cudnn plans");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Finalize(Descriptor* descriptor) {
  switch (descriptor->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      for (auto name :
           {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
            CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_UNIQUE_ID,
            CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT}) {
        if (!descriptor->Has(name)) {
          return Fail(CUDNN_STATUS_BAD_PARAM, "a tensor that is not complete");
        }
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return BuildGraph(descriptor);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      const Descriptor* const graph =
          descriptor->Ref(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      if (!graph || !graph->graph) {
        return Fail(CUDNN_STATUS_BAD_PARAM, "a heuristic without graph");
      }
      const cudnnStatus_t status = CheckSupported(*graph->graph);
      if (status != CUDNN_STATUS_SUCCESS) return status;
      descriptor->graph = graph->graph;
      Machine::Get().Count("cudnn heuristics");
      switch (descriptor->Get(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A)) {
        case CUDNN_HEUR_MODE_A:
          descriptor->engines = {1, 4, 0};
          if (EndsInIdentity(*graph->graph)) {
            for (int i = kReadyEngines; i < EngineCount(); ++i) {
              descriptor->engines.push_back(i);
            }
          }
          break;
        case CUDNN_HEUR_MODE_B:
          descriptor->engines = {2, 1, 3};
          break;
        default:
          descriptor->engines = {0, 3};
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: {
      const Descriptor* const graph =
          descriptor->Ref(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
      descriptor->engine =
          descriptor->Get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
      if (!graph || descriptor->engine < 0 ||
          descriptor->engine >= EngineCount()) {
        return Fail(CUDNN_STATUS_BAD_PARAM, "an engine that does not exist");
      }
      descriptor->graph = graph->graph;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: {
      const Descriptor* const engine =
          descriptor->Ref(CUDNN_ATTR_ENGINECFG_ENGINE);
      if (!engine) return Fail(CUDNN_STATUS_BAD_PARAM, "no engine");
      descriptor->graph = engine->graph;
      descriptor->engine = engine->engine;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      if (fake::ForbiddenWhileCapturing("finalizing a cuDNN plan")) {
        return Fail(CUDNN_STATUS_EXECUTION_FAILED, "a stream is captured");
      }
      return BuildPlan(descriptor);
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

template <typename T>
void Return(const std::vector<T>& values, int64_t requested, int64_t* count,
            void* array) {
  if (count) *count = values.size();
  if (!array) return;  // only the count is asked for, whatever `requested` says
  for (int64_t i = 0; i < std::min<int64_t>(requested, values.size()); ++i) {
    static_cast<T*>(array)[i] = values[i];
  }
}

std::vector<cudnnBackendNumericalNote_t> NotesOf(const Descriptor& engine) {
  if (!IsFloat(*engine.graph)) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  switch (EngineAt(engine.engine).float_arithmetic) {
    case fake::Arithmetic::kTf32:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case fake::Arithmetic::kBFloat16:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
              CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    default:
      return {};
  }
}

cudnnStatus_t GetAttribute(Descriptor* descriptor,
                           cudnnBackendAttributeName_t name, int64_t requested,
                           int64_t* count, void* array) {
  // Descriptors that the caller has made, to be filled.
  const auto fill = [&](int64_t i, int engine) {
    const DescriptorPtr target =
        Find(static_cast<cudnnBackendDescriptor_t*>(array)[i]);
    if (!target) return false;
    target->graph = descriptor->graph;
    target->engine = engine;
    target->finalized = true;
    return true;
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      if (count) *count = descriptor->engines.size();
      for (size_t i = 0; i < descriptor->engines.size() &&
                         static_cast<int64_t>(i) < requested;
           ++i) {
        if (!fill(i, descriptor->engines[i])) {
          return Fail(CUDNN_STATUS_BAD_PARAM, "no descriptor to fill");
        }
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      Return(WritePlan(*descriptor), requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      if (count) *count = 1;
      if (requested > 0 && !fill(0, descriptor->engine)) {
        return Fail(CUDNN_STATUS_BAD_PARAM, "no descriptor to fill");
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      if (count) *count = 1;
      if (requested > 0 && !fill(0, descriptor->engine)) {
        return Fail(CUDNN_STATUS_BAD_PARAM, "no descriptor to fill");
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      Return<cudnnBackendKnobType_t>({CUDNN_KNOB_TYPE_TILE_SIZE}, requested,
                                     count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      Return<int64_t>({descriptor->engine}, requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      Return<int64_t>({descriptor->engine}, requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      Return(NotesOf(*descriptor), requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      Return(Compiles(descriptor->engine)
                 ? std::vector{CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}
                 : std::vector<cudnnBackendBehaviorNote_t>(),
             requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      Return<int64_t>({WorkspaceOf(descriptor->engine, *descriptor->graph)},
                      requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    default: {
      const auto it = descriptor->attributes.find(name);
      if (it == descriptor->attributes.end()) {
        return Fail(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that is not set");
      }
      if (count) *count = it->second.count;
      const size_t bytes = std::min<size_t>(requested * SizeOf(it->second.type),
                                            it->second.bytes.size());
      std::memcpy(array, it->second.bytes.data(), bytes);
      return CUDNN_STATUS_SUCCESS;
    }
  }
}

// Between 0.75 and 1.25, for each engine and shape another one.
double Variation(const fake::OperationGraph& graph, int engine) {
  uint64_t hash = engine + 1;
  for (int64_t dim : graph.operations[0].b.dims) hash = hash * 1000003 + dim;
  for (int64_t dim : graph.operations[0].x.dims) hash = hash * 1000003 + dim;
  return 0.75 + 0.5 * (hash * 0x9e3779b97f4a7c15u >> 40) / (1 << 24);
}

cudnnStatus_t Execute(const cudnnContext& handle, Descriptor& plan,
                      const Descriptor& pack) {
  Machine& machine = Machine::Get();
  // It loads kernels, which a capture does not take.
  if (!plan.executed &&
      fake::IsCaptured(reinterpret_cast<CUstream>(handle.stream))) {
    machine.Violate(
        "a plan of cuDNN is executed for the first time in a capture");
  }
  plan.executed = true;
  const auto uids = pack.All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* const workspace =
      pack.Get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  std::map<int64_t, void*> memory;
  for (size_t i = 0; i < uids.size() && i < pointers.size(); ++i) {
    memory[uids[i]] = pointers[i];
  }
  for (const fake::GraphTensor& tensor : plan.graph->Tensors()) {
    void* const pointer = memory[tensor.uid];
    if (!pointer)
      return Fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no pointer");
    if (reinterpret_cast<uintptr_t>(pointer) % tensor.alignment != 0) {
      machine.Violate(
          "cuDNN is given an address that is aligned less than its "
          "descriptor says");
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  }
  const Engine engine = EngineAt(plan.engine);
  const int64_t bytes = WorkspaceOf(plan.engine, *plan.graph);
  if (bytes > 0 && !workspace) {
    machine.Violate("cuDNN is given no workspace");
    return Fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
  }
  const fake::Arithmetic arithmetic = IsFloat(*plan.graph)
                                          ? engine.float_arithmetic
                                          : fake::Arithmetic::kFloat32;
  machine.Count("cudnnBackendExecute");
  machine.Count("cudnn engine " + std::to_string(plan.engine));
  machine.Count("cudnn operations " +
                std::to_string(plan.graph->operations.size()));
  const std::shared_ptr<fake::OperationGraph> graph = plan.graph;
  const CUresult result =
      fake::EnqueueOn(reinterpret_cast<CUstream>(handle.stream),
                      {"cudnn convolution",
                       [graph, memory, arithmetic, workspace, bytes] {
                         if (bytes > 0) {
                           if (!Machine::Get().Accessible(workspace, bytes))
                             return;
                           Machine::Get().Write(workspace, bytes);
                           std::memset(workspace, 0xff, bytes);
                         }
                         fake::RunGraph(*graph, memory, arithmetic);
                       },
                       engine.time * Variation(*graph, plan.engine) *
                           (2 + graph->Flops() / 1e5)});
  return result == CUDA_SUCCESS
             ? CUDNN_STATUS_SUCCESS
             : Fail(CUDNN_STATUS_EXECUTION_FAILED, "cannot enqueue");
}

}  // namespace

extern "C" {

size_t CUDNNWINAPI cudnnGetVersion() {
  return Machine::Get().Option("cudnn_version", 92600);
}

const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS"
                                        : "CUDNN_STATUS_OF_THE_FAKE";
}

void CUDNNWINAPI cudnnGetLastErrorString(char* message, size_t size) {
  std::strncpy(message, last_error.c_str(), size);
  if (size > 0) message[size - 1] = 0;
}

cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
  FAKE_ENTER();
  const CUcontext context = fake::CurrentContext("cudnnCreate");
  if (!context || fake::ForbiddenWhileCapturing("cudnnCreate")) {
    return Fail(CUDNN_STATUS_NOT_INITIALIZED, "no context, or captured");
  }
  if (machine.Option("cudnn_create_error")) {
    return Fail(CUDNN_STATUS_NOT_INITIALIZED, "injected");
  }
  *handle = new cudnnContext;
  (*handle)->context = context;
  machine.Made("cudnn handle", *handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  FAKE_ENTER();
  if (!machine.Unmade("cudnn handle", handle)) return CUDNN_STATUS_BAD_PARAM;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle,
                                         cudaStream_t stream) {
  FAKE_ENTER();
  handle->stream = stream;
  handle->thread = std::this_thread::get_id();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnGetStream(cudnnHandle_t handle,
                                         cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* handle) {
  FAKE_ENTER();
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->type = type;
  *handle = descriptor.get();
  machine.Made("cudnn descriptor", descriptor.get());
  Descriptors()[descriptor.get()] = std::move(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  FAKE_ENTER();
  if (!machine.Unmade("cudnn descriptor", handle))
    return CUDNN_STATUS_BAD_PARAM;
  Descriptors().erase(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(
    cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t count, const void* array) {
  FAKE_ENTER();
  const DescriptorPtr descriptor = Find(handle);
  if (!descriptor || descriptor->finalized || (count > 0 && !array)) {
    machine.Violate(
        "an attribute is set of a descriptor that is finalized or gone");
    return CUDNN_STATUS_BAD_PARAM;
  }
  const std::string wrong =
      fake::WrongAttribute(descriptor->type, name, type, count);
  if (!wrong.empty()) {
    machine.Violate(wrong);
    return Fail(CUDNN_STATUS_BAD_PARAM, wrong);
  }
  Attribute attribute;
  attribute.type = type;
  attribute.count = count;
  const char* const bytes = static_cast<const char*>(array);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const DescriptorPtr other =
          Find(static_cast<const cudnnBackendDescriptor_t*>(array)[i]);
      if (!other || !other->finalized) {
        return Fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
      }
      if (!fake::MayRefer(name, other->type)) {
        machine.Violate("attribute " + std::to_string(name) +
                        " refers to a descriptor of type " +
                        std::to_string(other->type));
        return Fail(CUDNN_STATUS_BAD_PARAM, "another type of descriptor");
      }
      attribute.descriptors.push_back(other);
    }
  } else {
    attribute.bytes.assign(bytes, bytes + count * SizeOf(type));
  }
  descriptor->attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  FAKE_ENTER();
  const DescriptorPtr descriptor = Find(handle);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = Finalize(descriptor.get());
  descriptor->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(
    cudnnBackendDescriptor_t const handle, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t, int64_t requested, int64_t* count,
    void* array) {
  FAKE_ENTER();
  const DescriptorPtr descriptor = Find(handle);
  if (!descriptor || !descriptor->finalized) {
    return Fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
  }
  return GetAttribute(descriptor.get(), name, requested, count, array);
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                    cudnnBackendDescriptor_t pack_handle) {
  FAKE_ENTER();
  const DescriptorPtr plan = Find(plan_handle), pack = Find(pack_handle);
  if (!machine.Exists("cudnn handle", handle) || !plan || !pack ||
      !plan->finalized || !pack->finalized || plan->engine < 0) {
    machine.Violate("cudnnBackendExecute with something that is not finalized");
    return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  }
  if (handle->thread != std::this_thread::get_id()) {
    machine.Violate("a cuDNN handle is used by two threads at once");
  }
  if (handle->context != fake::CurrentContext("cudnnBackendExecute")) {
    machine.Violate("a cuDNN handle is used in another context");
    return CUDNN_STATUS_BAD_PARAM;
  }
  return Execute(*handle, *plan, *pack);
}

}  // extern "C"
