#include "cc/engine/cuda/kernels/kernels.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cuda/kernels/kernel_source.h"
#include "cc/engine/cuda/kernels/launch_geometry.h"

namespace ios::cuda {
namespace {

// The views that one kernel reads and writes, and the vector width that suits
// all of them.
struct Walk {
  std::vector<TensorView> views;
  int64_t vector = 1;

  int64_t vectors() const { return views[0].channels() / vector; }
  int64_t count() const { return NumElements(views[0].shape) / vector; }
};

// If `flatten` is true, results must not depend on the channel of an element.
// Dense views are then used as single pixels.
StatusOr<Walk> MakeWalk(DataType dtype, std::vector<TensorView> views,
                        bool flatten) {
  Walk walk;
  for (const TensorView& view : views) {
    IOS_RETURN_IF_ERROR(CheckIndices(view));
    flatten = flatten && view.dense();
  }
  if (flatten) {
    for (TensorView& view : views) view = Flattened(view);
  }
  walk.vector = 16 / SizeOf(dtype);
  for (const TensorView& view : views) {
    walk.vector = std::min(walk.vector, VectorOf(dtype, view));
  }
  walk.views = std::move(views);
  return walk;
}

Macros ElementwiseMacros(DataType dtype, int64_t vector,
                         Activation activation) {
  Macros macros = {{"IOS_DTYPE", DtypeMacro(dtype)},
                   {"IOS_VECTOR", static_cast<int>(vector)}};
  AddActivation(activation, &macros);
  return macros;
}

Status GetFunction(const Device* device, const char* name, const char* source,
                   const Macros& macros, CUfunction* function) {
  IOS_ASSIGN_OR_RETURN(*function,
                       KernelCache::Of(device)->Get({name, source, macros}));
  return Status();
}

// Returns the macros of a copy kernel. Copies use the widest possible words,
// whatever the type of elements is.
Macros CopyMacros(int64_t bytes) {
  return {{"IOS_DTYPE", 0},
          {"IOS_VECTOR", 1},
          {"IOS_WIDTH", static_cast<int>(bytes)}};
}

}  // namespace

StatusOr<SumKernel> SumKernel::Create(const Device* device,
                                      const SumSpec& spec) {
  const std::vector<TensorView>& terms = spec.terms;
  SumKernel kernel;
  for (size_t done = 0; done < terms.size();) {
    // If the sum has more terms than one launch can add, the next launch adds
    // more terms to the output.
    std::vector<TensorView> views;
    if (done > 0) views.push_back(spec.output);
    Step step;
    while (done < terms.size() && views.size() < kMaxTerms) {
      views.push_back(terms[done++]);
      ++step.terms;
    }
    const bool last = done == terms.size();
    const int count = views.size();
    views.push_back(spec.output);
    IOS_ASSIGN_OR_RETURN(const Walk walk,
                         MakeWalk(spec.dtype, std::move(views),
                                  /*flatten=*/!(last && spec.bias)));
    Macros macros = ElementwiseMacros(
        spec.dtype, walk.vector, last ? spec.activation : Activation::kNone);
    macros.push_back({"IOS_TERMS", count});
    macros.push_back({"IOS_BIAS", last && spec.bias});
    SetGrid(device, walk.count(), &step.launch);
    IOS_RETURN_IF_ERROR(GetFunction(device, "Sum", kElementwiseSource, macros,
                                    &step.launch.function));
    SumParams& params = step.launch.params;
    for (int i = 0; i < count; ++i) params.pitches[i] = walk.views[i].pitch;
    params.output_pitch = walk.views.back().pitch;
    params.count = walk.count();
    params.vectors = MakeDivisor(walk.vectors());
    kernel.steps_.push_back(step);
  }
  return kernel;
}

Status SumKernel::Enqueue(const void* const* terms, const void* bias,
                          void* output, CUstream stream) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    SumParams params = steps_[i].launch.params;
    int count = 0;
    if (i > 0) params.terms[count++] = output;
    for (int t = 0; t < steps_[i].terms; ++t) params.terms[count++] = *terms++;
    params.bias = bias;
    params.output = output;
    IOS_RETURN_IF_ERROR(steps_[i].launch.Enqueue(params, stream));
  }
  return Status();
}

