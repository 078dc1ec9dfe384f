// C API of IosStageLatency, for ios_tf/cost/measured.py.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_
#define IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_

#ifdef __cplusplus
extern "C" {
#endif

// Frees the data that the op's kernels keep for blocks they have measured. A
// kernel creates its data again when it is called.
void ios_tf_release_profilers();

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_
