#include "engines.h"

#include <algorithm>
#include <cmath>

#include "graph_text.h"
#include "machine.h"
#include "recordings.h"

namespace fake {
namespace {

struct Invented {
  double time;           // relative to the time of other engines
  int64_t workspace;     // in bytes, if no tensor has to be copied
  bool needs_alignment;  // addresses must be multiples of 16 bytes
  Arithmetic float_arithmetic;
  bool works;
  int64_t block_elements;  // the elements of the output that a block computes
};

// The fastest engine (2) is not exact enough for float32. Engine 3 may be
// faster or slower than engine 0, and has more blocks. Engine 4 is proposed,
// but its plans cannot be built.
constexpr Invented kInvented[] = {
    {1.5, 0, false, Arithmetic::kFloat32, true, 256},
    {1.0, 4096, true, Arithmetic::kTf32, true, 64},
    {0.5, 0, false, Arithmetic::kBFloat16, true, 64},
    {1.2, 512, false, Arithmetic::kFloat32, true, 32},
    {1.0, 0, false, Arithmetic::kFloat32, false, 64},
};
// The elements of the output that a block of any other engine computes.
constexpr int64_t kBlockElements = 64;
// The engine whose fused activations keep NaN, as in recordings, unless the
// option "nan_engine" names another.
constexpr int kNanEngine = 0;
constexpr int kReadyEngines = sizeof(kInvented) / sizeof(kInvented[0]);

// The option "tiles" adds this number of engines after those of kInvented. They
// fuse any graph and support tensors of any pitch. Each of them is twice as
// fast as the one before. They are compiled when a plan is built, unless the
// option "ready_tiles" is set. The option "tile_note" gives them one more
// numerical note. The engine of the option "compiled_engine" is compiled, too.
int EngineCount() { return kReadyEngines + Machine::Get().Option("tiles"); }

bool IsTile(int engine) { return engine >= kReadyEngines; }

Invented InventedAt(int engine) {
  if (!IsTile(engine)) return kInvented[engine];
  return {std::ldexp(1.2, kReadyEngines - engine),
          0,
          false,
          Arithmetic::kTf32,
          true,
          kBlockElements};
}

bool IsFloat(const OperationGraph& graph) {
  return graph.operations[0].x.type == CUDNN_DATA_FLOAT;
}

// Returns the workspace that an engine needs. As in cuDNN, engines with tensor
// cores copy a tensor that has a pitch, or whose channels do not have a
// multiple of 16 bytes.
int64_t WorkspaceOf(int engine, const OperationGraph& graph) {
  const Invented& invented = InventedAt(engine);
  int64_t bytes = invented.workspace;
  if (IsTile(engine) ||
      (IsFloat(graph) && invented.float_arithmetic == Arithmetic::kFloat32)) {
    return bytes;
  }
  for (const GraphTensor& tensor : graph.Tensors()) {
    if (tensor.dims[2] * tensor.dims[3] == 1) continue;
    const int64_t element = tensor.element_bytes(), channels = tensor.dims[1];
    if (tensor.strides[3] != channels || channels * element % 16 != 0) {
      const int64_t padded = (channels * element + 15) / 16 * 16;
      bytes += tensor.elements() / channels * padded;
    }
  }
  return bytes;
}

std::vector<cudnnBackendNumericalNote_t> NotesOf(const Invented& engine,
                                                 const OperationGraph& graph) {
  if (!IsFloat(graph)) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  switch (engine.float_arithmetic) {
    case Arithmetic::kTf32:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case Arithmetic::kBFloat16:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
              CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    default:
      return {};
  }
}

cudnnStatus_t StatusOf(const Invented& engine, const OperationGraph& graph) {
  if (!engine.works) return CUDNN_STATUS_NOT_SUPPORTED;
  for (const GraphTensor& tensor : graph.Tensors()) {
    if (engine.needs_alignment && tensor.alignment < 16) {
      return CUDNN_STATUS_NOT_SUPPORTED;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

int64_t Blocks(const OperationGraph& graph, int64_t block_elements) {
  const int64_t elements = graph.operations[0].y.elements();
  return std::max<int64_t>((elements + block_elements - 1) / block_elements, 1);
}

// Returns the simulated time of an engine of average speed, which is the option
// "flops_per_us". `seed` identifies the engine. Depending on it and on the
// shapes, the time is 0.75 to 1.25 times a mean value.
double Microseconds(const OperationGraph& graph, uint64_t seed) {
  uint64_t hash = seed + 1;
  for (int64_t dim : graph.operations[0].b.dims) hash = hash * 1000003 + dim;
  for (int64_t dim : graph.operations[0].x.dims) hash = hash * 1000003 + dim;
  const double variation =
      0.75 + 0.5 * (hash * 0x9e3779b97f4a7c15u >> 40) / (1 << 24);
  const int64_t speed = Machine::Get().Option("flops_per_us", 100'000);
  return variation * (2 + graph.Flops() / speed);
}

EnginePtr MakeInvented(const OperationGraph& graph, int index) {
  const Invented& invented = InventedAt(index);
  Engine engine;
  engine.index = index;
  engine.knobs = {{CUDNN_KNOB_TYPE_TILE_SIZE, index}};
  engine.numerical = NotesOf(invented, graph);
  if (index == Machine::Get().Option("nan_engine", kNanEngine)) {
    engine.numerical.push_back(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
  }
  if (const int64_t note = Machine::Get().Option("tile_note");
      IsTile(index) && note > 0) {
    engine.numerical.push_back(static_cast<cudnnBackendNumericalNote_t>(note));
  }
  if ((IsTile(index) && !Machine::Get().Option("ready_tiles")) ||
      index == Machine::Get().Option("compiled_engine", -1)) {
    engine.behavior = {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
  }
  engine.workspace = WorkspaceOf(index, graph);
  engine.status = StatusOf(invented, graph);
  if (IsFloat(graph)) engine.arithmetic = invented.float_arithmetic;
  engine.microseconds = invented.time * Microseconds(graph, index);
  engine.blocks = Blocks(graph, invented.block_elements);
  return std::make_shared<const Engine>(std::move(engine));
}

bool EndsInIdentity(const OperationGraph& graph) {
  const GraphOperation& last = graph.operations.back();
  return !last.convolution && last.mode == CUDNN_POINTWISE_IDENTITY;
}

// Returns the recorded answers for a graph, or null. With the option
// "any_recording", graphs that were not recorded get another graph's answers,
// so that they have as many plans as in the real cuDNN. But for graphs that end
// in an identity, cuDNN compiles plans, which the recorded answers do not have.
// So these graphs get no other answers.
const RecordedGraph* Recorded(const OperationGraph& graph) {
  const bool any =
      Machine::Get().Option("any_recording") && !EndsInIdentity(graph);
  return FindRecorded(KeyOf(graph), any);
}

// Adds the simulated values of an engine, which a recording does not contain.
EnginePtr Complete(Engine engine, const OperationGraph& graph) {
  for (const auto note : engine.numerical) {
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && IsFloat(graph)) {
      engine.arithmetic = Arithmetic::kTf32;
    }
  }
  engine.microseconds = Microseconds(graph, Hash(engine.Name()));
  engine.blocks = Blocks(graph, kBlockElements);
  return std::make_shared<const Engine>(std::move(engine));
}

std::vector<int> ProposeInvented(const OperationGraph& graph,
                                 cudnnBackendHeurMode_t mode) {
  if (mode == CUDNN_HEUR_MODE_B) return {2, 1, 3};
  if (mode != CUDNN_HEUR_MODE_A) return {0, 3};
  std::vector<int> engines = {1, 4, 0};
  if (EndsInIdentity(graph)) {
    for (int i = kReadyEngines; i < EngineCount(); ++i) engines.push_back(i);
  }
  return engines;
}

}  // namespace

std::string Engine::Name() const {
  std::string name = "eng" + std::to_string(index);
  for (const auto& [type, value] : knobs) {
    name += "_k" + std::to_string(type) + "=" + std::to_string(value);
  }
  return name;
}

bool Engine::KeepsNan() const {
  return std::find(numerical.begin(), numerical.end(),
                   CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) != numerical.end();
}

bool Engine::Compiles() const {
  return std::find(behavior.begin(), behavior.end(),
                   CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behavior.end();
}

std::vector<EnginePtr> Propose(const OperationGraph& graph,
                               cudnnBackendHeurMode_t mode) {
  std::vector<EnginePtr> proposed;
  if (const RecordedGraph* const recorded = Recorded(graph)) {
    Machine::Get().Count("cudnn recorded " + KeyOf(graph));
    const auto engines = recorded->proposed.find(mode);
    if (engines == recorded->proposed.end()) return {};
    for (const size_t i : engines->second) {
      proposed.push_back(Complete(recorded->engines[i], graph));
    }
    return proposed;
  }
  for (const int i : ProposeInvented(graph, mode)) {
    proposed.push_back(MakeInvented(graph, i));
  }
  return proposed;
}

EnginePtr FindEngine(const OperationGraph& graph, const std::string& name) {
  if (const RecordedGraph* const recorded = Recorded(graph)) {
    for (const Engine& engine : recorded->engines) {
      if (engine.Name() == name) return Complete(engine, graph);
    }
    return nullptr;
  }
  for (int i = 0; i < EngineCount(); ++i) {
    EnginePtr engine = MakeInvented(graph, i);
    if (engine->Name() == name) return engine;
  }
  return nullptr;
}

}  // namespace fake
