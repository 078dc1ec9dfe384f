// With _FORTIFY_SOURCE, longjmp() reports a jump to another stack as an error.
#undef _FORTIFY_SOURCE

#include "kernel_runner.h"

#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <vector>

namespace fake {
namespace {

// A stack that runs the threads of a block one after the other. If a thread
// waits at a barrier, it keeps this stack, and the remaining threads run on
// another one. A kernel without barriers thus runs as a simple loop on one
// stack. The runner switches stacks by longjmp(), which makes no system calls,
// because threads reach barriers millions of times.
struct Fibre {
  static constexpr size_t kStackBytes = 64 << 10;

  jmp_buf context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool started = false;
  IosHostIndex thread;
  bool waits = false;
};

struct Block {
  const HostKernel* kernel;
  void** parameters;
  unsigned threads;
  unsigned next;
  bool backwards;
  jmp_buf scheduler;
  Fibre* running;
};

// Kernels run one at a time.
Block current;
std::vector<std::unique_ptr<Fibre>>& Fibres() {
  static auto* fibres = new std::vector<std::unique_ptr<Fibre>>;
  return *fibres;
}

void Leave(Fibre* fibre) {
  if (_setjmp(fibre->context) == 0) _longjmp(current.scheduler, 1);
}

// Runs the threads of a block one after the other. Never returns: after a
// block, it waits for the next one.
void FibreMain() {
  Fibre* const self = current.running;
  while (true) {
    const IosHostIndex dim = current.kernel->state->block_dim;
    while (current.next < current.threads) {
      const unsigned i = current.next++;
      const unsigned t = current.backwards ? current.threads - 1 - i : i;
      self->thread = {t % dim.x, t / dim.x % dim.y, t / dim.x / dim.y};
      current.kernel->state->thread = self->thread;
      current.kernel->state->tracker->access_count = 0;
      current.kernel->call(current.parameters);
    }
    Leave(self);
  }
}

void Barrier() {
  Fibre* const fibre = current.running;
  fibre->waits = true;
  Leave(fibre);
  current.kernel->state->thread = fibre->thread;
  current.kernel->state->tracker->access_count = 0;
}

void Start(Fibre* fibre) {
  fibre->started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fibre->stack.get();
  context.uc_stack.ss_size = Fibre::kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, FibreMain, 0);
  setcontext(&context);
}

void Resume(Fibre* fibre) {
  fibre->waits = false;
  current.running = fibre;
  if (_setjmp(current.scheduler) != 0) return;
  if (fibre->started) _longjmp(fibre->context, 1);
  Start(fibre);
}

// Runs the current block. Returns false if only some of its threads arrived at
// a barrier.
bool RunBlock() {
  std::vector<Fibre*> waiting;
  size_t used = 0;
  size_t arrived = 0;
  while (current.next < current.threads) {
    if (used == Fibres().size()) Fibres().push_back(std::make_unique<Fibre>());
    Fibre* const fibre = Fibres()[used++].get();
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
    ++tracker->block_number;
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