StatusOr<BinaryKernel> BinaryKernel::Create(const Device* device,
                                            const BinarySpec& spec) {
  const TensorView &x = spec.x, &y = spec.y, &output = spec.output;
  const bool broadcasts = x.shape != output.shape || y.shape != output.shape;
  const auto scalar = [&](const TensorView& view) {
    return view.channels() == 1 && output.channels() > 1;
  };
  std::vector<TensorView> views = {output};
  for (const TensorView& view : {x, y}) {
    IOS_RETURN_IF_ERROR(CheckIndices(view));
    // An operand with a single channel does not limit the width of vectors,
    // because its value is used for all elements.
    if (!scalar(view)) views.push_back(view);
  }
  IOS_ASSIGN_OR_RETURN(const Walk walk, MakeWalk(spec.dtype, std::move(views),
                                                 /*flatten=*/!broadcasts));
  BinaryKernel kernel;
  SetGrid(device, walk.count(), &kernel.launch_);
  Macros macros = ElementwiseMacros(spec.dtype, walk.vector, spec.activation);
  macros.push_back({"IOS_FUNCTION", static_cast<int>(spec.function)});
  macros.push_back({"IOS_X_SCALAR", scalar(x)});
  macros.push_back({"IOS_Y_SCALAR", scalar(y)});
  IOS_RETURN_IF_ERROR(GetFunction(device, "Binary", kElementwiseSource, macros,
                                  &kernel.launch_.function));
  BinaryParams& params = kernel.launch_.params;
  params.output_pitch = walk.views[0].pitch;
  params.count = walk.count();
  params.vectors = MakeDivisor(walk.vectors());
  const bool images = output.shape.size() == 4;
  params.height = MakeDivisor(images && broadcasts ? output.shape[1] : 1);
  params.width = MakeDivisor(images && broadcasts ? output.shape[2] : 1);
  // Sets the distances, in elements, from one image, row and pixel to the next.
  // A distance is 0 if the view has only one image, row or pixel, which is then
  // broadcast. Without broadcasting, the kernel needs only the distance from
  // one pixel to the next, as the first number.
  const auto set_strides = [&](const TensorView& view, unsigned* strides) {
    if (!broadcasts) {
      strides[0] = view.pitch;
      return;
    }
    const int64_t height = images ? view.shape[1] : 1;
    const int64_t width = images ? view.shape[2] : 1;
    strides[0] = view.shape[0] == 1 ? 0 : height * width * view.pitch;
    strides[1] = height == 1 ? 0 : width * view.pitch;
    strides[2] = width == 1 ? 0 : view.pitch;
  };
  set_strides(x, params.x_strides);
  set_strides(y, params.y_strides);
  return kernel;
}

Status BinaryKernel::Enqueue(const void* x, const void* y, void* output,
                             CUstream stream) const {
  BinaryParams params = launch_.params;
  params.x = x;
  params.y = y;
  params.output = output;
  return launch_.Enqueue(params, stream);
}

StatusOr<ScaleKernel> ScaleKernel::Create(const Device* device, DataType dtype,
                                          const TensorView& x,
                                          Activation activation,
                                          const TensorView& output) {
  IOS_ASSIGN_OR_RETURN(const Walk walk,
                       MakeWalk(dtype, {x, output}, /*flatten=*/false));
  ScaleKernel kernel;
  SetGrid(device, walk.count(), &kernel.launch_);
  IOS_RETURN_IF_ERROR(
      GetFunction(device, "Scale", kElementwiseSource,
                  ElementwiseMacros(dtype, walk.vector, activation),
                  &kernel.launch_.function));
  ScaleParams& params = kernel.launch_.params;
  params.x_pitch = walk.views[0].pitch;
  params.output_pitch = walk.views[1].pitch;
  params.count = walk.count();
  params.vectors = MakeDivisor(walk.vectors());
  return kernel;
}

Status ScaleKernel::Enqueue(const void* x, const void* scale, const void* shift,
                            void* output, CUstream stream) const {
  ScaleParams params = launch_.params;
  params.x = x;
  params.scale = scale;
  params.shift = shift;
  params.output = output;
  return launch_.Enqueue(params, stream);
}

