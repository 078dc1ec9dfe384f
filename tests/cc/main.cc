// Runs the tests that are linked in.
#include <cstdio>

#include "tests/cc/testing.h"

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // all is said before a crash
  return ios::testing::RunAll();
}
