// OneOf: returns whether a list contains an operation.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ONE_OF_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ONE_OF_H_

#include <algorithm>
#include <initializer_list>
#include <string>

namespace ios::tf {

inline bool OneOf(const std::string& op,
                  std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return op == name; });
}

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ONE_OF_H_
