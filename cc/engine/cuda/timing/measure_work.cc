#include "cc/engine/cuda/timing/measure_work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "cc/engine/cuda/driver/graph_capture.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {
namespace {

// The shortest duration of a sample.
constexpr double kSampleMilliseconds = 0.3;
// The largest number of runs in one graph. A graph contains many runs of short
// work, so that the time of its launch is negligible. It does not contain more,
// because graphs of whole networks already have thousands of nodes.
constexpr int kMaxRunsInGraph = 32;
// The number of samples of the baseline (the same launches without the work),
// of which the median is used.
constexpr int kBaselineSamples = 3;
// The resolution of times between CUDA events.
constexpr double kClockMilliseconds = 0.0005;
// CompareCold() ignores work whose time above the baseline is less than this
// many times the uncertainty of the baseline.
constexpr double kClearlyAbove = 3;
// The samples of work are steady if their median is at most this many times
// their minimum. A sample that is longer than that was probably disturbed.
constexpr double kSteady = 1.05;
// CompareCold() measures at least this many runs per sample.
constexpr int kRunsOfWays = 3;
// CompareCold() does not sample work whose first runs take this many times as
// long as the fastest work.
constexpr double kFarSlower = 2;

// If a GPU was idle for kIdle, its clocks are low. Work for kWarmupMilliseconds
// raises them.
constexpr std::chrono::milliseconds kIdle{100};
constexpr int kWarmupMilliseconds = 50;
constexpr int kWarmupLaunchMilliseconds = 5;

// The shortest and the longest time for which the GPU is kept busy while a
// sample is enqueued.
constexpr double kLeastSpinMilliseconds = 0.05;
constexpr double kMostSpinMilliseconds = 2;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Min(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

bool AreSteady(const std::vector<double>& values) {
  return Median(values) <= kSteady * Min(values);
}

// State of the measurements on one GPU.
struct Measurements {
  // Is locked during a measurement, because concurrent measurements on one GPU
  // would disturb each other.
  std::mutex mutex;
  std::optional<std::chrono::steady_clock::time_point> last_sample;

  static Measurements& Of(const Device* device) {
    static std::mutex mutex;
    static auto* const all = new std::map<int, Measurements>;  // by ordinal
    std::lock_guard<std::mutex> lock(mutex);
    return (*all)[device->ordinal()];
  }
};

class Sampler {
 public:
  static StatusOr<std::unique_ptr<Sampler>> Create(const Device* device) {
    std::unique_ptr<Sampler> sampler(new Sampler(device));
    IOS_ASSIGN_OR_RETURN(sampler->stream_, MakeStream(device));
    IOS_ASSIGN_OR_RETURN(sampler->start_, MakeEvent(device, /*timing=*/true));
    IOS_ASSIGN_OR_RETURN(sampler->stop_, MakeEvent(device, /*timing=*/true));
    sampler->spin_.device = device;
    IOS_ASSIGN_OR_RETURN(
        sampler->spin_.function,
        KernelCache::Of(device)->Get(
            {"Spin", kTimingSource, {{"IOS_DTYPE", 0}, {"IOS_VECTOR", 1}}}));
    return sampler;
  }

  ~Sampler() { const FinishAtEnd finish(device_, stream_.get()); }

  // Raises the GPU's clocks if the last sample was long ago.
  Status WarmClocks() {
    const auto now = std::chrono::steady_clock::now();
    const auto& last = measurements_.last_sample;
    if (last && now - *last < kIdle) return Status();
    spin_.grid_x = device_->multiprocessors();
    for (int i = 0; i < kWarmupMilliseconds; i += kWarmupLaunchMilliseconds) {
      IOS_RETURN_IF_ERROR(Spin(kWarmupLaunchMilliseconds));
    }
    spin_.grid_x = 1;
    return Synchronize();
  }

  // Work that is ready to be measured.
  struct Prepared {
    bool given_up = false;  // if true, the work is not ready
    Enqueuer run;           // `before` and the work, once
    Enqueuer before;        // WorkMeasurement::before; may be empty
    GraphExec graph;        // runs_in_graph runs; null: enqueue each run
    GraphExec baseline;     // the same without the work
    int runs_in_graph = 1;
    int launches = 1;                      // per sample
    double spin = kLeastSpinMilliseconds;  // while launches are enqueued
    std::vector<double> baselines;         // milliseconds, per sample

    int runs() const { return launches * runs_in_graph; }  // per sample
  };

  // Makes `work` ready to be measured. `fastest` is the milliseconds of the
  // fastest run of any work so far; Prepare() updates it.
  StatusOr<Prepared> Prepare(const Enqueuer& work,
                             const WorkMeasurement& measurement,
                             double* fastest) {
    Prepared prepared;
    prepared.before = measurement.before;
    prepared.run = [before = measurement.before,
                    &work](CUstream stream) -> Status {
      if (before) IOS_RETURN_IF_ERROR(before(stream));
      return work(stream);
    };
    // The first run is not timed, because it also loads the kernels.
    IOS_RETURN_IF_ERROR(prepared.run(stream_.get()));
    IOS_RETURN_IF_ERROR(Synchronize());
    IOS_RETURN_IF_ERROR(MakeGraphs(1, &prepared));
    // The graph is launched twice, and the first time is ignored, because the
    // first launch also uploads the graph.
    IOS_ASSIGN_OR_RETURN(double once, Elapsed(&prepared, prepared.graph, 1));
    IOS_ASSIGN_OR_RETURN(once, Elapsed(&prepared, prepared.graph, 1));
    if (measurement.give_up > 0 && once > measurement.give_up * *fastest) {
      // Measures again, because other processes may have delayed the run.
      IOS_ASSIGN_OR_RETURN(once, Elapsed(&prepared, prepared.graph, 1));
      prepared.given_up = once > measurement.give_up * *fastest;
      if (prepared.given_up) return prepared;
    }
    *fastest = std::min(*fastest, once);
    const double wanted =
        kSampleMilliseconds / std::max(once, kSampleMilliseconds / 1000);
    const int runs = std::max<int>(measurement.least_runs, std::ceil(wanted));
    const int in_graph = std::min(runs, kMaxRunsInGraph);
    if (prepared.graph && in_graph > 1 && once < kSampleMilliseconds) {
      IOS_RETURN_IF_ERROR(MakeGraphs(in_graph, &prepared));
    }
    prepared.launches =
        (runs + prepared.runs_in_graph - 1) / prepared.runs_in_graph;
    const int warmup = std::max(measurement.warmup, 1);
    for (int i = 0; i < warmup;
         i += prepared.launches * prepared.runs_in_graph) {
      IOS_RETURN_IF_ERROR(
          Elapsed(&prepared, prepared.graph, prepared.launches).status());
    }
    for (int i = 0; prepared.baseline && i < kBaselineSamples; ++i) {
      const StatusOr<double> baseline =
          Elapsed(&prepared, prepared.baseline, prepared.launches);
      if (!baseline.ok()) break;
      prepared.baselines.push_back(*baseline);
    }
    return prepared;
  }

  // Takes a sample and returns its milliseconds, including the baseline.
  StatusOr<double> Sample(Prepared* prepared) {
    return Elapsed(prepared, prepared->graph, prepared->launches);
  }

 private:
  explicit Sampler(const Device* device)
      : device_(device), measurements_(Measurements::Of(device)) {
    spin_.grid_x = 1;
    spin_.block = 32;
  }

  Status Synchronize() const {
    IOS_CUDA_RETURN_IF_ERROR(device_, cuStreamSynchronize, stream_.get());
    return Status();
  }

  Status Spin(double milliseconds) {
    SpinParams params;
    params.nanoseconds = static_cast<unsigned>(milliseconds * 1e6);
    return spin_.Enqueue(params, stream_.get());
  }

  // Makes the graphs of the work and its baseline, and uploads them. If that
  // fails, there are none, and kernels are enqueued one by one, as in
  // Execution.
  Status MakeGraphs(int runs, Prepared* prepared) const {
    const auto make = [&](const Enqueuer& once) -> StatusOr<GraphExec> {
      IOS_ASSIGN_OR_RETURN(
          GraphExec exec,
          CaptureGraph(device_, stream_.get(), [&](CUstream capture) -> Status {
            for (int i = 0; once && i < runs; ++i)
              IOS_RETURN_IF_ERROR(once(capture));
            return Status();
          }));
      IOS_CUDA_RETURN_IF_ERROR(device_, cuGraphUpload, exec.get(),
                               stream_.get());
      return exec;
    };
    StatusOr<GraphExec> graph = make(prepared->run);
    if (!graph.ok()) return Status();
    prepared->graph = std::move(*graph);
    prepared->runs_in_graph = runs;
    // Without `before`, the baseline is an empty graph. If the driver rejects
    // it, the time of its launch is not subtracted.
    StatusOr<GraphExec> baseline = make(prepared->before);
    prepared->baseline = baseline.ok() ? std::move(*baseline) : GraphExec();
    return Status();
  }

  // Returns the time of `launches` launches in milliseconds. The GPU is kept
  // busy until all of them are enqueued.
  StatusOr<double> Elapsed(Prepared* prepared, const GraphExec& graph,
                           int launches) {
    IOS_RETURN_IF_ERROR(Spin(prepared->spin));
    const auto begin = std::chrono::steady_clock::now();
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventRecord, start_.get(),
                             stream_.get());
    for (int i = 0; i < launches; ++i) {
      if (graph) {
        IOS_CUDA_RETURN_IF_ERROR(device_, cuGraphLaunch, graph.get(),
                                 stream_.get());
      } else {
        IOS_RETURN_IF_ERROR(prepared->run(stream_.get()));
      }
    }
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventRecord, stop_.get(),
                             stream_.get());
    const auto end = std::chrono::steady_clock::now();
    const double took =
        std::chrono::duration<double, std::milli>(end - begin).count();
    prepared->spin =
        std::clamp(2 * took, kLeastSpinMilliseconds, kMostSpinMilliseconds);
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventSynchronize, stop_.get());
    measurements_.last_sample = std::chrono::steady_clock::now();
    float milliseconds = 0;
    IOS_CUDA_RETURN_IF_ERROR(device_, cuEventElapsedTime, &milliseconds,
                             start_.get(), stop_.get());
    return static_cast<double>(milliseconds);
  }

  const Device* const device_;
  Measurements& measurements_;
  Stream stream_;
  Event start_, stop_;
  Launch<SpinParams> spin_;
};

