#include "kernel_runner.h"

#include <ucontext.h>

#include <memory>
#include <vector>

namespace fake {
namespace {

// A stack that runs one thread after the other, until one waits at a barrier:
// then it is that thread's, and the rest go on on another. So kernels without
// barriers are a loop.
struct Fibre {
  static constexpr size_t kStackBytes = 64 << 10;

  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  IosHostIndex thread;
  bool waits = false;
};

struct Block {
  const HostKernel* kernel;
  void** parameters;
  unsigned threads;
  unsigned next;
  bool backwards;
  ucontext_t scheduler;
  Fibre* running;
};

// Kernels run one at a time.
Block current;
std::vector<std::unique_ptr<Fibre>>& Fibres() {
  static auto* fibres = new std::vector<std::unique_ptr<Fibre>>;
  return *fibres;
}

void FibreMain() {
  const IosHostIndex dim = current.kernel->state->block_dim;
  while (current.next < current.threads) {
    const unsigned i = current.next++;
    const unsigned t = current.backwards ? current.threads - 1 - i : i;
    current.running->thread = {t % dim.x, t / dim.x % dim.y, t / dim.x / dim.y};
    current.kernel->state->thread = current.running->thread;
    current.kernel->state->tracker->access_count = 0;
    current.kernel->call(current.parameters);
  }
}

void Barrier() {
  Fibre* const fibre = current.running;
  fibre->waits = true;
  swapcontext(&fibre->context, &current.scheduler);
  current.kernel->state->thread = fibre->thread;
  current.kernel->state->tracker->access_count = 0;
}

void Resume(Fibre* fibre) {
  fibre->waits = false;
  current.running = fibre;
  swapcontext(&current.scheduler, &fibre->context);
}

// Whether all threads that had not ended met at every barrier.
bool RunBlock() {
  std::vector<Fibre*> waiting;
  size_t used = 0;
  size_t arrived = 0;
  while (current.next < current.threads) {
    if (used == Fibres().size()) Fibres().push_back(std::make_unique<Fibre>());
    Fibre* const fibre = Fibres()[used++].get();
    getcontext(&fibre->context);
    fibre->context.uc_stack.ss_sp = fibre->stack.get();
    fibre->context.uc_stack.ss_size = Fibre::kStackBytes;
    fibre->context.uc_link = &current.scheduler;
    makecontext(&fibre->context, FibreMain, 0);
    Resume(fibre);
    if (fibre->waits) {
      waiting.push_back(fibre);
      ++arrived;
    }
  }
  bool together = arrived == 0 || arrived == current.threads;
  while (!waiting.empty()) {
    std::vector<Fibre*> still;
    for (Fibre* fibre : waiting) {
      Resume(fibre);
      if (fibre->waits) still.push_back(fibre);
    }
    together &= still.empty() || still.size() == waiting.size();
    waiting = std::move(still);
  }
  return together;
}

}  // namespace

bool RunKernel(const HostKernel& kernel, IosHostIndex grid, IosHostIndex block,
               void** parameters, unsigned long order,
               IosHostTracker* tracker) {
  kernel.state->block_dim = block;
  kernel.state->grid_dim = grid;
  kernel.state->tracker = tracker;
  kernel.state->barrier = &Barrier;
  const unsigned long blocks =
      static_cast<unsigned long>(grid.x) * grid.y * grid.z;
  bool together = true;
  for (unsigned long i = 0; i < blocks; ++i) {
    const unsigned long b = order & 1 ? blocks - 1 - i : i;
    kernel.state->block = {static_cast<unsigned>(b % grid.x),
                           static_cast<unsigned>(b / grid.x % grid.y),
                           static_cast<unsigned>(b / grid.x / grid.y)};
    current.kernel = &kernel;
    current.parameters = parameters;
    current.threads = block.x * block.y * block.z;
    current.next = 0;
    current.backwards = order & 2;
    together &= RunBlock();
  }
  return together;
}

}  // namespace fake
