"""Commands on terminals and in pipes: progress, interrupts, foreign messages."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import prepared_python
import pytest
import shared
from commands import run_prepared, run_python
from tensorflow.core.protobuf import saved_model_pb2
from terminals import Terminal

from ios_tf.conversion import phases
from ios_tf.reasons import Reason

IOS_TF = ["-m", "ios_tf"]
FAST = ["--strategy=parallel", "--max_groups=2", "--max_group_size=2", "--runs=1"]
FAST += ["--warmup_runs=0", "--sample_count=1", "--keep_slower", "--device=cpu"]
# TensorFlow's own messages, as its libraries begin them. Tests of these messages start
# Python; other tests start processes that have imported TensorFlow.
NOISE = re.compile(r"oneDNN custom|cuda|[IWE]\d{4} |All log messages|TensorRT", re.I)


@pytest.fixture(autouse=True)
def as_users_have_it(tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)


@pytest.fixture
def imported(monkeypatch) -> str:
    """A Python whose processes have imported TensorFlow, which logs errors only."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")  # as the command does
    return prepared_python.path()


def convert(tmp_path, *more: str) -> list[str]:
    return [*IOS_TF, "convert", shared.branches(), str(tmp_path / "out"), *FAST, *more]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_conversion_on_a_terminal(columns, tmp_path, request):
    python = sys.executable if columns == 60 else request.getfixturevalue("imported")
    with Terminal([python, *convert(tmp_path)], columns) as terminal:
        bars = []
        while terminal.read_more(120):
            lines = terminal.screen()
            shown = [line for line in lines if re.search(r" \d+%", line)]
            assert len(shown) <= 1, lines  # a bar that is too long takes two lines
            bars += [line for line in shown if line not in bars]
        assert terminal.process.wait() == 0
        text = "\n".join(terminal.screen())
    assert not NOISE.search(text)
    assert "written" in text and not re.search(r" \d+% ", text)
    drawn = [name for name in phases.WEIGHTS if any(b.startswith(name) for b in bars)]
    assert phases.SEARCH in drawn and len(drawn) >= 4
    assert any(re.search(r"\d\.\d\dx", bar) for bar in bars)
    assert all(len(bar) <= columns for bar in bars)


def test_a_conversion_in_a_pipe(tmp_path):
    done = run_python(*convert(tmp_path))
    names = [re.sub(r"^ios_tf: \d+:\d\d ", "", s) for s in done.stderr.splitlines()]
    assert [re.sub(r" \(.*", "", name) for name in names] == list(phases.WEIGHTS)
    assert re.search(r"\(\d+\.\d\dx vs (sequential|TensorFlow)\)$", names[-1])
    assert "written" in done.stdout and "\x1b" not in done.stdout + done.stderr


def test_a_quiet_conversion(imported, tmp_path):
    done = run_python(*convert(tmp_path, "--quiet"), python=imported)
    assert done.stderr == ""
    assert "written" in done.stdout and "device:" not in done.stdout


def test_an_interrupt_leaves_a_clean_terminal(tmp_path):
    # A model that takes minutes to search.
    words = [*IOS_TF, "convert", "models:nasnet_a_large", str(tmp_path / "out")]
    with Terminal([sys.executable, *words], 80, echoes=True) as terminal:
        assert terminal.read_until(lambda text: phases.READ.encode() in text, 120)
        terminal.type(b"\x03")
        assert terminal.wait() == 130
        lines = [line for line in terminal.screen() if line]
    assert lines[-1] == "ios_tf: interrupted"
    assert not any("%" in line or phases.READ in line for line in lines)
    assert len(lines) <= 3  # a message about the device, ^C, and this sentence
    assert not os.path.exists(tmp_path / "out")


def test_tensorflows_messages_appear_on_request(tmp_path):
    command = [*IOS_TF, "cache", "list"]
    (tmp_path / "cache").mkdir()
    quiet = run_python(*command)
    assert quiet.stderr == ""
    loud = run_python(*command, "--verbosity=1")
    assert NOISE.search(loud.stderr)
    assert loud.stdout == quiet.stdout


@pytest.mark.parametrize("columns", [60, 80])
def test_the_list_of_a_cache_fits_the_terminal(columns, imported):
    cache = os.path.join(os.path.dirname(shared.converted_cells()), "cache")
    schedules = {}
    for path in Path(cache).rglob("*.json"):
        schedules[path.name[:12]] = json.loads(path.read_text())
    assert len(schedules) > 1
    command = [imported, *IOS_TF, "cache", "list", f"--cache_dir={cache}"]
    with Terminal(command, columns) as terminal:
        assert terminal.wait() == 0
        lines = terminal.written.decode().splitlines()
    # The terminal itself would break longer lines in the middle of a cell. The line
    # with the device's name may be longer than the terminal's width.
    tables = [line for line in lines if not line.endswith(":")]
    assert max(map(len, tables)) <= columns
    for signature, schedule in schedules.items():
        (row,) = [line for line in lines if line.startswith(signature)]
        assert "greedy" in row
        stages = len(schedule["stages"])
        assert re.search(rf"\b{stages}\b", row), row


def test_our_own_warnings_are_not_hidden(tmp_path, monkeypatch):
    """Warnings of this package's native code are shown. TensorFlow's are hidden."""
    with monkeypatch.context() as context:
        context.setenv("TF_CPP_MIN_LOG_LEVEL", "3")  # for the prepared Python
        run_prepared(*convert(tmp_path, "--quiet"))
    path = str(tmp_path / "out" / "saved_model.pb")
    model = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        model.ParseFromString(file.read())
    for function in model.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if "_ios_stage" in node.attr:
                stages = node.attr["_ios_stage"].list.i
                stages[:] = [1000 - stage for stage in stages]
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    shown = run_python(*IOS_TF, "show", tmp_path / "out", status=None)
    lines = {*shown.stderr.splitlines()}
    assert lines and all(line.startswith("ios_tf: ") for line in lines)
    assert any(line.endswith(f"[{Reason.INVALID_SCHEDULE.code}]") for line in lines)
