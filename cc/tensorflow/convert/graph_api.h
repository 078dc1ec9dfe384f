// C API of OpenGraph, for ios_tf/native/graph.py.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_GRAPH_API_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_GRAPH_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle of an OpenGraph. Only one thread may use it at a time.
typedef struct ios_tf_graph ios_tf_graph;

// The caller frees returned strings with ios_tf_free_string(). A function that
// fails returns null and sets `error` to JSON: {"code": TensorFlow's status
// code, "message": string, "payloads": [names]}.

// Opens a graph. `meta_graph` is a serialized MetaGraphDef of `bytes` bytes.
// `height` and `width` replace heights and widths of images that the graph
// leaves unknown.
ios_tf_graph* ios_tf_open_graph(const void* meta_graph, int64_t bytes,
                                int64_t height, int64_t width, char** error);
void ios_tf_close_graph(ios_tf_graph* graph);

// Returns, as JSON (see collect.h), the blocks of the graph that need schedules
// if `callers` callers run the graph at the same time, with `batch_size` images
// per call. `precision` is JSON: {"dtype": "float32" or "bfloat16",
// "float32_operators": [names]} (see precision.h).
char* ios_tf_graph_blocks(ios_tf_graph* graph, int64_t batch_size,
                          int64_t callers, const char* device,
                          const char* precision, char** error);

// Returns the graph with schedules, as a serialized GraphDef of `*bytes` bytes.
// The regions in "left" get no schedules. `request` is JSON: {"loads":
// [[batch size, callers]], "device": string, "precision": as above, "left":
// [int], "materialise_merges": bool, "schedules": {block signature: JSON as
// text}}. If "materialise_merges" is true, convolutions that all schedules
// merge become one convolution in the graph.
char* ios_tf_rewritten_graph(ios_tf_graph* graph, const char* request,
                             int64_t* bytes, char** error);

// Returns the graph as the plugin runs it (see OpenGraph::Lower), as a
// serialized GraphDef of `*bytes` bytes.
char* ios_tf_lowered_graph(ios_tf_graph* graph, int64_t batch_size,
                           const char* device, int64_t* bytes, char** error);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_GRAPH_API_H_
