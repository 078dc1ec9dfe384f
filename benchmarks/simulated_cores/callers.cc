// Simulates threads that call a network on a machine with any number of cores
// (machine.h). The engine's own thread pool decides which thread runs where and
// when. Reads parameters and sections (parallel loops) from standard input, as
// callers.py writes them, and prints the results as JSON.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/simulated_cores/machine.h"
#include "cc/engine/cpu/free_list.h"
#include "cc/engine/cpu/threads/cores.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

using simulated::Machine;

int cores = 0;

struct Section {
  int64_t before, all, longest;  // nanoseconds
  int pieces;
};

struct Load {
  int nodes = 1, callers = 1, copies = 1, calls = 1, warmup = 0;
  bool alone = false;    // one region at a time
  int64_t outside = 0;   // nanoseconds between two calls of a caller
  double far_work = 1;   // factor for pieces on another node
  double variation = 0;  // of the durations of pieces
  std::vector<Section> sections;

  int widest() const {
    int most = 1;
    for (const Section& section : sections) {
      most = std::max(most, section.pieces);
    }
    return most;
  }
};

struct Results {
  int done = 0;
  int64_t begin = 0, end = 0;
  std::vector<int64_t> latencies;
};

// Stands for the memory of a call, which the simulation does not need.
struct Arena {};

// The state that all callers use.
struct Shared {
  LanePool pool;
  Copies<Arena> copies;
  FreeList<Arena> workspaces;
  Results results;
};

class Caller {
 public:
  Caller(const Load& load, int number, Shared* shared)
      : load_(load), random_(number + 1), shared_(shared) {}

  // Calls the network until all callers together have called it often enough.
  void Run() {
    Machine* const machine = Machine::Get();
    Results& results = shared_->results;
    machine->Work(random_() % (load_.outside + 1));
    while (true) {
      machine->Work(load_.outside);
      const int64_t begin = machine->now();
      Call();
      const int64_t end = machine->now();
      if (++results.done == load_.warmup) {
        results.begin = end;
        machine->ForgetWaits();
      }
      if (results.done > load_.warmup) {
        results.latencies.push_back(end - begin);
        results.end = end;
      }
      if (results.done == load_.warmup + load_.calls) machine->Stop();
    }
  }

 private:
  // Takes copies and cores in the order of CpuExecution.
  void Call() {
    if (shared_->copies.most() < cores) {
      const Lease<Arena> copy = TakeCopy();
      const LanePool::Session session(Kind(), &shared_->pool, load_.widest());
      return RunSections();
    }
    const LanePool::Session session(Kind(), &shared_->pool, load_.widest());
    const Lease<Arena> copy = TakeCopy();
    RunSections();
  }

  LanePool::Session::Kind Kind() const {
    return load_.alone ? LanePool::Session::kAlone : LanePool::Session::kShared;
  }

  Lease<Arena> TakeCopy() {
    return shared_->copies.Take([] { return std::make_unique<Arena>(); });
  }

  void RunSections() {
    std::unique_ptr<Arena> workspace = shared_->workspaces.Take();
    if (!workspace) workspace = std::make_unique<Arena>();
    const Lease<Arena> lease(&shared_->workspaces, std::move(workspace));
    for (size_t i = 0; i < load_.sections.size(); ++i) Run(i);
  }

  // Runs a section as oneDNN's loops do.
  void Run(int number) {
    const Section& section = load_.sections[number];
    Machine::Get()->Work(section.before);
    leader_core_ = Machine::Get()->core();
    number_ = number;
    const Job job = {
        [](void* caller) { static_cast<Caller*>(caller)->RunPiece(); }, this};
    LanePool::StartParallel(job, section.pieces);
    RunPiece();
    LanePool::EndParallel();
  }

