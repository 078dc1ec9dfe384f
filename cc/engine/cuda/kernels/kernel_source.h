// The CUDA C++ source of our own kernels. NVRTC compiles it on the machine with
// the GPU, so that the build does not need a CUDA compiler. A program consists
// of kKernelParamsText, kCommonSource, kActivationsSource, and one of the other
// sources below. Each source lists the macros with which its kernels are
// compiled.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_SOURCE_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_SOURCE_H_

namespace ios::cuda {

extern const char kCommonSource[];
extern const char kActivationsSource[];
extern const char
    kNormalizationSource[];  // ReduceChannels, Normalize, ShuffleChannels
extern const char kElementwiseSource[];  // Sum, Binary, Scale
extern const char kCopySource[];         // Copy, Pad
extern const char kWindowSource[];     // Window: depthwise convolution, pooling
extern const char kReductionSource[];  // GlobalPool, Softmax
extern const char kSpatialSource[];    // Resize, MoveDepth, Lrn
extern const char kTimingSource[];     // Spin

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_SOURCE_H_
