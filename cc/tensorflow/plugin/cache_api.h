// C API of cache_file.h, for ios_tf/tuning/cache_files.py.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_CACHE_API_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_CACHE_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Each function returns 0, or the code of an error as TensorFlow numbers it.
// Strings of `result` and `error` must be freed by ios_tf_free_string(). They
// are null if there is not enough memory for them.

// Reads a file of a cache. Sets `result` to its content, which has `size`
// bytes, or to an error message.
int ios_tf_read_cache_file(const char* directory, const char* path,
                           int64_t max_bytes, char** result, int64_t* size);

// Writes `size` bytes of `content` to a file of a cache.
int ios_tf_write_cache_file(const char* directory, const char* path,
                            const char* content, int64_t size, char** error);

// Checks that a path does not lead out of a cache's directory.
int ios_tf_check_inside_cache(const char* directory, const char* path,
                              char** error);

#ifdef __cplusplus
}
#endif

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_CACHE_API_H_
