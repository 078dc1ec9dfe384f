"""specs.py DEVICE: reads pairs of a block and a schedule, and compiles them for the
fake GPU. For each pair, prints the convolutions for which the engine looks for a plan
of cuDNN, except those that an earlier pair already had."""

import json
import os
import sys
import tempfile
from pathlib import Path

import cuda_helpers

from benchmarks import cudnn_plans
from ios_tf.native import engine

with tempfile.TemporaryDirectory() as directory:
    os.environ["IOS_TF_PLAN_CACHE"] = directory
    os.environ["FAKE_CUDA_OPTIONS"] = "inert=1"
    cuda_helpers.fake_cuda()
    found = []
    for one, schedule in json.load(sys.stdin):
        before = cudnn_plans.plan_names(Path(directory))
        weights = cuda_helpers.zero_weights(one)
        engine.Program(one, schedule, weights, sys.argv[1])
        after = cudnn_plans.plan_names(Path(directory))
        found.append(sorted(set(after) - set(before)))
print(json.dumps(found))
