// Tests of the thread pool: every piece of every section runs once, before the
// section ends, no matter which threads have a core and when they lose it.
// tests/integration/test_cc.py compiles the pool with delays (see MayDelay),
// with and without ThreadSanitizer.

#include "cc/engine/cpu/threads/lanes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cc/engine/cpu/threads/cores.h"
#include "tests/cc/testing.h"

namespace ios::cpu {

thread_local std::minstd_rand random_delays{std::random_device()()};
thread_local bool leads = false;
std::atomic<bool> workers_have_cores{true};

void MayDelay() {
  if (!leads && !workers_have_cores.load()) {
    while (!workers_have_cores.load()) std::this_thread::yield();
  }
  switch (random_delays() % 16) {
    case 0:
      std::this_thread::sleep_for(
          std::chrono::microseconds(random_delays() % 100));
      break;
    case 1:
    case 2:
      std::this_thread::yield();
      break;
    default:
      break;
  }
}

namespace {

// Runs a section on the calling thread's lane, as oneDNN's loops and ours do.
template <typename F>
void Section(int pieces, F function) {
  const Job job = {[](void* f) { (*static_cast<F*>(f))(); }, &function};
  LanePool::StartParallel(job, pieces);
  job.function(job.argument);
  LanePool::EndParallel();
}

int Index() {
  const ThreadState& thread = CurrentThread();
  return thread.team && thread.nested == 0 ? thread.index : 0;
}

// Runs a section. Returns true if each of its pieces ran once.
bool RunsOnce(int pieces) {
  std::vector<int> runs(
      pieces);  // not atomic: the section's end orders accesses
  Section(pieces, [&] {
    MayDelay();
    ++runs[Index()];
  });
  for (int count : runs) {
    if (count != 1) return false;
  }
  return true;
}

TEST(EveryPieceRunsOnce) {
  leads = true;
  for (int threads = 1; threads <= 18; ++threads) {
    LanePool* pool = new LanePool(threads);  // never freed
    bool once = true;
    for (int session = 0; session < 20; ++session) {
      const LanePool::Session mine(LanePool::Session::kShared, pool);
      for (int i = 0; i < 20; ++i) {
        once &= RunsOnce(1 + static_cast<int>(random_delays() % threads));
      }
    }
    EXPECT(once);
  }
}

TEST(LanesRunSectionsOfTheirOwn) {
  leads = true;
  for (int threads : {1, 2, 3, 4, 6, 9, 18}) {
    LanePool* pool = new LanePool(threads);
    for (int lanes = 1; lanes <= threads; ++lanes) {
      std::atomic<int> wrong{0};
      std::vector<int> runs(lanes);
      const LanePool::Session mine(LanePool::Session::kShared, pool);
      for (int repeat = 0; repeat < 10; ++repeat) {
        pool->RunLanes(lanes, threads / lanes, [&](int lane) {
          ++runs[lane];
          for (int i = 0; i < 3; ++i) {
            if (!RunsOnce(threads / lanes)) ++wrong;
          }
        });
      }
      for (int count : runs) wrong += count != 10;
      EXPECT(wrong == 0);
    }
  }
}

TEST(BarriersWaitForAllPieces) {
  leads = true;
  for (int threads : {1, 2, 5, 8}) {
    LanePool* pool = new LanePool(threads);
    const LanePool::Session mine(LanePool::Session::kShared, pool);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<int> steps(threads);
      std::atomic<int> wrong{0};
      Section(threads, [&] {
        for (int step = 1; step <= 3; ++step) {
          steps[Index()] = step;
          if (CurrentThread().team) LanePool::Barrier(CurrentThread().team);
          for (int other : steps) wrong += other != step;
          if (CurrentThread().team) LanePool::Barrier(CurrentThread().team);
        }
      });
      EXPECT(wrong == 0);
    }
  }
}

TEST(TheLeaderRunsWhatNobodyBegins) {
  leads = true;
  // Now every worker waits in MayDelay() before it takes its first piece, as if
  // it had no core. The leader must therefore run all pieces itself.
  workers_have_cores = false;
  LanePool* pool = new LanePool(4);
  {
    const LanePool::Session mine(LanePool::Session::kShared, pool);
    for (int i = 0; i < 100; ++i) EXPECT(RunsOnce(4));
    std::vector<int> runs(4);
    pool->RunLanes(4, 1, [&](int lane) { ++runs[lane]; });
    EXPECT(runs == std::vector<int>(4, 1));
  }
  workers_have_cores = true;
}

TEST(SectionsThatNeedTheirThreadsAtOnceHaveNoMoreThanThereAre) {
  leads = true;
  LanePool* pool = new LanePool(3);
  const LanePool::Session mine(LanePool::Session::kShared, pool);
  for (int i = 0; i < 50; ++i) {
    const ScopedReadyThreads at_once;
    const int threads = CurrentThread().at_once;
    EXPECT(threads >= 1 && threads <= 3);
    std::atomic<int> arrived{0};
    Section(3, [&] {
      ++arrived;
      while (arrived.load() < threads) std::this_thread::yield();
    });
    EXPECT(arrived == threads);
  }
}

TEST(WhatAPieceThrowsEndsTheSectionAndNoThread) {
  leads = true;
  LanePool* pool = new LanePool(4);
  const LanePool::Session mine(LanePool::Session::kShared, pool);
  for (int piece = 0; piece < 4; ++piece) {
    std::atomic<int> ended{0}, caught{0};
    try {
      ParallelFor(4, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if (i == piece) throw std::bad_alloc();
          ++ended;
        }
      });
    } catch (const std::bad_alloc&) {
      ++caught;
    }
    EXPECT(caught == 1 && ended == 3);
    try {
      pool->RunLanes(4, 1, [&](int lane) {
        if (lane >= piece) throw std::bad_alloc();
      });
    } catch (const std::bad_alloc&) {
      ++caught;
    }
    EXPECT(caught == 2);
    EXPECT(RunsOnce(4));
  }
}

