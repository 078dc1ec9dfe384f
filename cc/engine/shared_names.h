// The names and limits in blocks, schedules and other JSON documents, for
// Python.
#ifndef IOS_TF_CC_ENGINE_SHARED_NAMES_H_
#define IOS_TF_CC_ENGINE_SHARED_NAMES_H_

#include <string>

namespace ios {

// Returns a JSON object with the version and the limits of documents, and with
// all names of data types, operator types, activations, algorithms and reasons
// (their slugs by code). For each activation, it has the list of the
// parameters' defaults. Python uses this object;
// tests/unit/test_shared_names.py checks that lists which Python keeps itself
// agree with it.
std::string SharedNamesJson();

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_SHARED_NAMES_H_
