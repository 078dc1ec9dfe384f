"""specs.py DEVICE: reads blocks, each with a schedule, and prints the convolutions for
which the engine looks for a plan of cuDNN when it compiles them for the fake GPU, but
for those that one before had."""

import json
import os
import sys
import tempfile
from pathlib import Path

import cuda_helpers
import numpy as np

from ios_tf.bench import cudnn_plans
from ios_tf.native import engine


def compiled(block: dict, schedule: str, device: str) -> engine.Program:
    shapes = engine.problem(block)["weight_shapes"]
    weights = [np.zeros(s, np.float32) for of_operator in shapes for s in of_operator]
    return engine.Program(block, schedule, weights, device)


with tempfile.TemporaryDirectory() as directory:
    os.environ["IOS_TF_PLAN_CACHE"] = directory
    os.environ["FAKE_CUDA_OPTIONS"] = "inert=1"
    cuda_helpers.fake_cuda()
    found = []
    for one, schedule in json.load(sys.stdin):
        before = cudnn_plans.plan_names(Path(directory))
        compiled(one, schedule, sys.argv[1])
        after = cudnn_plans.plan_names(Path(directory))
        found.append(sorted(set(after) - set(before)))
print(json.dumps(found))