// The samples of one workload in milliseconds. Each sample is the time of
// `runs` runs. The times in `elapsed` include the baseline. `elapsed` is empty
// if the workload was too slow to be sampled (see WorkMeasurement::give_up).
struct Samples {
  int runs = 1;
  std::vector<double> baselines;
  std::vector<double> elapsed;
  bool may_be_fastest = false;  // although `elapsed` is empty
};

// Finds the workload with the lowest median of its samples, after the baseline
// is subtracted. The result is certain if each workload that may be the fastest
// has steady samples that are clearly above the baseline.
Comparison Compare(const std::vector<Samples>& samples) {
  Comparison comparison;
  comparison.is_certain = true;
  double fastest = std::numeric_limits<double>::infinity();
  std::vector<double> shortest(samples.size(), fastest);
  for (size_t i = 0; i < samples.size(); ++i) {
    const Samples& of_work = samples[i];
    if (of_work.elapsed.empty()) {
      if (of_work.may_be_fastest) comparison.is_certain = false;
      continue;
    }
    double baseline = 0, least = kClockMilliseconds;
    if (!of_work.baselines.empty()) {
      baseline = Median(of_work.baselines);
      least =
          std::max(least, kClearlyAbove * (baseline - Min(of_work.baselines)));
    }
    const double net = Median(of_work.elapsed) - baseline;
    if (net <= least) {
      comparison.is_certain = false;
      continue;
    }
    shortest[i] = (Min(of_work.elapsed) - baseline) / of_work.runs;
    if (net / of_work.runs >= fastest) continue;
    fastest = net / of_work.runs;
    comparison.fastest = i;
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const Samples& of_work = samples[i];
    if (shortest[i] > fastest) continue;
    if (of_work.elapsed.empty() || !AreSteady(of_work.elapsed) ||
        (!of_work.baselines.empty() && !AreSteady(of_work.baselines))) {
      comparison.is_certain = false;
    }
  }
  return comparison;
}