StatusOr<CopyKernel> CopyKernel::Create(const Device* device, DataType dtype,
                                        const std::vector<Views>& copies) {
  CopyKernel kernel;
  struct Open {  // a launch that has room for more pieces
    int launch = -1;
    int pieces = 0;
    int64_t most = 0;  // number of vectors in its largest piece
  };
  std::map<int64_t, Open> open;  // by width in bytes
  kernel.indices_.reserve(copies.size());
  for (const Views& copy : copies) {
    IOS_ASSIGN_OR_RETURN(const Walk walk, MakeWalk(dtype, {copy.from, copy.to},
                                                   /*flatten=*/true));
    const int64_t width = walk.vector * SizeOf(dtype);
    Open& current = open[width];
    if (current.launch < 0 || current.pieces == kMaxPieces) {
      current = {static_cast<int>(kernel.launches_.size())};
      kernel.launches_.emplace_back();
      IOS_RETURN_IF_ERROR(GetFunction(device, "Copy", kCopySource,
                                      CopyMacros(width),
                                      &kernel.launches_.back().function));
    }
    Launch<CopyParams>& launch = kernel.launches_[current.launch];
    current.most = std::max(current.most, walk.count());
    SetGrid(device, current.most, &launch);
    launch.grid_y = current.pieces + 1;
    CopyPiece& params = launch.params.pieces[current.pieces];
    params.from_pitch = walk.views[0].pitch / walk.vector;
    params.to_pitch = walk.views[1].pitch / walk.vector;
    params.count = walk.count();
    params.vectors = MakeDivisor(walk.vectors());
    kernel.indices_.push_back({current.launch, current.pieces++});
  }
  return kernel;
}

Status CopyKernel::Enqueue(const void* const* from, void* const* to,
                           CUstream stream) const {
  for (size_t i = 0; i < launches_.size(); ++i) {
    CopyParams params = launches_[i].params;
    for (size_t k = 0; k < indices_.size(); ++k) {
      if (indices_[k].launch != static_cast<int>(i)) continue;
      params.pieces[indices_[k].piece].from = from[k];
      params.pieces[indices_[k].piece].to = to[k];
    }
    IOS_RETURN_IF_ERROR(launches_[i].Enqueue(params, stream));
  }
  return Status();
}

StatusOr<PadKernel> PadKernel::Create(const Device* device,
                                      const PadSpec& spec) {
  const DataType dtype = spec.dtype;
  const TensorView &input = spec.input, &output = spec.output;
  IOS_RETURN_IF_ERROR(CheckIndices(input));
  IOS_RETURN_IF_ERROR(CheckIndices(output));
  int64_t vector = std::min(VectorOf(dtype, input), VectorOf(dtype, output));
  while (spec.channels_before % vector != 0) vector /= 2;
  const int64_t vectors = output.channels() / vector;
  PadKernel kernel;
  SetGrid(device, output.pixels() * vectors, &kernel.launch_);
  IOS_RETURN_IF_ERROR(GetFunction(device, "Pad", kCopySource,
                                  CopyMacros(vector * SizeOf(dtype)),
                                  &kernel.launch_.function));
  PadParams& params = kernel.launch_.params;
  params.input_pitch = input.pitch / vector;
  params.output_pitch = output.pitch / vector;
  params.count = output.pixels() * vectors;
  params.top = spec.top;
  params.left = spec.left;
  params.input_height = input.shape[1];
  params.input_width = input.shape[2];
  params.mode = static_cast<int>(spec.mode);
  params.first_word = spec.channels_before / vector;
  params.input_words = input.channels() / vector;
  // `fill` is a word of 4 bytes, which contains two elements of a 16-bit type.
  char fill[sizeof(params.fill)];
  for (size_t at = 0; at < sizeof(fill); at += SizeOf(dtype)) {
    ConvertFromFloat(&spec.value, 1, dtype, fill + at);
  }
  std::memcpy(&params.fill, fill, sizeof(fill));
  params.vectors = MakeDivisor(vectors);
  params.output_height = MakeDivisor(output.shape[1]);
  params.output_width = MakeDivisor(output.shape[2]);
  return kernel;
}

Status PadKernel::Enqueue(const void* input, void* output,
                          CUstream stream) const {
  return launch_.Enqueue(input, output, stream);
}

}  // namespace ios::cuda
