// Runs the tests that are linked in: PROGRAM [FILE], of one file or of all.
#include <cstdio>

#include "tests/cc/testing.h"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // all is said before a crash
  return ios::testing::Run(argc > 1 ? argv[1] : "");
}
