// The arguments of our own kernels. The same definition is used on the host,
// which fills the arguments in, and in the kernels' source, which is compiled
// at run time.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_PARAMS_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_PARAMS_H_

#define IOS_CUDA_KERNEL_PARAMS_STRING_(...) #__VA_ARGS__
#define IOS_CUDA_KERNEL_PARAMS_STRING(...) \
  IOS_CUDA_KERNEL_PARAMS_STRING_(__VA_ARGS__)

// For Divisor, see MakeDivisor(). A pitch is a number of elements, but in
// CopyPiece and PadParams a number of words. `vectors` is the number of vectors
// in one pixel, and `count` the number of vectors in all pixels.
#define IOS_CUDA_KERNEL_PARAMS                                            \
  enum { kMaxTerms = 32, kMaxPieces = 8 };                                \
  struct Divisor {                                                        \
    unsigned value, multiplier, shift;                                    \
  };                                                                      \
  struct SumParams {                                                      \
    const void* terms[kMaxTerms];                                         \
    const void* bias;                                                     \
    void* output;                                                         \
    unsigned pitches[kMaxTerms];                                          \
    unsigned output_pitch, count;                                         \
    Divisor vectors;                                                      \
  };                                                                      \
  struct BinaryParams {                                                   \
    const void* x;                                                        \
    const void* y;                                                        \
    void* output;                                                         \
    unsigned x_strides[3], y_strides[3], output_pitch, count;             \
    Divisor vectors, width, height;                                       \
  };                                                                      \
  struct ScaleParams {                                                    \
    const void* x;                                                        \
    const void* scale;                                                    \
    const void* shift;                                                    \
    void* output;                                                         \
    unsigned x_pitch, output_pitch, count;                                \
    Divisor vectors;                                                      \
  };                                                                      \
  struct CopyPiece {                                                      \
    const void* from;                                                     \
    void* to;                                                             \
    unsigned from_pitch, to_pitch, count;                                 \
    Divisor vectors;                                                      \
  };                                                                      \
  struct CopyParams {                                                     \
    CopyPiece pieces[kMaxPieces];                                         \
  };                                                                      \
  struct PadParams {                                                      \
    const void* input;                                                    \
    void* output;                                                         \
    unsigned input_pitch, output_pitch, count;                            \
    int top, left, input_height, input_width, mode;                       \
    unsigned first_word, input_words, fill;                               \
    Divisor vectors, output_height, output_width;                         \
  };                                                                      \
  struct ResizeParams {                                                   \
    const void* input;                                                    \
    void* output;                                                         \
    unsigned input_pitch, output_pitch, count;                            \
    unsigned input_height, input_width;                                   \
    float scale_height, scale_width;                                      \
    Divisor vectors, output_height, output_width;                         \
  };                                                                      \
  struct MoveDepthParams {                                                \
    const void* deep;                                                     \
    const void* wide;                                                     \
    unsigned deep_pitch, wide_pitch, count, block_size, channels;         \
    unsigned deep_width;                                                  \
    Divisor vectors, wide_width, block;                                   \
  };                                                                      \
  struct LrnParams {                                                      \
    const void* input;                                                    \
    void* output;                                                         \
    unsigned input_pitch, output_pitch, count;                            \
    int channels_below, radius;                                           \
    float bias, alpha, beta;                                              \
    Divisor channels;                                                     \
  };                                                                      \
  struct WindowParams {                                                   \
    const void* input;                                                    \
    const void* weights;                                                  \
    const void* bias;                                                     \
    const void* residual;                                                 \
    void* output;                                                         \
    unsigned input_pitch, residual_pitch, output_pitch;                   \
    int channels, input_height, input_width, output_height, output_width; \
    int kernel_height, kernel_width, stride_height, stride_width;         \
    int dilation_height, dilation_width, top, left;                       \
    unsigned channel_bits, column_bits;                                   \
    Divisor channel_tiles, column_tiles, row_tiles, multiplier;           \
  };                                                                      \
  struct GlobalPoolParams {                                               \
    const void* input;                                                    \
    void* output;                                                         \
    unsigned input_pitch, output_pitch, pixels, vectors, channel_bits;    \
    float scale;                                                          \
    Divisor channel_tiles;                                                \
  };                                                                      \
  struct NormalizationParams {                                            \
    const void* input;                                                    \
    const void* scale;                                                    \
    const void* shift;                                                    \
    void* output;                                                         \
    unsigned input_pitch, output_pitch, pixels, count;                    \
    float epsilon, factor;                                                \
    Divisor channels, groups;                                             \
  };                                                                      \
  struct SoftmaxParams {                                                  \
    const void* input;                                                    \
    void* output;                                                         \
    unsigned input_pitch, output_pitch, vectors;                          \
  };                                                                      \
  struct SpinParams {                                                     \
    unsigned nanoseconds;                                                 \
  };

namespace ios::cuda {

IOS_CUDA_KERNEL_PARAMS

inline constexpr char kKernelParamsText[] =
    IOS_CUDA_KERNEL_PARAMS_STRING(IOS_CUDA_KERNEL_PARAMS);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_PARAMS_H_
