// Runs the tests that are linked in.
#include "tests/cc/testing.h"

int main() { return ios::testing::RunAll(); }
