#!/bin/sh
# Builds load_model_c and load_model_cc against the libraries of the installed
# TensorFlow:  examples/serving/build.sh DIRECTORY
set -eu
output=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
tf=$("${PYTHON:-python3}" -c '
import importlib.util
print(importlib.util.find_spec("tensorflow").submodule_search_locations[0])')
link="$tf/libtensorflow_cc.so.2 $tf/libtensorflow_framework.so.2 -Wl,-rpath,$tf -lpthread ${LDFLAGS:-}"
flags="${CXXFLAGS:--O2} -Wall -I. -isystem $tf/include"

# shellcheck disable=SC2086
{
  cxx_flags="-std=c++17 $flags -DEIGEN_MAX_ALIGN_BYTES=64"
  ${CXX:-g++} $cxx_flags -c examples/serving/warmup.cc -o "$output/warmup.o"
  ${CXX:-g++} $cxx_flags examples/serving/load_model.cc "$output/warmup.o" $link \
    -o "$output/load_model_cc"
  ${CC:-gcc} -std=c11 $flags -c examples/serving/load_model.c -o "$output/load_model.o"
  ${CXX:-g++} "$output/load_model.o" "$output/warmup.o" $link -o "$output/load_model_c"
}
