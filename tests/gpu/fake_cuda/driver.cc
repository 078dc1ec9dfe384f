// The fake libcuda. It implements the driver functions that the engine uses
// with the class Machine.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "kernel_runner.h"
#include "machine.h"

namespace {

using fake::Machine;
using fake::NodePtr;
using fake::Work;

struct Capture;

}  // namespace

struct CUctx_st {
  int device = 0;
};

struct CUstream_st {
  CUcontext context = nullptr;
  bool blocking = false;
  uint32_t chain = 0;
  std::vector<NodePtr> tails;  // what the next work waits for
  std::shared_ptr<Capture> capture;
  std::vector<int> capture_tails;
};

struct CUevent_st {
  CUcontext context = nullptr;
  bool timing = true;
  NodePtr node;  // the work that was recorded last; null: nothing to wait for
  bool recorded = false;
  std::shared_ptr<Capture> capture;
  std::vector<int> captured;
};

struct CUfunc_st {
  CUmodule module = nullptr;
  std::string name;
  fake::HostKernel kernel;
  std::vector<unsigned> sizes;   // of parameters
  unsigned most_threads = 1024;  // of a block: __launch_bounds__
};

struct CUmod_st {
  CUcontext context = nullptr;
  void* library = nullptr;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct GraphNode {
  Work work;
  int slot = 0;  // the number of its stream in the capture
  std::vector<int> after;
};

struct CUgraph_st {
  std::vector<GraphNode> nodes;
  int slots = 0;
};

struct CUgraphExec_st {
  CUgraph_st graph;
  CUcontext context = nullptr;
  std::vector<uint32_t> chains;  // one for each slot
  NodePtr last;                  // the end of the last launch
  bool uploaded = false;
};

namespace {

// A part of a kernel's parameter. A parameter needs an alignment of at most 16
// bytes.
struct alignas(16) Chunk {
  char bytes[16];
};

struct Capture {
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin = nullptr;
  bool invalid = false;
  CUgraph_st graph;
  std::map<CUstream, int> slots;  // numbers of the captured streams
};

constexpr int kMaxDevices = 2;
// Simulated times of the GPU in microseconds.
constexpr double kLaunchMicroseconds = 3;
constexpr double kGraphNodeMicroseconds = 1;
constexpr double kThreadMicroseconds = 1e-3;
constexpr double kBytesPerMicrosecond = 1e6;
// Simulated times of the host for enqueuing work, in microseconds.
constexpr double kHostLaunch = 3, kHostGraphLaunch = 5, kHostGraphNode = 0.02;
constexpr double kHostEvent = 1;
// Simulated times of the host for preparing work (see Machine::Prepare), in
// microseconds. They are only orders of magnitude.
constexpr int64_t kHostAllocation = 100, kHostStream = 10, kHostModule = 200;
constexpr int64_t kHostInstantiation = 10;

bool initialized = false;
CUctx_st primary_contexts[kMaxDevices];
std::set<CUstream> streams;
std::vector<std::shared_ptr<Capture>> captures;
thread_local std::vector<CUcontext> context_stack;

// Every driver call begins with this.
#define FAKE_ENTER()                 \
  Machine& machine = Machine::Get(); \
  const fake::Call entered(&machine)

// Sleeps for as many microseconds as the option "slow_launches" says, so that
// other threads run in between. Without the sleep, they would rarely do so.
void LetOthersRun() {
  int64_t microseconds = 0;
  {
    FAKE_ENTER();
    microseconds = machine.Option("slow_launches");
  }
  if (microseconds > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }
}

// Waits while the option "hold_device" is 1 more than the number of the current
// context's device, as if the device were busy.
void WaitWhileHeld() {
  while (true) {
    {
      FAKE_ENTER();
      const int64_t held = machine.Option("hold_device");
      if (held == 0 || context_stack.empty() ||
          held != context_stack.back()->device + 1) {
        return;
      }
      machine.Count("polls of a held device");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

#define FAKE_CONTEXT()                                \
  FAKE_ENTER();                                       \
  CUcontext context = fake::CurrentContext(__func__); \
  (void)context;                                      \
  if (!context) return CUDA_ERROR_INVALID_CONTEXT

#define FAKE_NOT_WHILE_CAPTURING()             \
  if (fake::ForbiddenWhileCapturing(__func__)) \
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

CUstream LegacyStream(CUcontext context) {
  static CUstream_st legacy[kMaxDevices];
  CUstream stream = &legacy[context->device];
  if (!stream->context) {
    stream->context = context;
    stream->blocking = true;
    stream->chain = Machine::Get().NewChain();
  }
  return stream;
}

// Returns the stream of a handle. If it does not exist, reports a violation and
// returns null.
CUstream Resolve(CUstream handle, CUcontext context, const char* call) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    return LegacyStream(context);
  }
  if (!streams.count(handle)) {
    Machine::Get().Violate(std::string(call) +
                           " with a stream that does not exist");
    return nullptr;
  }
  if (handle->context != context) {
    Machine::Get().Violate(std::string(call) +
                           " with a stream of another context");
    return nullptr;
  }
  return handle;
}

bool ValidEvent(CUevent event, const char* call) {
  if (Machine::Get().Exists("event", event)) return true;
  Machine::Get().Violate(std::string(call) +
                         " with an event that does not exist");
  return false;
}

void Invalidate(const char* call, CUstream stream) {
  stream->capture->invalid = true;
  Machine::Get().Violate(std::string(call) + " on a stream that is captured");
}

// Returns the nodes that the next work on `stream` waits for. (It also waits
// until the host enqueues it.)
std::vector<NodePtr> Before(CUstream stream) {
  std::vector<NodePtr> before = stream->tails;
  CUstream legacy = LegacyStream(stream->context);
  if (stream == legacy) {
    for (CUstream other : streams) {
      if (other->blocking && other->context == stream->context) {
        before.insert(before.end(), other->tails.begin(), other->tails.end());
      }
    }
  } else if (stream->blocking) {
    before.insert(before.end(), legacy->tails.begin(), legacy->tails.end());
  }
  return before;
}

NodePtr EnqueueNow(CUstream stream, Work work) {
  const NodePtr node =
      Machine::Get().Enqueue(std::move(work), stream->chain, Before(stream));
  stream->tails = {node};
  return node;
}

// Returns a node that ends after all work that is on `stream` now, or null if
// the stream is empty.
NodePtr TailOf(CUstream stream) {
  const std::vector<NodePtr> before = Before(stream);
  if (before.empty()) return nullptr;
  if (before.size() == 1 && stream->tails == before) return before[0];
  return EnqueueNow(stream, {"join", nullptr, 0});
}

int SlotOf(Capture* capture, CUstream stream) {
  const auto [it, added] =
      capture->slots.try_emplace(stream, capture->slots.size());
  return it->second;
}

CUresult Enqueue(CUstream stream, Work work) {
  Machine& machine = Machine::Get();
  work.context = stream->context;
  // Inert work computes nothing, but takes its simulated time.
  if (machine.Option("inert")) work.run = nullptr;
  const bool computes =
      work.name.rfind("kernel", 0) == 0 || work.name.rfind("cudnn", 0) == 0;
  if (computes && machine.Planted("fail_launch")) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  // The operators of the tests are tiny. Their simulated times are scaled to
  // those of operators in real networks, because the engine would otherwise run
  // them hundreds of times for a measurement.
  if (computes && work.by_the_clock) {
    work.microseconds *= machine.Option("time_scale", 100);
  }
  if (stream->capture) {
    if (machine.Planted("invalidate_capture")) stream->capture->invalid = true;
    if (stream->capture->invalid) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUgraph_st& graph = stream->capture->graph;
    graph.nodes.push_back({std::move(work),
                           SlotOf(stream->capture.get(), stream),
                           stream->capture_tails});
    stream->capture_tails = {static_cast<int>(graph.nodes.size()) - 1};
    machine.Count("captured nodes");
    return CUDA_SUCCESS;
  }
  if (stream == LegacyStream(stream->context)) {
    for (const auto& capture : captures) {
      if (capture->origin->blocking) {
        capture->invalid = true;
        machine.Violate(
            "the legacy stream is used while a blocking stream is "
            "captured");
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
    machine.Count("legacy stream");
  }
  machine.Spend(kHostLaunch);
  work.latency = kLaunchMicroseconds;
  EnqueueNow(stream, std::move(work));
  return CUDA_SUCCESS;
}

// Returns by how many microseconds other work delays a graph. With the option
// "load", another process sometimes delays graphs with convolutions. With the
// option "slow_baseline", other graphs are delayed, as if more of their data
// had to be written to memory. With the option "slow_empty_graphs", two of
// three launches of empty graphs are delayed. The launches from number
// "burst_begin" to number "burst_end" are delayed by a second.
double DelayOf(const CUgraph_st& graph, int64_t number) {
  Machine& machine = Machine::Get();
  static int empty = 0;
  if (number >= machine.Option("burst_begin") &&
      number <= machine.Option("burst_end")) {
    return 1e6;
  }
  if (graph.nodes.empty() && empty++ % 3 != 0) {
    return machine.Option("slow_empty_graphs");
  }
  const bool convolves = std::any_of(
      graph.nodes.begin(), graph.nodes.end(),
      [](const auto& node) { return node.work.name.rfind("cudnn", 0) == 0; });
  if (!convolves) return machine.Option("slow_baseline");
  const int64_t load = machine.Option("load");
  return load > 0 ? machine.Random() % load : 0;
}

// Returns whether the stream at which the capture began waits for all nodes of
// the capture.
bool AllJoined(const Capture& capture) {
  std::vector<bool> reached(capture.graph.nodes.size(), false);
  std::vector<int> left = capture.origin->capture_tails;
  while (!left.empty()) {
    const int i = left.back();
    left.pop_back();
    if (reached[i]) continue;
    reached[i] = true;
    const std::vector<int>& after = capture.graph.nodes[i].after;
    left.insert(left.end(), after.begin(), after.end());
  }
  for (bool r : reached) {
    if (!r) return false;
  }
  return true;
}

void EndCapture(const std::shared_ptr<Capture>& capture) {
  for (CUstream stream : streams) {
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->capture_tails.clear();
    }
  }
  captures.erase(std::find(captures.begin(), captures.end(), capture));
}

CUresult SynchronizeWith(const NodePtr& node) {
  Machine& machine = Machine::Get();
  if (node) {
    machine.RunUntil(node);
    machine.HostSaw(node);
  }
  return CUDA_SUCCESS;
}

// Memory copies by the driver: any size and alignment.
void CopyToDevice(void* to, const void* from, size_t bytes) {
  Machine& machine = Machine::Get();
  if (machine.Option("inert") || !machine.Accessible(to, bytes)) return;
  machine.Write(to, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace

namespace fake {

CUresult EnqueueOn(CUstream handle, Work work) {
  Machine& machine = Machine::Get();
  std::lock_guard<std::recursive_mutex> lock(machine.mutex);
  CUcontext context = CurrentContext(work.name.c_str());
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  CUstream stream = Resolve(handle, context, work.name.c_str());
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  return Enqueue(stream, std::move(work));
}

bool IsCaptured(CUstream handle) {
  std::lock_guard<std::recursive_mutex> lock(Machine::Get().mutex);
  return streams.count(handle) && handle->capture;
}

bool ForbiddenWhileCapturing(const char* call) {
  for (const auto& capture : captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own)) {
      capture->invalid = true;
      Machine::Get().Violate(std::string(call) + " while a stream is captured");
      return true;
    }
  }
  return false;
}

CUcontext CurrentContext(const char* call) {
  if (!context_stack.empty()) return context_stack.back();
  Machine::Get().Violate(std::string(call) + " without a context");
  return nullptr;
}

}  // namespace fake

extern "C" {

// --- device and context

CUresult CUDAAPI cuInit(unsigned int) {
  FAKE_ENTER();
  initialized = true;
  return machine.Option("devices", 1) > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = Machine::Get().Option("driver_version", 13000);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      *text = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
      break;
    default:
      *text = "CUDA_ERROR_OF_THE_FAKE";
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "fake failure";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  FAKE_ENTER();
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = machine.Option("devices", 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_ENTER();
  if (ordinal < 0 || ordinal >= machine.Option("devices", 1)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "Fake GPU", size);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                      CUdevice) {
  FAKE_ENTER();
  const int capability = machine.Option("capability", 90);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = machine.Option("l2_bytes", fake::kCacheBytes);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice) {
  FAKE_ENTER();
  *bytes = machine.Option("total_bytes", int64_t{16} << 30);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  primary_contexts[device].device = device;
  *context = &primary_contexts[device];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  context_stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* popped) {
  FAKE_CONTEXT();
  *popped = context_stack.back();
  context_stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize() {
  FAKE_CONTEXT();
  for (const auto& capture : captures) {
    capture->invalid = true;
    machine.Violate("cuCtxSynchronize while a stream is captured");
  }
  if (!captures.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  machine.Count("cuCtxSynchronize");
  machine.RunAll();
  machine.HostSawEverything();
  for (CUstream stream : streams) {
    for (const NodePtr& node : stream->tails) machine.HostSaw(node);
  }
  return CUDA_SUCCESS;
}

// --- memory

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  FAKE_CONTEXT();
  FAKE_NOT_WHILE_CAPTURING();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  machine.Count("cuMemAlloc");
  machine.Prepare(kHostAllocation);
  void* const memory = machine.Allocate(bytes, context);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr pointer) {
  FAKE_CONTEXT();
  FAKE_NOT_WHILE_CAPTURING();
  if (pointer == 0) return CUDA_SUCCESS;
  machine.RunAll();  // cuMemFree waits for the device
  machine.Count("cuMemFree");
  machine.Prepare(kHostAllocation);
  return machine.Free(reinterpret_cast<void*>(pointer))
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// A copy from pageable memory may return before the device has the bytes.
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  FAKE_CONTEXT();
  FAKE_NOT_WHILE_CAPTURING();
  if (bytes == 0) return CUDA_SUCCESS;
  auto staged = std::make_shared<std::vector<char>>(
      static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  void* const device = reinterpret_cast<void*>(to);
  return Enqueue(LegacyStream(context), {"upload",
                                         [device, staged] {
                                           CopyToDevice(device, staged->data(),
                                                        staged->size());
                                         },
                                         bytes / kBytesPerMicrosecond});
}

// The call returns when the copy is complete. Work that the copy does not
// depend on may then still be pending, even if it was enqueued earlier.
CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes,
                                   CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    Invalidate(__func__, stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const void* const device = reinterpret_cast<const void*>(from);
  const CUresult result =
      Enqueue(stream, {"download",
                       [to, device, bytes] {
                         Machine& machine = Machine::Get();
                         if (!machine.Accessible(device, bytes)) return;
                         machine.Read(device, bytes);
                         std::memcpy(to, device, bytes);
                       },
                       bytes / kBytesPerMicrosecond});
  if (result == CUDA_SUCCESS) machine.RunUntil(stream->tails[0]);
  return result;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from,
                                   size_t bytes, CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    Invalidate(__func__, stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  auto staged = std::make_shared<std::vector<char>>(
      static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  void* const device = reinterpret_cast<void*>(to);
  return Enqueue(stream, {"upload",
                          [device, staged] {
                            CopyToDevice(device, staged->data(),
                                         staged->size());
                          },
                          bytes / kBytesPerMicrosecond});
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  machine.Count("cuMemcpyDtoDAsync");
  void* const target = reinterpret_cast<void*>(to);
  const void* const source = reinterpret_cast<const void*>(from);
  Work work = {"copy",
               [target, source, bytes] {
                 Machine& machine = Machine::Get();
                 if (!machine.Accessible(source, bytes)) return;
                 machine.Read(source, bytes);
                 CopyToDevice(target, source, bytes);
               },
               bytes / kBytesPerMicrosecond};
  work.accesses = {{source, bytes}, {target, bytes}};
  return Enqueue(stream, std::move(work));
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                 size_t bytes, CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  machine.Count("cuMemsetD8Async");
  void* const target = reinterpret_cast<void*>(to);
  Work work = {"memset",
               [target, value, bytes] {
                 Machine& machine = Machine::Get();
                 if (!machine.Accessible(target, bytes)) return;
                 machine.Write(target, bytes);
                 std::memset(target, value, bytes);
               },
               bytes / kBytesPerMicrosecond};
  work.accesses = {{target, bytes}};
  return Enqueue(stream, std::move(work));
}

// --- streams

CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned int flags) {
  FAKE_CONTEXT();
  *stream = new CUstream_st;
  (*stream)->context = context;
  (*stream)->blocking = !(flags & CU_STREAM_NON_BLOCKING);
  (*stream)->chain = machine.NewChain();
  streams.insert(*stream);
  machine.Made("stream", *stream);
  machine.Count("cuStreamCreate");
  machine.Prepare(kHostStream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  FAKE_CONTEXT();
  if (!machine.Unmade("stream", stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    Invalidate(__func__, stream);
    EndCapture(stream->capture);
  }
  machine.RetireChain(stream->chain);
  streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    Invalidate(__func__, stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  FAKE_NOT_WHILE_CAPTURING();
  machine.Count("cuStreamSynchronize");
  return SynchronizeWith(TailOf(stream));
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event,
                                   unsigned int) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream || !ValidEvent(event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  machine.Count("cuStreamWaitEvent");
  if (machine.Planted("drop_event")) return CUDA_SUCCESS;
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) {
      machine.Violate("cuStreamWaitEvent merges two captures");
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (event->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (std::find(captures.begin(), captures.end(), event->capture) ==
        captures.end()) {
      machine.Violate("cuStreamWaitEvent for an event of a capture that ended");
      return CUDA_ERROR_CAPTURED_EVENT;
    }
    stream->capture = event->capture;
    SlotOf(stream->capture.get(), stream);
    stream->capture_tails.insert(stream->capture_tails.end(),
                                 event->captured.begin(),
                                 event->captured.end());
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    if (!event->recorded) return CUDA_SUCCESS;
    stream->capture->invalid = true;
    machine.Violate(
        "a captured stream waits for an event that is not captured");
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->node) stream->tails.push_back(event->node);
  return CUDA_SUCCESS;
}

// --- events

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned int flags) {
  FAKE_CONTEXT();
  *event = new CUevent_st;
  (*event)->context = context;
  (*event)->timing = !(flags & CU_EVENT_DISABLE_TIMING);
  machine.Made("event", *event);
  machine.Count("cuEventCreate");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  FAKE_CONTEXT();
  if (!machine.Unmade("event", event)) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream || !ValidEvent(event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context != context) {
    machine.Violate("cuEventRecord with an event of another context");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  machine.Count("cuEventRecord");
  machine.Spend(kHostEvent);
  event->recorded = true;
  if (stream->capture) {
    event->capture = stream->capture;
    event->captured = stream->capture_tails;
    event->node = nullptr;
    return CUDA_SUCCESS;
  }
  event->capture = nullptr;
  event->node = TailOf(stream);
  if (!event->node) event->node = EnqueueNow(stream, {"join", nullptr, 0});
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  FAKE_CONTEXT();
  if (!ValidEvent(event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  FAKE_NOT_WHILE_CAPTURING();
  if (event->capture) {
    machine.Violate("cuEventQuery of a captured event");
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (event->node && !event->node->done) machine.RunSome();
  if (event->node && !event->node->done) return CUDA_ERROR_NOT_READY;
  return SynchronizeWith(event->node);
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  WaitWhileHeld();
  FAKE_CONTEXT();
  if (!ValidEvent(event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  FAKE_NOT_WHILE_CAPTURING();
  if (event->capture) {
    machine.Violate("cuEventSynchronize with a captured event");
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  machine.Count("cuEventSynchronize");
  return SynchronizeWith(event->node);
}

CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start,
                                    CUevent end) {
  FAKE_CONTEXT();
  if (!ValidEvent(start, __func__) || !ValidEvent(end, __func__)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->node || !end->node || !start->timing || !end->timing) {
    machine.Violate("cuEventElapsedTime with an event that has no time");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->node->done || !end->node->done) return CUDA_ERROR_NOT_READY;
  *milliseconds =
      (machine.EndOf(end->node) - machine.EndOf(start->node)) / 1000;
  return CUDA_SUCCESS;
}

// --- modules and kernels

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  FAKE_CONTEXT();
  FAKE_NOT_WHILE_CAPTURING();
  // A CUBIN or PTX of the fake NVRTC holds the capability and a library's path.
  int capability = 0, length = 0;
  const char* const text = static_cast<const char*>(image);
  const bool ptx =
      std::sscanf(text, "FAKE PTX compute_%d %n", &capability, &length) == 1;
  if (!ptx &&
      std::sscanf(text, "FAKE CUBIN sm_%d %n", &capability, &length) != 1) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  // The driver compiles PTX for any newer GPU.
  const int own = machine.Option("capability", 90);
  if (capability > own || (!ptx && capability / 10 != own / 10)) {
    machine.Violate("code for sm_" + std::to_string(capability));
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (ptx) machine.Count("cuModuleLoadData of PTX");
  void* const library = dlopen(text + length, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    machine.Violate(std::string("cuModuleLoadData: ") + dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = new CUmod_st;
  (*module)->context = context;
  (*module)->library = library;
  machine.Made("module", *module);
  machine.Count("cuModuleLoadData");
  machine.Prepare(kHostModule);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  FAKE_CONTEXT();
  FAKE_NOT_WHILE_CAPTURING();
  if (!machine.Unmade("module", module)) return CUDA_ERROR_INVALID_HANDLE;
  // The module's shared object stays loaded. So a graph that is launched after
  // its module was unloaded is reported as a violation, and does not crash.
  machine.RunAll();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module,
                                     const char* name) {
  FAKE_CONTEXT();
  if (!machine.Exists("module", module)) return CUDA_ERROR_INVALID_HANDLE;
  std::unique_ptr<CUfunc_st>& found = module->functions[name];
  if (!found) {
    const std::string text(name);
    auto call = reinterpret_cast<void (*)(void**)>(
        dlsym(module->library, ("ios_call_" + text).c_str()));
    auto sizes = reinterpret_cast<int (*)(unsigned*)>(
        dlsym(module->library, ("ios_sizes_" + text).c_str()));
    auto state =
        static_cast<IosHostState*>(dlsym(module->library, "ios_host_state"));
    if (!call || !sizes || !state) {
      module->functions.erase(name);
      return CUDA_ERROR_NOT_FOUND;
    }
    found = std::make_unique<CUfunc_st>();
    found->module = module;
    found->name = text;
    found->kernel = {call, state};
    unsigned buffer[256];
    const int count = sizes(buffer);
    found->sizes.assign(buffer, buffer + count);
    if (const void* bounds =
            dlsym(module->library, ("ios_bounds_" + text).c_str())) {
      found->most_threads = *static_cast<const unsigned*>(bounds);
    }
  }
  *function = found.get();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x,
                                unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes,
                                CUstream handle, void** parameters,
                                void** extra) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  const CUmodule module = function->module;
  if (!machine.Exists("module", module) || module->context != context) {
    machine.Violate("cuLaunchKernel of a module that was unloaded");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const IosHostIndex grid = {grid_x, grid_y, grid_z};
  const IosHostIndex block = {block_x, block_y, block_z};
  const uint64_t threads = uint64_t{block_x} * block_y * block_z;
  const uint64_t blocks = uint64_t{grid_x} * grid_y * grid_z;
  if (threads == 0 || threads > function->most_threads || block_z > 64 ||
      blocks == 0 || grid_x > 0x7fffffffu || grid_y > 65535 || grid_z > 65535 ||
      extra || shared_bytes != 0) {
    machine.Violate("cuLaunchKernel of " + function->name +
                    " with a bad configuration");
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t bytes = 0;
  for (unsigned size : function->sizes) bytes += size;
  if (bytes > 4096) {
    machine.Violate("cuLaunchKernel of " + function->name +
                    " with more than 4 KiB of parameters");
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Parameters are copied at the call.
  auto copies = std::make_shared<std::vector<std::vector<Chunk>>>();
  for (size_t i = 0; i < function->sizes.size(); ++i) {
    copies->emplace_back((function->sizes[i] + 15) / 16);
    std::memcpy(copies->back().data(), parameters[i], function->sizes[i]);
  }
  machine.Count("kernel " + function->name);
  machine.Count("cuLaunchKernel");
  const std::string name = "kernel " + function->name;
  const fake::HostKernel kernel = function->kernel;
  double microseconds = blocks * threads * kThreadMicroseconds;
  if (function->name == "Spin") {
    // The only parameter of this kernel says how long it runs.
    unsigned nanoseconds;
    std::memcpy(&nanoseconds, parameters[0], sizeof(nanoseconds));
    microseconds = nanoseconds / 1e3;
  }
  return Enqueue(
      stream,
      {name,
       [=] {
         Machine& machine = Machine::Get();
         if (!machine.Exists("module", module)) {
           machine.Violate(name + " of a module that was unloaded runs");
           return;
         }
         std::vector<void*> pointers;
         for (auto& copy : *copies) pointers.push_back(copy.data());
         if (!fake::RunKernel(kernel, grid, block, pointers.data(),
                              machine.Random(), machine.tracker())) {
           machine.Violate(name + ": threads do not meet at the same barrier");
         }
       },
       microseconds, function->name != "Spin", context,
       static_cast<int64_t>(blocks), static_cast<int64_t>(threads)});
}

// --- capture and graphs

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle,
                                      CUstreamCaptureMode mode) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  machine.Count("cuStreamBeginCapture");
  if (machine.Option("fail_begin_capture")) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream == LegacyStream(context) || stream->capture) {
    machine.Violate("cuStreamBeginCapture on a stream that cannot be captured");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  stream->capture = capture;
  stream->capture_tails.clear();
  SlotOf(capture.get(), stream);
  captures.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  FAKE_CONTEXT();
  *graph = nullptr;
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture || capture->origin != stream) {
    machine.Violate(
        "cuStreamEndCapture on a stream whose capture did not begin");
    return capture ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
                   : CUDA_ERROR_ILLEGAL_STATE;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    machine.Violate("cuStreamEndCapture by another thread");
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = AllJoined(*capture);
  EndCapture(capture);
  if (capture->invalid || machine.Option("fail_end_capture")) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (!joined) {
    machine.Violate("a capture ends with a stream that is not joined");
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = new CUgraph_st(std::move(capture->graph));
  (*graph)->slots = capture->slots.size();
  machine.Made("graph", *graph);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                             unsigned long long) {
  FAKE_CONTEXT();
  if (!machine.Exists("graph", graph)) return CUDA_ERROR_INVALID_HANDLE;
  if (machine.Option("fail_instantiate")) return CUDA_ERROR_OUT_OF_MEMORY;
  if (graph->nodes.empty() && machine.Option("no_empty_graphs")) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *exec = new CUgraphExec_st;
  (*exec)->graph = *graph;
  (*exec)->context = context;
  for (int i = 0; i < graph->slots; ++i) {
    (*exec)->chains.push_back(machine.NewChain());
  }
  machine.Made("graph exec", *exec);
  machine.Count("cuGraphInstantiate");
  machine.Prepare(kHostInstantiation + graph->nodes.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  LetOthersRun();
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!machine.Exists("graph exec", exec)) {
    machine.Violate("cuGraphLaunch of a graph that does not exist");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture) {
    Invalidate(__func__, stream);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const int64_t number = machine.Count("cuGraphLaunch");
  if (!exec->uploaded) machine.Count("cuGraphLaunch uploads");
  exec->uploaded = true;
  machine.Spend(kHostGraphLaunch + kHostGraphNode * exec->graph.nodes.size());
  // The graph runs after all work on the stream, and after its last launch.
  std::vector<NodePtr> roots = Before(stream);
  if (exec->last) roots.push_back(exec->last);
  const NodePtr start =
      machine.Enqueue({"graph launch", nullptr,
                       kLaunchMicroseconds + DelayOf(exec->graph, number)},
                      stream->chain, roots);
  std::vector<NodePtr> nodes;
  std::vector<bool> leaf(exec->graph.nodes.size(), true);
  for (const GraphNode& node : exec->graph.nodes) {
    std::vector<NodePtr> after;
    for (int i : std::set<int>(node.after.begin(), node.after.end())) {
      after.push_back(nodes[i]);
      leaf[i] = false;
    }
    if (after.empty()) after.push_back(start);
    Work work = node.work;
    work.latency =
        kGraphNodeMicroseconds +
        (after.size() - 1) * machine.Option("join_nanoseconds") / 1e3;
    nodes.push_back(
        machine.Enqueue(std::move(work), exec->chains[node.slot], after));
  }
  std::vector<NodePtr> leaves = {start};
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (leaf[i]) leaves.push_back(nodes[i]);
  }
  exec->last =
      machine.Enqueue({"graph end", nullptr, 0}, stream->chain, leaves);
  stream->tails = {exec->last};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream handle) {
  FAKE_CONTEXT();
  CUstream stream = Resolve(handle, context, __func__);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!machine.Exists("graph exec", exec)) {
    machine.Violate("cuGraphUpload of a graph that does not exist");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  exec->uploaded = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  FAKE_CONTEXT();
  if (!machine.Unmade("graph exec", exec)) return CUDA_ERROR_INVALID_HANDLE;
  for (uint32_t chain : exec->chains) machine.RetireChain(chain);
  delete exec;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  FAKE_CONTEXT();
  if (!machine.Unmade("graph", graph)) return CUDA_ERROR_INVALID_HANDLE;
  delete graph;
  return CUDA_SUCCESS;
}

// NVIDIA's cuDNN needs cuTensorMapEncodeTiled() and cuTensorMapEncodeIm2col()
// when it is loaded. real_cudnn.py loads it with this fake driver.
CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
    const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
    const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t,
    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return CUDA_SUCCESS;
}

}  // extern "C"
