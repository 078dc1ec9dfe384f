// Runs the tests that are linked into this program: PROGRAM [FILE]. With FILE,
// runs only the tests of this source file.
#include <cstdio>

#include "tests/cc/testing.h"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no output is lost in a crash
  return ios::testing::Run(argc > 1 ? argv[1] : "");
}