TEST(DenormalsAreZeroOnAllThreadsOfASessionOnly) {
  const volatile float denormal = 1e-40f;
  const auto is_zero = [&] { return denormal * 1.0f == 0.0f; };
  LanePool* pool = new LanePool(3);
  EXPECT(!is_zero());
  std::atomic<int> zeros{0};
  {
    const LanePool::Session mine(LanePool::Session::kShared, pool);
    EXPECT(is_zero());
    Section(3, [&] {
      if (CurrentThread().team) LanePool::Barrier(CurrentThread().team);
      zeros += is_zero();
    });
  }
  EXPECT(zeros == 3);
  EXPECT(!is_zero());
}

std::atomic<int> usable_cores{1};

TEST(ThePoolFollowsWhatTheProcessMayUse) {
  leads = true;
  LanePool* pool = new LanePool(1, 4, [] { return usable_cores.load(); });
  // If pieces wait for each other, each piece needs its own thread.
  const auto threads = [&] {
    const LanePool::Session mine(LanePool::Session::kShared, pool);
    std::vector<std::thread::id> ids(pool->cores());
    Section(pool->cores(), [&] {
      if (CurrentThread().team) LanePool::Barrier(CurrentThread().team);
      ids[Index()] = std::this_thread::get_id();
    });
    return std::set<std::thread::id>(ids.begin(), ids.end()).size();
  };
  EXPECT(pool->cores() == 1 && threads() == 1);
  const struct {
    int usable, cores, active;
  } steps[] = {{3, 3, 3}, {2, 3, 2}, {9, 4, 4}, {1, 4, 1}, {4, 4, 4}};
  for (const auto& step : steps) {
    usable_cores = step.usable;
    pool->CountCores();
    EXPECT(pool->cores() == step.cores && pool->active() == step.active);
    EXPECT(pool->most_cores() == 4);
    EXPECT(threads() == static_cast<size_t>(step.cores));
    const LanePool::Session mine(LanePool::Session::kShared, pool);
    EXPECT(RunsOnce(step.cores));
  }
}

// A pool that may use kCores cores, on any machine.
template <int kCores>
LanePool* PoolOf() {
  return new LanePool(kCores, kCores, [] { return kCores; });  // never freed
}

// Runs a section. Returns the number of threads that the calling thread's crew
// has afterwards.
int ThreadsNow() {
  RunsOnce(CurrentThread().lane->size);
  return CurrentThread().lane->crew->threads();
}

