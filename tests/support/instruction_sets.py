"""Runs tests in processes that are limited to an instruction set."""

import pytest
from commands import run_python


def limited_to(*limits):
    """Runs the decorated test in a process for each value of ONEDNN_MAX_CPU_ISA."""

    def decorated(test):
        @pytest.mark.parametrize("limit", limits)
        def in_process(limit):
            code = f"import {test.__module__} as m; m.{test.__name__}.body()"
            run_python("-c", code, ONEDNN_MAX_CPU_ISA=limit)

        in_process.body = test
        return in_process

    return decorated
