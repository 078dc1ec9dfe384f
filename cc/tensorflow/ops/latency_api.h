// C API of IosStageLatency, for ios_tf/cost/measured.py.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_
#define IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_

#ifdef __cplusplus
extern "C" {
#endif

// Frees the profilers that the kernels of IosStageLatency keep for the blocks
// that they have measured. A kernel creates its profiler again when it is
// called.
void ios_tf_release_profilers();

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_
