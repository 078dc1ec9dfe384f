// Chooses the samples with which shape inference starts, from the batch and
// image sizes that a graph leaves open.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_USUAL_SAMPLES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_USUAL_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "cc/tensorflow/shapes/shape_sample.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// Which sizes of the graph's inputs vary: batch sizes, image sizes, or both.
struct VaryingSizes {
  bool batches = false, images = false;
  // Which sizes of images a sample changes. In a sequence, this is the width.
  bool heights = false, widths = false;
  bool any() const { return batches || images; }
};

VaryingSizes FindVaryingSizes(const tensorflow::GraphDef& graph);

// Returns the samples of a graph: an example first, optional samples last.
//
// The batch sizes include 1, because dimensions of 1 broadcast and squeeze. The
// image sizes of required samples are multiples of 32, which all networks for
// images of any size accept. Optional samples have small and large sizes, which
// some networks reject. They reveal sizes that are rounded to multiples, and
// slices such as x[:100] that end earlier if the tensor is smaller.
std::vector<ShapeSample> UsualSamples(const tensorflow::GraphDef& graph,
                                      int64_t batch_size,
                                      const ImageSize& image_size);

// Adds the optional samples, for graphs with unknown input sizes or with sizes
// that depend on values.
void AddVariedSizes(const ImageSize& image_size,
                    std::vector<ShapeSample>* samples);

// Makes `sizes` the image size of all required samples, for a graph that
// accepts few image sizes only. The previous image sizes, and sizes near
// `sizes`, become optional samples.
void UseFittingSizes(const ImageSize& sizes, std::vector<ShapeSample>* samples);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_USUAL_SAMPLES_H_
