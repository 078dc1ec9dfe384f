// The fake libcudnn. It implements cuDNN's backend API, with descriptors that
// are maps of attributes.
#include <cudnn_graph.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attributes.h"
#include "descriptor.h"
#include "engines.h"
#include "graph.h"
#include "graph_text.h"
#include "machine.h"

struct cudnnContext {
  CUcontext context = nullptr;
  cudaStream_t stream = nullptr;
  std::thread::id thread;  // the thread that set the stream
};

namespace {

using fake::Descriptor;
using fake::DescriptorPtr;
using fake::Engine;
using fake::EnginePtr;
using fake::Machine;

fake::Descriptors& AllDescriptors() {
  static auto* descriptors = new fake::Descriptors;
  return *descriptors;
}

DescriptorPtr Find(cudnnBackendDescriptor_t handle) {
  return fake::Find(AllDescriptors(), handle);
}

// The handles that exist.
std::set<cudnnHandle_t>& AllHandles() {
  static auto* handles = new std::set<cudnnHandle_t>;
  return *handles;
}

thread_local std::string last_error;

cudnnStatus_t Fail(cudnnStatus_t status, const std::string& why) {
  last_error = why;
  return status;
}

cudnnStatus_t FailIncomplete(const std::string& missing) {
  Machine::Get().Violate(missing);
  return Fail(CUDNN_STATUS_BAD_PARAM, missing);
}

#define FAKE_ENTER()                 \
  Machine& machine = Machine::Get(); \
  const fake::Call entered(&machine)

// Returns whether the option "hold_plans" delays building the plan: 1 delays
// all plans, and 2 those that cuDNN compiles.
bool IsHeld(const DescriptorPtr& plan) {
  const int64_t hold = Machine::Get().Option("hold_plans");
  if (!hold || !plan || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    return false;
  }
  const Descriptor* const config =
      plan->Ref(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return hold == 1 || (config && config->engine && config->engine->Compiles());
}

void WaitWhileHeld(cudnnBackendDescriptor_t handle) {
  const auto wait = [&] {
    FAKE_ENTER();
    const bool held = IsHeld(Find(handle));
    if (held) {
      machine.Count("polls of held plans");
      machine.Made("held plan", handle);
    } else if (machine.Exists("held plan", handle)) {
      machine.Unmade("held plan", handle);
    }
    return held;
  };
  while (wait()) usleep(500);
}

// Waits while the option "hold_handles" is set.
void WaitWhileHandlesAreHeld() {
  char caller = 0;  // its address identifies the call
  const auto wait = [&] {
    FAKE_ENTER();
    const bool held = machine.Option("hold_handles");
    if (held) {
      machine.Count("polls of held handles");
      machine.Made("held handle", &caller);
    } else if (machine.Exists("held handle", &caller)) {
      machine.Unmade("held handle", &caller);
    }
    return held;
  };
  while (wait()) usleep(500);
}

// The time in microseconds that the host needs to build a plan with cuDNN 9.28
// on one core. (37 plans that need no compilation take 50 ms.) The times for
// loading a plan and creating a handle are only orders of magnitude.
constexpr int64_t kReadyPlan = 1400, kCompiledPlan = 300'000;
constexpr int64_t kLoadedPlan = 1000, kHandle = 10'000;

// Returns an error if the options of the fake make its cuDNN unable to compute
// the graph.
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

// The beginning of the text that stands for a plan's JSON. The name of an
// engine and a graph follow.
constexpr char kPlanText[] = "FAKE PLAN ";

std::vector<char> WritePlan(const Descriptor& plan) {
  const std::string text =
      kPlanText + plan.engine->Name() + " " + fake::ToText(*plan.graph);
  return {text.begin(), text.end()};
}

cudnnStatus_t ReadPlan(Descriptor* plan) {
  // A plan without an engine configuration needs its own handle.
  if (!plan->Has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) {
    return FailIncomplete(fake::NotSet(CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
  }
  const auto chars =
      plan->All<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  const std::string text(chars.begin(), chars.end());
  const size_t begin = std::strlen(kPlanText);
  const size_t end = text.find(' ', begin);
  auto graph = std::make_shared<fake::OperationGraph>();
  if (text.compare(0, begin, kPlanText) != 0 || end == std::string::npos ||
      !fake::FromText(text.substr(end), graph.get())) {
    return Fail(CUDNN_STATUS_BAD_PARAM, "no plan");
  }
  plan->engine = fake::FindEngine(*graph, text.substr(begin, end - begin));
  plan->graph = std::move(graph);
  if (!plan->engine || plan->engine->status != CUDNN_STATUS_SUCCESS) {
    return Fail(CUDNN_STATUS_BAD_PARAM, "an engine that cannot be built");
  }
  Machine::Get().Count("cudnn plans loaded");
  Machine::Get().Prepare(kLoadedPlan);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t BuildPlan(Descriptor* plan) {
  if (plan->Has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) {
    return ReadPlan(plan);
  }
  const Descriptor* const config =
      plan->Ref(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!config || !config->engine) {
    return FailIncomplete(
        fake::NotSet(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  }
  const cudnnStatus_t status = CheckSupported(*config->graph);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (config->engine->status != CUDNN_STATUS_SUCCESS) {
    return Fail(config->engine->status, "an engine that cannot be built");
  }
  plan->graph = config->graph;
  plan->engine = config->engine;
  Machine::Get().Count("cudnn plans");
  Machine::Get().Prepare(plan->engine->Compiles() ? kCompiledPlan : kReadyPlan);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Finalize(Descriptor* descriptor) {
  const std::string missing =
      fake::MissingAttribute(descriptor->type, descriptor->attributes);
  if (!missing.empty()) return FailIncomplete(missing);
  switch (descriptor->type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      std::string why;
      const cudnnStatus_t status = fake::BuildGraph(descriptor, &why);
      return status == CUDNN_STATUS_SUCCESS ? status : Fail(status, why);
    }
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
      descriptor->engines = fake::Propose(
          *graph->graph,
          descriptor->Get(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return Fail(CUDNN_STATUS_NOT_SUPPORTED,
                  "an engine that no heuristics have proposed");
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
  if (!array) return;  // the caller wants only the count
  for (int64_t i = 0; i < std::min<int64_t>(requested, values.size()); ++i) {
    static_cast<T*>(array)[i] = values[i];
  }
}

// Sets an attribute that callers read but never set. It has one value.
template <typename T>
void Set(Descriptor* descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, T value) {
  descriptor->attributes[name] = fake::MakeAttribute({}, type, 1, &value);
}

cudnnStatus_t GetAttribute(Descriptor* descriptor,
                           cudnnBackendAttributeName_t name, int64_t requested,
                           int64_t* count, void* array) {
  // Fills descriptor `i` in `array`, which the caller has created. Returns null
  // if the descriptor does not exist.
  const auto fill = [&](int64_t i, const EnginePtr& engine) {
    const DescriptorPtr target =
        Find(static_cast<cudnnBackendDescriptor_t*>(array)[i]);
    if (target) {
      target->graph = descriptor->graph;
      target->engine = engine;
      target->finalized = true;
    }
    return target;
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
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: {
      const auto& knobs = descriptor->engine->knobs;
      if (count) *count = knobs.size();
      for (int64_t i = 0; i < std::min<int64_t>(requested, knobs.size()); ++i) {
        const DescriptorPtr knob = fill(i, descriptor->engine);
        if (!knob) return Fail(CUDNN_STATUS_BAD_PARAM, "no descriptor to fill");
        Set(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
            knobs[i].first);
        Set(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
            knobs[i].second);
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      Return<int64_t>({descriptor->engine->index}, requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      Return(descriptor->engine->numerical, requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      Return(descriptor->engine->behavior, requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      Return<int64_t>({descriptor->engine->workspace}, requested, count, array);
      return CUDNN_STATUS_SUCCESS;
    default: {
      const auto it = descriptor->attributes.find(name);
      if (it == descriptor->attributes.end()) {
        return Fail(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that is not set");
      }
      if (count) *count = it->second.count;
      const size_t bytes = std::min<size_t>(
          requested * fake::SizeOf(it->second.type), it->second.bytes.size());
      std::memcpy(array, it->second.bytes.data(), bytes);
      return CUDNN_STATUS_SUCCESS;
    }
  }
}

cudnnStatus_t Execute(const cudnnContext& handle, Descriptor& plan,
                      const Descriptor& pack) {
  Machine& machine = Machine::Get();
  // The first execution of a plan loads kernels, which is forbidden during a
  // capture.
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
  const Engine& engine = *plan.engine;
  const int64_t bytes = engine.workspace;
  if (bytes > 0 && !workspace) {
    machine.Violate("cuDNN is given no workspace");
    return Fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
  }
  const std::string name = engine.Name();
  machine.Count("cudnnBackendExecute");
  machine.Count("cudnn engine " + std::to_string(engine.index));
  machine.Count("cudnn runs of " + name);
  machine.Count("cudnn nanoseconds of " + name,
                std::llround(1e3 * engine.microseconds));
  machine.Count("cudnn operations " +
                std::to_string(plan.graph->operations.size()));
  const std::shared_ptr<const fake::OperationGraph> graph = plan.graph;
  fake::Work work = {"cudnn convolution",
                     [graph, memory, arithmetic = engine.arithmetic,
                      keeps_nan = engine.KeepsNan(), workspace, bytes] {
                       if (bytes > 0) {
                         if (!Machine::Get().Accessible(workspace, bytes))
                           return;
                         Machine::Get().Write(workspace, bytes);
                         std::memset(workspace, 0xff, bytes);
                       }
                       fake::RunGraph(*graph, memory, arithmetic, keeps_nan);
                     },
                     engine.microseconds,
                     /*by_the_clock=*/true,
                     handle.context,
                     engine.blocks,
                     fake::kThreads};
  for (const fake::GraphTensor& tensor : graph->Tensors()) {
    work.accesses.push_back(
        {memory[tensor.uid],
         static_cast<size_t>(tensor.elements() * tensor.element_bytes())});
  }
  const CUresult result = fake::EnqueueOn(
      reinterpret_cast<CUstream>(handle.stream), std::move(work));
  return result == CUDA_SUCCESS
             ? CUDNN_STATUS_SUCCESS
             : Fail(CUDNN_STATUS_EXECUTION_FAILED, "cannot enqueue");
}

}  // namespace

extern "C" {

// Returns the number of cuDNN handles whose stream was destroyed.
int fake_cudnn_stale_handles() {
  FAKE_ENTER();
  return std::count_if(
      AllHandles().begin(), AllHandles().end(), [&](cudnnHandle_t handle) {
        return handle->stream && !machine.Exists("stream", handle->stream);
      });
}

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
  WaitWhileHandlesAreHeld();
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
  machine.Count("cudnnCreate");
  machine.Prepare(kHandle);
  AllHandles().insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  FAKE_ENTER();
  if (!machine.Unmade("cudnn handle", handle)) return CUDNN_STATUS_BAD_PARAM;
  AllHandles().erase(handle);
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
  AllDescriptors()[descriptor.get()] = std::move(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  FAKE_ENTER();
  if (!machine.Unmade("cudnn descriptor", handle))
    return CUDNN_STATUS_BAD_PARAM;
  AllDescriptors().erase(handle);
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
  fake::Attribute attribute =
      fake::MakeAttribute(AllDescriptors(), type, count, array);
  for (const DescriptorPtr& other : attribute.descriptors) {
    if (!other || !other->finalized) {
      return Fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
    }
    if (!fake::MayRefer(name, other->type)) {
      machine.Violate("attribute " + std::to_string(name) +
                      " refers to a descriptor of type " +
                      std::to_string(other->type));
      return Fail(CUDNN_STATUS_BAD_PARAM, "another type of descriptor");
    }
  }
  descriptor->attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  WaitWhileHeld(handle);
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
      !plan->finalized || !pack->finalized || !plan->engine) {
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
