// FUZZ_CHECK prints a condition that does not hold, and aborts the fuzzer.
#ifndef IOS_TF_TESTS_FUZZ_CHECK_H_
#define IOS_TF_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                   #condition);                                       \
      std::abort();                                                   \
    }                                                                 \
  } while (false)

#endif  // IOS_TF_TESTS_FUZZ_CHECK_H_