  void RunPiece() {
    const Section& section = load_.sections[number_];
    const ThreadState& thread = CurrentThread();
    const int index = thread.team ? thread.index : 0;
    double ns = section.longest;
    if (index != number_ * 7919 % section.pieces) {
      ns = static_cast<double>(section.all - section.longest) /
           (section.pieces - 1);
    }
    Machine* const machine = Machine::Get();
    if (!machine->SameNode(machine->core(), leader_core_)) {
      ns *= load_.far_work;
    }
    ns *= 1 + load_.variation * (static_cast<int>(random_() % 2001) / 1e3 - 1);
    machine->Work(static_cast<int64_t>(ns));
  }

  const Load& load_;
  std::minstd_rand random_;
  Shared* const shared_;
  int leader_core_ = 0, number_ = 0;  // of the section that runs
};

int64_t Nanoseconds(double microseconds) {
  return static_cast<int64_t>(microseconds * 1e3);
}

// Reads "name value" lines up to "sections", and then a line for each section.
bool Read(Load* load) {
  std::string name;
  double value;
  while (std::cin >> name && name != "sections") {
    if (!(std::cin >> value)) return false;
    if (name == "cores") cores = static_cast<int>(value);
    if (name == "nodes") load->nodes = static_cast<int>(value);
    if (name == "callers") load->callers = static_cast<int>(value);
    if (name == "copies") load->copies = static_cast<int>(value);
    if (name == "calls") load->calls = static_cast<int>(value);
    if (name == "warmup") load->warmup = static_cast<int>(value);
    if (name == "alone") load->alone = value != 0;
    if (name == "outside_us") load->outside = Nanoseconds(value);
    if (name == "far_work") load->far_work = value;
    if (name == "variation") load->variation = value;
  }
  double before, pieces, all, longest;
  while (std::cin >> before >> pieces >> all >> longest) {
    load->sections.push_back({Nanoseconds(before), Nanoseconds(all),
                              Nanoseconds(longest), static_cast<int>(pieces)});
  }
  return cores >= 1 && cores <= simulated::kMostCores &&
         !load->sections.empty();
}

void Print(Results* results, const Machine& machine) {
  std::vector<int64_t>& latencies = results->latencies;
  std::sort(latencies.begin(), latencies.end());
  const auto percentile = [&](double share) {
    return static_cast<double>(
               latencies[static_cast<size_t>(share * (latencies.size() - 1))]) /
           1e6;
  };
  const double seconds =
      static_cast<double>(results->end - results->begin) / 1e9;
  std::printf(
      "{\"calls_per_s\": %.3f, \"p50_ms\": %.4f, \"p90_ms\": %.4f, "
      "\"p99_ms\": %.4f, \"waits_us_per_call\": {",
      static_cast<double>(latencies.size()) / seconds, percentile(0.5),
      percentile(0.9), percentile(0.99));
  const auto waits = machine.Waits();
  for (size_t i = 0; i < std::min<size_t>(waits.size(), 12); ++i) {
    std::printf("%s\"%s\": %.3f", i > 0 ? ", " : "", waits[i].first.c_str(),
                static_cast<double>(waits[i].second) / 1e3 / latencies.size());
  }
  std::printf("}}\n");
}

int Main() {
  Load load;
  if (!Read(&load)) {
    std::fprintf(stderr, "The input has no sections or a wrong core count.\n");
    return 2;
  }
  Machine machine(cores, load.nodes, simulated::Costs());
  Shared shared{LanePool(cores, cores, [] { return cores; }),
                Copies<Arena>(load.copies),
                FreeList<Arena>(cores),
                {}};
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < load.callers; ++i) {
    callers.push_back(std::make_unique<Caller>(load, i, &shared));
    machine.Start([caller = callers.back().get()] { caller->Run(); });
  }
  machine.Run();
  Print(&shared.results, machine);
  std::fflush(stdout);
  std::_Exit(0);  // the pool's threads never end
}

}  // namespace

// The pool of the simulation never asks the real machine.
int UsableCores() { return cores; }
int AllowedCores() { return cores; }
int WantedThreads() { return 0; }
int MachineCores() { return cores; }

}  // namespace ios::cpu

int main() { return ios::cpu::Main(); }
