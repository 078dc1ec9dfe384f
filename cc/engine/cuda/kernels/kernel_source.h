// The CUDA C++ source of our own kernels. NVRTC compiles it on the machine that
// has the GPU, so the build needs no CUDA compiler. Every program is
// kKernelParamsText, then kCommonSource, kActivationsSource and one of the
// other sources below. Each source says which macros specialise its kernels.
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
