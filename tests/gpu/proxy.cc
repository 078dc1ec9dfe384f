// A libcudnn between the engine and NVIDIA's own libcudnn, for machines without
// a GPU. It passes the engine's graphs on to the real heuristics and engines,
// for a device that is described in JSON (this needs cuDNN 9.8 or later), and
// records their answers. Nothing is computed: executing a plan enqueues work
// that does nothing on a stream of the fake driver.
//
// Environment variables:
//   CUDNN_PROXY_LIBRARY: the path of NVIDIA's libcudnn.so.9.
//   CUDNN_PROXY_DEVICE: a file with the device's properties.
//   CUDNN_PROXY_WORKSPACES: a factor for the reported workspaces of plans;
//     default: 1.
#include <cuda.h>
#include <cudnn_graph.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_cuda/descriptor.h"
#include "fake_cuda/graph_text.h"
#include "fake_cuda/machine.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using Descriptor = cudnnBackendDescriptor_t;

void* Symbol(const char* name) {
  static void* const library = [] {
    const char* const path = std::getenv("CUDNN_PROXY_LIBRARY");
    void* const opened = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      fprintf(stderr, "cuDNN cannot be loaded: %s\n", dlerror());
      std::abort();
    }
    return opened;
  }();
  return dlsym(library, name);
}

#define REAL(name) reinterpret_cast<decltype(&::name)>(Symbol(#name))

std::mutex mutex;
fake::Descriptors bags;  // the attributes that the engine has set
std::map<Descriptor, Descriptor> configs;  // the configuration of each plan
std::map<Descriptor, int> built;           // plans, numbered as they are built
std::set<int> ran;                         // the numbers of executed plans
std::string notes;                         // the recorded answers, JSON lines

Descriptor Make(cudnnBackendDescriptorType_t type) {
  Descriptor made = nullptr;
  REAL(cudnnBackendCreateDescriptor)(type, &made);
  return made;
}

Descriptor Device() {
  static const Descriptor device = [] {
    const char* const path = std::getenv("CUDNN_PROXY_DEVICE");
    std::ifstream file(path ? path : "");
    const std::string json((std::istreambuf_iterator<char>(file)), {});
    const Descriptor made = Make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    REAL(cudnnBackendSetAttribute)(
        made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        json.size() + 1, json.c_str());
    if (REAL(cudnnBackendFinalize)(made) != CUDNN_STATUS_SUCCESS) {
      char why[1024] = "";
      REAL(cudnnGetLastErrorString)(why, sizeof(why));
      fprintf(stderr, "cuDNN takes no device from %s: %s\n", path, why);
      std::abort();
    }
    return made;
  }();
  return device;
}

// Returns the values of an attribute, at most `most`. For an attribute with one
// value, `most` must be 1.
template <typename T>
std::vector<T> Get(Descriptor from, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t most) {
  std::vector<T> values(most);
  int64_t count = 0;
  if (REAL(cudnnBackendGetAttribute)(from, name, type, most, &count,
                                     values.data()) != CUDNN_STATUS_SUCCESS) {
    count = 0;
  }
  values.resize(std::min(count, most));
  return values;
}

// Returns the workspace of a plan as the engine sees it: multiplied by
// CUDNN_PROXY_WORKSPACES. Returns -1 if cuDNN does not report a workspace.
int64_t WorkspaceOf(Descriptor plan) {
  static const int64_t factor = [] {
    const char* const text = std::getenv("CUDNN_PROXY_WORKSPACES");
    return text ? std::atoll(text) : 1;
  }();
  const auto bytes = Get<int64_t>(
      plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1);
  return bytes.empty() ? -1 : bytes[0] * factor;
}

constexpr int64_t kManyNotes = 32;

// The name of an engine, such as "eng51_k2=8_k13=0", and the engine's notes.
struct Engine {
  std::string name;
  std::vector<int> numerical, behavior;
};

Engine EngineOf(Descriptor config) {
  Engine found;
  Descriptor engine = Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0;
  REAL(cudnnBackendGetAttribute)(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &engine);
  for (int64_t index : Get<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                    CUDNN_TYPE_INT64, 1)) {
    found.name = "eng" + std::to_string(index);
  }
  for (auto note : Get<cudnnBackendNumericalNote_t>(
           engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
           kManyNotes)) {
    found.numerical.push_back(note);
  }
  for (auto note :
       Get<cudnnBackendBehaviorNote_t>(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                       CUDNN_TYPE_BEHAVIOR_NOTE, kManyNotes)) {
    found.behavior.push_back(note);
  }
  REAL(cudnnBackendDestroyDescriptor)(engine);
  std::vector<Descriptor> knobs(64);
  for (Descriptor& knob : knobs) {
    knob = Make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  }
  REAL(cudnnBackendGetAttribute)(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, knobs.size(),
                                 &count, knobs.data());
  for (size_t i = 0; i < knobs.size(); ++i) {
    if (static_cast<int64_t>(i) < count) {
      for (auto type : Get<cudnnBackendKnobType_t>(
               knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
               1)) {
        found.name += "_k" + std::to_string(type);
      }
      for (int64_t value :
           Get<int64_t>(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                        CUDNN_TYPE_INT64, 1)) {
        found.name += "=" + std::to_string(value);
      }
    }
    REAL(cudnnBackendDestroyDescriptor)(knobs[i]);
  }
  return found;
}

std::string List(const std::vector<int>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(values[i]);
  }
  return text + "]";
}

