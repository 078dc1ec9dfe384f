// C API of IosStageLatency, for ios_tf/cost/measured.py.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_
#define IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_

#ifdef __cplusplus
extern "C" {
#endif

// Frees what the op's kernels hold of blocks that they have measured; they make
// it again if they are called again.
void ios_tf_release_profilers();

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_OPS_LATENCY_API_H_
