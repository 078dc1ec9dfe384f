// Macros for C++ unit tests. With these macros, the tests do not need a test
// framework.
#ifndef IOS_TF_TESTS_CC_TESTING_H_
#define IOS_TF_TESTS_CC_TESTING_H_

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace ios::testing {

struct Test {
  const char* file;
  const char* name;
  void (*run)();
};

inline std::vector<Test>& Tests() {
  static auto* tests = new std::vector<Test>;
  return *tests;
}

inline int& Failures() {
  static int failures = 0;
  return failures;
}

inline bool Register(const char* file, const char* name, void (*run)()) {
  Tests().push_back({file, name, run});
  return true;
}

inline void Expect(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  ++Failures();
  std::printf("%s:%d: not so: %s\n", file, line, what);
}

// Runs the tests of files whose paths contain `file`. Returns 0 if all tests
// passed and there was at least one test, and 1 otherwise.
inline int Run(const std::string& file) {
  bool any = false;
  for (const Test& test : Tests()) {
    if (std::string(test.file).find(file) == std::string::npos) continue;
    any = true;
    const int before = Failures();
    test.run();
    std::printf("%s %s\n", Failures() == before ? "ok    " : "FAILED",
                test.name);
  }
  return any && Failures() == 0 ? 0 : 1;
}

}  // namespace ios::testing

#define TEST(name)                                      \
  static void name();                                   \
  static const bool name##_registered =                 \
      ::ios::testing::Register(__FILE__, #name, &name); \
  static void name()

#define EXPECT(...) \
  ::ios::testing::Expect((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

// Checks that a Status or StatusOr is an error whose message contains `text`.
#define EXPECT_ERROR(status, text)                                          \
  ::ios::testing::Expect(                                                   \
      !(status).ok() && (status).message().find(text) != std::string::npos, \
      #status " fails with \"" text "\"", __FILE__, __LINE__)

#endif  // IOS_TF_TESTS_CC_TESTING_H_