TEST(CallersAtTheSameTimeRunEveryPieceOnce) {
  for (int threads : {1, 2, 3, 5}) {
    LanePool* pool = new LanePool(threads);
    std::atomic<int> wrong{0}, open{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 6; ++i) {
      callers.emplace_back([&] {
        leads = true;
        for (int session = 0; session < 30; ++session) {
          const LanePool::Session mine(LanePool::Session::kShared, pool);
          wrong += open.fetch_add(1) >= threads;
          for (int k = 0; k < 4; ++k) wrong += !RunsOnce(threads);
          const int lanes = 1 + session % threads;
          std::vector<int> runs(lanes);
          LanePool::RunLanes(lanes, threads / lanes, [&](int lane) {
            ++runs[lane];
            wrong += !RunsOnce(threads / lanes);
          });
          for (int count : runs) wrong += count != 1;
          --open;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT(wrong == 0);
  }
}

// Holds a session in a separate thread. `at` counts the steps that the holder
// has done; Step() lets it do the next one.
class Holder {
 public:
  explicit Holder(LanePool* pool,
                  LanePool::Session::Kind kind = LanePool::Session::kShared)
      : thread_([this, pool, kind] {
          leads = true;
          const LanePool::Session mine(kind, pool);
          while (true) {
            threads_ = ThreadsNow();
            const int done = done_.fetch_add(1) + 1;
            while (wanted_ == done) std::this_thread::yield();
            if (wanted_ < 0) return;
          }
        }) {}
  ~Holder() { End(); }
  // Waits until the session is open and has run a section.
  void Wait() const {
    while (done_ < wanted_) std::this_thread::yield();
  }
  // Runs another section. Returns the number of threads that the crew has.
  int Step() {
    Wait();
    ++wanted_;
    Wait();
    return threads_;
  }
  bool is_open() const { return done_ > 0; }
  void End() {
    if (!thread_.joinable()) return;
    Wait();
    wanted_ = -1;
    thread_.join();
  }

 private:
  std::atomic<int> threads_{0}, done_{0}, wanted_{1};
  std::thread thread_;
};

TEST(CrewsShareTheThreads) {
  LanePool* pool = PoolOf<8>();
  Holder first(pool);
  EXPECT(first.Step() == 8);
  Holder second(pool);
  second.Wait();
  // The first crew returns workers at its next section, and the second takes
  // them.
  EXPECT(first.Step() == 4 && second.Step() == 4);
  {
    Holder third(pool);
    third.Wait();
    std::vector<int> sizes;
    for (int repeat = 0; repeat < 2; ++repeat) {
      sizes = {first.Step(), second.Step(), third.Step()};
    }
    EXPECT(sizes[0] + sizes[1] + sizes[2] == 8);
    for (int size : sizes) EXPECT(size == 2 || size == 3);
  }
  // The cores of a caller that has left stay free for a while.
  while (first.Step() != 4 || second.Step() != 4) {
  }
  second.End();
  while (first.Step() != 8) {
  }
}

TEST(AsManyCallersAsCoresHaveOneThreadEach) {
  LanePool* pool = PoolOf<2>();
  Holder first(pool), second(pool);
  first.Wait();
  second.Wait();
  EXPECT(first.Step() == 1 && second.Step() == 1);
  // A third caller waits until one of the others leaves.
  Holder third(pool);
  for (int i = 0; i < 20; ++i) first.Step();
  EXPECT(!third.is_open());
  first.End();
  third.Wait();
  EXPECT(third.Step() == 1 && second.Step() == 1);
}

TEST(CallersWaitInLineForASessionAlone) {
  LanePool* pool = PoolOf<4>();
  Holder first(pool);
  first.Wait();
  Holder alone(pool, LanePool::Session::kAlone);
  // Waiting callers are served in the order of arrival, so wait until `alone`
  // is one of them.
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT(!alone.is_open());
  first.End();
  alone.Wait();
  EXPECT(alone.Step() == 4);
  Holder last(pool);
  for (int i = 0; i < 20; ++i) alone.Step();
  EXPECT(!last.is_open());
  alone.End();
  last.Wait();
  EXPECT(last.Step() == 4);
}

// A caller that has waited moves to the core of the caller that has left. It
// may use the same cores afterwards as before.
TEST(CallersThatWaitKeepTheirCores) {
  LanePool* pool = PoolOf<1>();
  std::atomic<int> changed{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      leads = true;
      cpu_set_t before, after;
      EXPECT(CoresOfThread(&before));
      for (int session = 0; session < 50; ++session) {
        const LanePool::Session mine(LanePool::Session::kShared, pool);
        std::this_thread::yield();
        EXPECT(CoresOfThread(&after));
        changed += !CPU_EQUAL(&before, &after);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT(changed == 0);
}

TEST(BarriersOfSeveralCallersHaveAThreadForEachPiece) {
  LanePool* pool = PoolOf<3>();
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      leads = true;
      for (int session = 0; session < 10; ++session) {
        const LanePool::Session mine(LanePool::Session::kShared, pool);
        std::vector<int> steps(3);
        Section(3, [&] {
          for (int step = 1; step <= 2; ++step) {
            steps[Index()] = step;
            if (CurrentThread().team) LanePool::Barrier(CurrentThread().team);
            for (int other : steps) wrong += other != step;
            if (CurrentThread().team) LanePool::Barrier(CurrentThread().team);
          }
        });
        const ScopedReadyThreads at_once;
        const int ready = CurrentThread().at_once;
        std::atomic<int> arrived{0};
        Section(3, [&] {
          ++arrived;
          while (arrived.load() < ready) std::this_thread::yield();
        });
        wrong += arrived != ready;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT(wrong == 0);
}

TEST(SectionsWithoutALaneRunOnTheirThread) {
  EXPECT(RunsOnce(1));
  int runs = 0;
  Section(4, [&] { ++runs; });
  EXPECT(runs == 1);
}

// A temporary directory with the files of control groups.
class Groups {
 public:
  Groups() {
    char name[] = "/tmp/ios_tf_groups_XXXXXX";
    root_ = mkdtemp(name);
  }
  ~Groups() { std::system(("rm -r " + root_).c_str()); }
  void Write(const std::string& name, const std::string& text) const {
    for (size_t i = name.find('/'); i != std::string::npos;
         i = name.find('/', i + 1)) {
      mkdir((root_ + "/" + name.substr(0, i)).c_str(), 0700);
    }
    std::ofstream(root_ + "/" + name) << text;
  }
  std::vector<int> NodesOf() const { return NodesOfCores(root_); }
  double Cores() const { return CoresOfQuota(root_ + "/groups", root_); }

 private:
  std::string root_;
};

TEST(NodesOfCoresComeFromTheSystemsLists) {
  const auto write = [](const Groups& groups, int node,
                        const std::string& list) {
    groups.Write("node" + std::to_string(node) + "/cpulist", list + "\n");
  };
  Groups none;
  EXPECT(none.NodesOf().empty());
  Groups two;
  write(two, 0, "0-1,4");
  write(two, 1, "");  // memory alone
  write(two, 2, "2-3,5");
  EXPECT(two.NodesOf() == std::vector<int>({0, 0, 1, 1, 0, 1}));
  Groups broken;
  write(broken, 0, "1,x");
  write(broken, 1, "5-2");
  write(broken, 2, "0-99999999");
  write(broken, 3, "2");
  EXPECT(broken.NodesOf() == std::vector<int>({0, 0, 1}));
}

TEST(QuotasOfControlGroups) {
  {
    Groups none;
    EXPECT(none.Cores() == 0);
    none.Write("groups", "nonsense\n0:\n\n");
    EXPECT(none.Cores() == 0);
  }
  Groups two;
  two.Write("groups", "0::/pods/one\n");
  EXPECT(two.Cores() == 0);
  two.Write("pods/one/cpu.max", "max 100000\n");
  EXPECT(two.Cores() == 0);
  two.Write("pods/one/cpu.max", "150000 100000\n");
  EXPECT(two.Cores() == 1.5);
  two.Write("pods/cpu.max", "50000 100000\n");  // the smaller quota applies
  EXPECT(two.Cores() == 0.5);
  two.Write("pods/cpu.max", "broken");
  EXPECT(two.Cores() == 1.5);

  Groups one;
  one.Write("groups", "4:memory:/m\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  one.Write("cpu/cpu.cfs_quota_us", "-1\n");
  one.Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT(one.Cores() == 0);
  one.Write("cpu/cpu.cfs_quota_us", "300000\n");  // as a container sees it
  EXPECT(one.Cores() == 3);
  one.Write("cpu/docker/abc/cpu.cfs_quota_us", "250000\n");
  one.Write("cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT(one.Cores() == 2.5);
}

}  // namespace
}  // namespace ios::cpu
