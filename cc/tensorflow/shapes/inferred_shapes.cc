#include "cc/tensorflow/shapes/inferred_shapes.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/engine/host/fork_guard.h"
#include "cc/tensorflow/shapes/bound_samples.h"
#include "cc/tensorflow/shapes/fitting_sizes.h"
#include "cc/tensorflow/shapes/shape_sampler.h"
#include "cc/tensorflow/shapes/usual_samples.h"

namespace ios::tf {
namespace {

using ::tensorflow::GraphDef;

// Returns whether the tensor has a shape in all required samples, and the same
// rank in all samples in which it has a shape.
bool HasCertainShape(const ShapeSampler& sampler, TensorRef tensor,
                     int required_samples) {
  const int samples = sampler.samples().size();
  for (int sample = 0; sample < samples; ++sample) {
    const Shape* shape = sampler.shape(tensor, sample);
    if (shape ? shape->size() != sampler.shape(tensor, 0)->size()
              : sample < required_samples) {
      return false;
    }
  }
  return true;
}

void ForgetUncertainShapes(int required_samples, ShapeSampler* sampler) {
  for (int i = 0; i < sampler->view().size(); ++i) {
    const int ports = sampler->types().dtypes[i].size();
    for (int port = 0; port < ports; ++port) {
      if (!HasCertainShape(*sampler, {i, port}, required_samples)) {
        sampler->ForgetShape({i, port});
      }
    }
  }
}

// Infers the shapes with `sampler`, which has no samples yet.
absl::StatusOr<InferredShapes> Infer(const GraphDef& graph, int64_t batch_size,
                                     const ImageSize& image_size,
                                     const VaryingSizes& varying,
                                     ShapeSampler* sampler) {
  InferredShapes result;
  std::vector<ShapeSample> samples =
      UsualSamples(graph, batch_size, image_size);
  TF_ASSIGN_OR_RETURN(const bool values_matter, sampler->Add(samples[0]));
  if (varying.images && HasMisfits(*sampler)) {
    TF_ASSIGN_OR_RETURN(result.fitting_sizes,
                        FindFittingSizes(samples[0], sampler));
    if (result.fitting_sizes) UseFittingSizes(*result.fitting_sizes, &samples);
    TF_RETURN_IF_ERROR(sampler->Add(samples[0]).status());
  }
  if (values_matter && !varying.images) AddVariedSizes(image_size, &samples);
  // One sample is enough if the sizes of all inputs are known and shapes do not
  // depend on values.
  if (!values_matter && !varying.any()) samples.resize(1);
  for (size_t k = 1; k < samples.size(); ++k) {
    TF_RETURN_IF_ERROR(sampler->Add(samples[k]).status());
  }
  if (sampler->has_zero_batch()) {
    for (int64_t batch : {2, 4}) {
      const ShapeSample few = {batch, samples[0].sizes, /*optional=*/true};
      TF_RETURN_IF_ERROR(sampler->Add(few).status());
    }
  }
  if (samples.size() > 1) {
    VaryingSizes sampled = varying;
    sampled.batches = varying.any();
    // The sample's height and width also replace sizes that depend on values.
    sampled.heights = varying.heights || values_matter;
    sampled.widths = varying.widths || values_matter;
    result.bound_samples = AddBoundSamples(samples[0], sampled, sampler);
  }
  result.example = samples[0];
  result.required_samples =
      std::count_if(samples.begin(), samples.end(),
                    [](const ShapeSample& sample) { return !sample.optional; });
  ForgetUncertainShapes(result.required_samples, sampler);
  result.types = sampler->types();
  result.samples = sampler->Take();
  return result;
}

// The results for the latest graphs.
class LatestResults {
 public:
  static LatestResults& Get() {
    static auto* const latest = new LatestResults;
    return *latest;
  }

  // Returns null if there is no result with this key.
  std::shared_ptr<const InferredShapes> Find(const std::string& key) {
    const ForkSafeLock lock(&mutex_);
    const auto found =
        std::find_if(results_.begin(), results_.end(),
                     [&](const auto& result) { return result.first == key; });
    if (found == results_.end()) return nullptr;
    results_.splice(results_.begin(), results_, found);
    return found->second;
  }

  // Keeps a copy of the result, unless it is too large.
  void Add(std::string key, const InferredShapes& result) {
    if (SizeOf(result) > kMostSize) return;
    auto copy = std::make_shared<const InferredShapes>(result);
    const ForkSafeLock lock(&mutex_);
    results_.emplace_front(std::move(key), std::move(copy));
    size_t size = 0, kept = 0;
    for (auto it = results_.begin(); it != results_.end(); ++it, ++kept) {
      size += SizeOf(*it->second);
      if (kept == kMost || size > kMostSize) {
        results_.erase(it, results_.end());
        break;
      }
    }
  }

 private:
  static constexpr size_t kMost = 8;
  // All results together may have this size, about 50 MB.
  static constexpr size_t kMostSize = size_t{1} << 19;

  // Returns the number of shapes and integers.
  static size_t SizeOf(const InferredShapes& result) {
    size_t size = 0;
    for (const SampleShapes& sample : result.samples) {
      size += sample.shapes.size();
      for (const auto& integers : sample.integers) {
        size += integers.second.size();
      }
    }
    return size;
  }

  std::mutex mutex_;
  // Latest first, with their keys.
  std::list<std::pair<std::string, std::shared_ptr<const InferredShapes>>>
      results_;
};

}  // namespace

absl::StatusOr<InferredShapes> InferGraphShapes(
    const GraphView& view, const tensorflow::grappler::GrapplerItem& item,
    int64_t batch_size, const ImageSize& image_size) {
  const VaryingSizes varying = FindVaryingSizes(item.graph);
  ShapeSampler sampler(view, item, batch_size, varying.any());
  std::string key =
      absl::StrCat(image_size[0], " ", image_size[1], " ", sampler.Key());
  if (const auto known = LatestResults::Get().Find(key)) return *known;
  TF_ASSIGN_OR_RETURN(
      InferredShapes inferred,
      Infer(item.graph, batch_size, image_size, varying, &sampler));
  LatestResults::Get().Add(std::move(key), inferred);
  return inferred;
}

}  // namespace ios::tf