StatusOr<std::vector<Samples>> TakeSamples(const Device* device,
                                           const std::vector<Enqueuer>& works,
                                           const WorkMeasurement& measurement) {
  std::lock_guard<std::mutex> lock(Measurements::Of(device).mutex);
  IOS_ASSIGN_OR_RETURN(const std::unique_ptr<Sampler> sampler,
                       Sampler::Create(device));
  IOS_RETURN_IF_ERROR(sampler->WarmClocks());
  std::vector<Sampler::Prepared> prepared;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Enqueuer& work : works) {
    IOS_ASSIGN_OR_RETURN(Sampler::Prepared one,
                         sampler->Prepare(work, measurement, &fastest));
    prepared.push_back(std::move(one));
  }
  std::vector<Samples> samples;
  for (const Sampler::Prepared& one : prepared) {
    samples.push_back({one.runs(), one.baselines, {}});
  }
  for (int i = 0; i < measurement.samples; ++i) {
    for (size_t w = 0; w < works.size(); ++w) {
      if (prepared[w].given_up) continue;
      IOS_ASSIGN_OR_RETURN(const double sample, sampler->Sample(&prepared[w]));
      samples[w].elapsed.push_back(sample);
    }
  }
  for (size_t w = 0; w < works.size(); ++w) {
    if (!prepared[w].given_up) continue;
    // Other work on the GPU may have delayed the runs that were too slow.
    IOS_ASSIGN_OR_RETURN(const double again, sampler->Sample(&prepared[w]));
    samples[w].may_be_fastest = again <= measurement.give_up * fastest;
  }
  return samples;
}

}  // namespace

