// Chooses the samples with which shape inference starts, from the batch and
// image sizes that a graph leaves open.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_USUAL_SAMPLES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_USUAL_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// The sizes of the graph's inputs that vary.
struct VaryingSizes {
  bool batches = false, images = false;
  bool any() const { return batches || images; }
};

VaryingSizes FindVaryingSizes(const tensorflow::GraphDef& graph);

// Returns the samples of a graph: an example first, optional samples last.
//
// A dimension that differs between samples is not fixed. The batches include 1
// because dimensions of 1 broadcast and squeeze. Sizes of required samples are
// multiples of 32, which networks for images of any size accept. Optional
// samples have small and large sizes, which some networks reject. The optional
// samples reveal sizes that are rounded to multiples, and slices that end at a
// number or at the end of their tensor, whichever comes first.
std::vector<ShapeSample> UsualSamples(const tensorflow::GraphDef& graph,
                                      int64_t batch_size,
                                      const ImageSize& image_size);

// Adds optional samples for unknown input sizes, or for sizes that depend on
// values.
void AddVariedSizes(const ImageSize& image_size,
                    std::vector<ShapeSample>* samples);

// Gives required samples `sizes`, for a graph that takes images of few sizes
// only. The previous sizes and sizes near `sizes` become optional samples.
void UseFittingSizes(const ImageSize& sizes, std::vector<ShapeSample>* samples);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_USUAL_SAMPLES_H_
