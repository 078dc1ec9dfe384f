"""NVTX ranges of regions and operators, on the fake GPU with a fake libnvToolsExt."""

import ctypes

import cuda_engine
import numpy as np
import pytest
import traced_program

pytestmark = pytest.mark.one_core


def test_ranges_name_the_region_and_what_is_enqueued(gpu):
    nvtx = ctypes.CDLL(str(gpu.fake.directory / "libnvToolsExt.so.1"))
    nvtx.fake_nvtx_take.restype = ctypes.c_char_p
    program = traced_program.program(device=cuda_engine.DEVICE)
    inputs = [np.ones((1, 12, 12, 4), np.float32)]
    run = cuda_engine.DeviceRun(gpu, program, inputs, "float32")
    nvtx.fake_nvtx_take()
    found = []
    for _ in range(3):
        run()
        found.append(nvtx.fake_nvtx_take().decode().splitlines())
    run.close()
    eager, captured, replayed = found
    assert eager == captured
    assert eager[0] == "network"
    names = {line.strip() for line in eager[1:]}
    assert {"left", "right", "last"} <= names <= {*traced_program.OPERATORS}
    assert all(line.startswith(" ") and line[1] != " " for line in eager[1:])
    # Later launches enqueue all kernels of the graph at once, so there is one range.
    assert replayed == ["network"]