StatusOr<std::vector<std::vector<Sample>>> SampleWork(
    const Device* device, const std::vector<Enqueuer>& works,
    const WorkMeasurement& measurement) {
  IOS_ASSIGN_OR_RETURN(const std::vector<Samples> samples,
                       TakeSamples(device, works, measurement));
  std::vector<std::vector<Sample>> result;
  for (const Samples& of_work : samples) {
    // The baseline is an empty graph here. Other processes can only lengthen
    // its time.
    const double baseline =
        of_work.baselines.empty() ? 0 : Min(of_work.baselines);
    std::vector<Sample>& of_result = result.emplace_back();
    for (const double elapsed : of_work.elapsed) {
      const double net = std::max(elapsed - baseline, kClockMilliseconds);
      of_result.push_back(
          {net / of_work.runs, elapsed > kSteady * Min(of_work.elapsed)});
    }
  }
  return result;
}

StatusOr<Comparison> CompareCold(const Device* device,
                                 const std::vector<Enqueuer>& works,
                                 const Enqueuer& warm) {
  WorkMeasurement measurement;
  measurement.least_runs = kRunsOfWays;
  measurement.give_up = kFarSlower;
  // Each run starts by writing memory of twice the size of the L2 cache. This
  // evicts all other data, such as the workload's weights, from the cache.
  const int64_t bytes = 2 * device->l2_cache_bytes();
  const StatusOr<std::shared_ptr<void>> other = device->Allocate(bytes);
  if (other.ok()) {
    measurement.before = [device, bytes, memory = *other,
                          warm](CUstream stream) -> Status {
      IOS_CUDA_RETURN_IF_ERROR(device, cuMemsetD8Async,
                               reinterpret_cast<CUdeviceptr>(memory.get()), 0,
                               bytes, stream);
      return warm(stream);
    };
  }
  IOS_ASSIGN_OR_RETURN(const std::vector<Samples> samples,
                       TakeSamples(device, works, measurement));
  return Compare(samples);
}

}  // namespace ios::cuda