std::string Json(const Engine& engine) {
  return "{\"name\": \"" + engine.name +
         "\", \"numerical\": " + List(engine.numerical) +
         ", \"behavior\": " + List(engine.behavior) + "}";
}

// Returns the key of the graph that a descriptor belongs to, or "" if the fake
// cuDNN does not support this graph.
std::string KeyOf(const fake::Descriptor& of) {
  return of.graph ? fake::KeyOf(*of.graph) : "";
}

void NoteProposals(Descriptor heuristics, int64_t count, const void* array) {
  const fake::Descriptor& bag = *bags[heuristics];
  const auto* const found = static_cast<const Descriptor*>(array);
  notes +=
      "{\"mode\": " +
      std::to_string(bag.Get(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A)) +
      ", \"graph\": \"" + KeyOf(bag) + "\", \"proposed\": [";
  for (int64_t i = 0; i < count; ++i) {
    bags[found[i]]->graph = bag.graph;
    notes += (i ? ", " : "") + Json(EngineOf(found[i]));
  }
  notes += "]}\n";
}

void NotePlan(Descriptor plan, cudnnStatus_t status) {
  const fake::Descriptor& bag = *bags[plan];
  if (bag.Has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) {
    notes += "{\"loaded\": " + std::to_string(status) + "}\n";
    return;
  }
  const fake::Descriptor* const config =
      bag.Ref(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!config) return;  // the plan has no engine configuration
  static int count = 0;
  built[plan] = count++;
  notes += "{\"plan\": " + Json(EngineOf(configs[plan])) + ", \"graph\": \"" +
           KeyOf(*config) + "\"" + ", \"id\": " + std::to_string(built[plan]) +
           ", \"status\": " + std::to_string(status) +
           ", \"workspace\": " + std::to_string(WorkspaceOf(plan)) + "}\n";
}

}  // namespace

extern "C" {

// Returns the notes since the last call. The text is valid until the thread's
// next call.
const char* cudnn_proxy_take_notes() {
  thread_local std::string taken;
  std::lock_guard<std::mutex> lock(mutex);
  taken.swap(notes);
  notes.clear();
  return taken.c_str();
}

size_t CUDNNWINAPI cudnnGetVersion() { return REAL(cudnnGetVersion)(); }

const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  return REAL(cudnnGetErrorString)(status);
}

void CUDNNWINAPI cudnnGetLastErrorString(char* message, size_t size) {
  REAL(cudnnGetLastErrorString)(message, size);
}

cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle,
                                         cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status =
      REAL(cudnnBackendCreateDescriptor)(type, descriptor);
  std::lock_guard<std::mutex> lock(mutex);
  if (status == CUDNN_STATUS_SUCCESS) {
    bags[*descriptor] = std::make_shared<fake::Descriptor>();
    bags[*descriptor]->type = type;
  }
  return status;
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  std::lock_guard<std::mutex> lock(mutex);
  bags.erase(descriptor);
  configs.erase(descriptor);
  built.erase(descriptor);
  return REAL(cudnnBackendDestroyDescriptor)(descriptor);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(
    cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t count, const void* array) {
  // Without a device, there is no cuDNN handle. The device's properties, which
  // are set in cudnnBackendFinalize(), replace it.
  if (type == CUDNN_TYPE_HANDLE) return CUDNN_STATUS_SUCCESS;
  std::lock_guard<std::mutex> lock(mutex);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
    configs[descriptor] = *static_cast<const Descriptor*>(array);
  }
  bags[descriptor]->attributes[name] =
      fake::MakeAttribute(bags, type, count, array);
  return REAL(cudnnBackendSetAttribute)(descriptor, name, type, count, array);
}

cudnnStatus_t CUDNNWINAPI
cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  std::lock_guard<std::mutex> lock(mutex);
  fake::Descriptor& bag = *bags[descriptor];
  const bool plan = bag.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  const bool heuristics = bag.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  if (plan || heuristics) {
    const Descriptor device = Device();
    const cudnnStatus_t status = REAL(cudnnBackendSetAttribute)(
        descriptor,
        plan ? CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP
             : CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  const cudnnStatus_t status = REAL(cudnnBackendFinalize)(descriptor);
  if (plan) NotePlan(descriptor, status);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (bag.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    std::string why;  // unused: an unsupported graph only lacks a key
    fake::BuildGraph(&bag, &why);
  } else if (heuristics) {
    bag.graph = bag.Ref(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->graph;
  }
  return status;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(
    cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
    void* array) {
  const cudnnStatus_t status = REAL(cudnnBackendGetAttribute)(
      descriptor, name, type, requested, count, array);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && array &&
      requested > 0 && status == CUDNN_STATUS_SUCCESS) {
    *static_cast<int64_t*>(array) = WorkspaceOf(descriptor);
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && array && requested > 0 &&
      status == CUDNN_STATUS_SUCCESS) {
    NoteProposals(descriptor, *count, array);
  }
  return status;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t handle,
                                              cudnnBackendDescriptor_t plan,
                                              cudnnBackendDescriptor_t) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = built.find(plan);
    if (found != built.end() && ran.insert(found->second).second) {
      notes += "{\"ran\": " + std::to_string(found->second) + "}\n";
    }
  }
  const CUresult result =
      fake::EnqueueOn(reinterpret_cast<CUstream>(handle->stream),
                      {"cudnn nothing", nullptr, 10});
  return result == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS
                                : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
