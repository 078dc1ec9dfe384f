// C API of OpenGraph, for ios_tf/native/graph.py.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_GRAPH_API_H_
#define IOS_TF_CC_TENSORFLOW_MODES_GRAPH_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A graph that is open; of one thread at a time.
typedef struct ios_tf_graph ios_tf_graph;

// Strings that these functions give are freed by ios_tf_free_string(). They
// give null where they fail, and then `error` is JSON:
// {"code": TensorFlow's, "message": string, "payloads": names}.

// `meta_graph` is a MetaGraphDef of so many bytes; the sizes are of images
// whose height and width it leaves open.
ios_tf_graph* ios_tf_open_graph(const void* meta_graph, int64_t bytes,
                                int64_t height, int64_t width, char** error);
void ios_tf_close_graph(ios_tf_graph* graph);

// JSON: see collect.h.
char* ios_tf_graph_blocks(ios_tf_graph* graph, int64_t batch_size,
                          const char* device, char** error);

// A GraphDef of `bytes` bytes. `request` is JSON:
// {"batch_sizes": [int], "device": string, "left": [int],
//  "materialise_merges": bool, "schedules": {block signature: JSON as text}}
char* ios_tf_rewritten_graph(ios_tf_graph* graph, const char* request,
                             int64_t* bytes, char** error);

// A GraphDef of `bytes` bytes, as it runs.
char* ios_tf_lowered_graph(ios_tf_graph* graph, int64_t batch_size,
                           const char* device, int64_t* bytes, char** error);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_MODES_GRAPH_API_H_
