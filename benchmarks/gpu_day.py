"""Measures everything on a GPU, the most important first: python -m benchmarks gpu_day.

This command is for a machine that is available for minutes only. Each step is a
separate process, so a step that fails or hangs costs only its own time. Most steps need
neither TensorFlow nor a network connection: the networks and the expected plans are in
benchmarks/gpu_data.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import command_line, cudnn_plans, gpu_data
from benchmarks.processes import run_for
from benchmarks.results import read_json
from ios_tf.errors import UserError
from ios_tf.files import utc_now, write_json
from ios_tf.tables import table

_SANITIZER = "compute-sanitizer"
# The peers that can run a network without a SavedModel, except torch.compile.
_PEERS = ("ios", "ios_sequential", "torch", "torch_channels_last")
_FINGERPRINT = (
    "import sys; from ios_tf.native import engine; "
    "print(engine.device_fingerprint(sys.argv[1]))"
)


@dataclasses.dataclass(frozen=True)
class Step:
    """One step, which is a process.

    Attributes:
      name: name of the step and of its files.
      command: the words of the command.
      share: share of all minutes that this step may use; see `_limit`.
      missing: message about a missing requirement, or "".
    """

    name: str
    command: Sequence[str]
    share: float
    missing: str = ""


def steps(options: argparse.Namespace) -> list[Step]:
    """Returns all steps, the most important first."""
    device = [f"--device={options.device}"]
    networks = list(options.networks or gpu_data.NETWORKS)
    smallest = [options.networks[-1] if options.networks else gpu_data.SMALLEST]
    # Large networks take most of the time, so they come after all other steps.
    large = [] if options.networks else list(gpu_data.LARGE_NETWORKS)
    no_sanitizer = "" if shutil.which(_SANITIZER) else f"{_SANITIZER} is not installed"
    no_reference = _missing("torch", "PyTorch, the float64 reference,")

    def file(name: str) -> str:
        return os.path.join(options.output, name)

    def check(name: str, *words: str) -> list[str]:
        return command_line("checks", *words, *device, f"--json={file(name)}.json")

    def sanitized(tool: str) -> Step:
        words = [_SANITIZER, f"--tool={tool}", "--error-exitcode=9"]
        command = [*words, *check(tool, "--only_networks", *smallest)]
        return Step(tool, command, 0.1, no_sanitizer or no_reference)

    def measured(
        name: str,
        run_on: Sequence[str],
        dtype: str,
        folder: str,
        peers: Sequence[str] = _PEERS,
    ) -> list[str]:
        words = [name, *run_on, *device, "--quick", f"--dtype={dtype}"]
        if name == "frameworks":
            words.append(f"--peers={','.join(peers)}")
        return command_line(*words, f"--output={file(folder)}")

    def experiment(name: str, share: float, dtype: str, missing: str = "") -> Step:
        command = measured(name, networks, dtype, dtype)
        return Step(f"{name}_{dtype}", command, share, missing)

    def of_large(name: str) -> Step:
        return Step(f"{name}_large", measured(name, large, "float16", "large"), 0.2)

    # A network's results are written when all peers are measured. torch.compile
    # searches for minutes, so it has its own step.
    compiled = measured(
        "frameworks", smallest, "float16", "torch_compile", ("ios", "torch_compile")
    )
    types = "--dtypes=float16,float32,bfloat16"

    def whole(name: str, dtypes: str, share: float) -> Step:
        command = check(name, f"--dtypes={dtypes}", "--only_networks", *networks)
        return Step(name, command, share, no_reference)

    no_tensorflow = _missing("tensorflow", "TensorFlow")
    tests = ["pytest", "-n", "0", "tests/gpu/test_tensorflow_gpu.py"]
    models = ["keras:InceptionV3", "keras:MobileNetV2", "keras:ResNet50"]
    in_tensorflow = ["in_tensorflow", *models, f"--device={options.device}", "--xla"]
    in_tensorflow += ["--dtypes=float32,mixed_float16", f"--json={file('models')}.json"]
    no_counters = _missing("pynvml", "nvidia-ml-py")
    return [
        Step("library", [sys.executable, "-c", _FINGERPRINT, options.device], 0.05),
        Step("operators", check("operators", types), 0.15, no_reference),
        whole("networks_float16", "float16", 0.1),
        Step("tensorflow", [sys.executable, "-m", *tests], 0.15, no_tensorflow),
        Step("models", command_line(*in_tensorflow), 0.2, no_tensorflow),
        experiment("schedules", 0.2, "float16"),
        experiment("frameworks", 0.2, "float16"),
        experiment("schedules", 0.2, "float32"),
        experiment("frameworks", 0.2, "float32"),
        whole("networks_others", "float32,bfloat16", 0.1),
        Step("streams", command_line("streams", *smallest, *device), 0.05),
        sanitized("memcheck"),
        sanitized("racecheck"),
        experiment("batch", 0.15, "float32"),
        experiment("utilization", 0.1, "float32", no_counters),
        Step(
            "plans",
            command_line(
                "cudnn_plans",
                *device,
                f"--convolutions={options.convolutions}",
                f"--recordings={options.recordings}",
                f"--json={file('plans')}.json",
            ),
            0.15,
        ),
        *(of_large(name) for name in ("schedules", "frameworks") if large),
        Step("torch_compile", compiled, 0.2, _missing("torch", "PyTorch")),
    ]


def _missing(module: str, name: str) -> str:
    return "" if importlib.util.find_spec(module) else f"{name} is not installed"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    Attributes:
      outcome: "passed", "failed", "ended: no time", "left out".
      last_line: the last line of its output, or why it was left out.
    """

    step: str
    command: str
    outcome: str
    seconds: float
    last_line: str


def run(options: argparse.Namespace) -> int:
    """Runs the steps; returns 0 if all passed and the latencies agree, else 1.

    Raises:
      UserError: the output cannot be written, or a step's name is unknown.
    """
    begin = time.monotonic()
    end = begin + 60 * options.minutes
    every = steps(options)
    names = [step.name for step in every]
    chosen = options.steps.split(",") if options.steps else names
    if unknown := set(chosen) - set(names):
        raise UserError(
            f"there is no step {min(unknown)!r}. The steps are {', '.join(names)}"
        )
    try:
        os.makedirs(options.output, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{options.output} cannot be created: {error.strerror}"
        ) from None
    # Steps share caches, so that a step reuses what earlier steps timed and compiled.
    for variable in ("IOS_TF_PLAN_CACHE", "IOS_TF_CODE_CACHE"):
        os.environ.setdefault(variable, os.path.join(options.output, variable.lower()))
    path = os.path.join(options.output, "gpu_day.json")
    # A command with other steps may have run before.
    earlier = read_json(path)["steps"] if os.path.exists(path) else []
    earlier = [step for step in earlier if step["step"] not in chosen]
    outcomes = []
    todo = [step for step in every if step.name in chosen]
    while todo:
        limit = _limit(todo, 60 * options.minutes, end - time.monotonic())
        outcomes.append(last := _outcome(todo.pop(0), limit, options.output))
        time_used = f" after {last.seconds:.0f} s of {limit:.0f} s"
        if last.outcome == "left out":
            time_used = ""
        print(f"{last.step}: {last.outcome}{time_used}: {last.last_line}", flush=True)
        record = {
            "command": options.command,
            "date": utc_now(),
            "minutes": options.minutes,
            "seconds": round(time.monotonic() - begin, 1),
            "steps": earlier + [dataclasses.asdict(one) for one in outcomes],
        }
        write_json(path, record)
    rows = [(one.step, one.outcome, f"{one.seconds:.0f} s") for one in outcomes]
    print(table(("step", "outcome", "took"), rows))
    agree = _latencies_agree(options.output)
    return int(not agree or any(one.outcome != "passed" for one in outcomes))


def _limit(todo: Sequence[Step], whole: float, left: float) -> float:
    """Returns the time limit in seconds of the first step of `todo`.

    It is the step's share of the whole time. If more time is left, because other steps
    did not need theirs, the remaining steps share what is left.
    """
    shares = sum(step.share for step in todo if not step.missing)
    share = todo[0].share
    return min(left, max(share * whole, share * left / max(shares, share)))


# The columns of _latencies(), and how far apart three latencies may be.
_LATENCIES = ("network", "schedule", "sum of stages", "profiler", "calls", "apart")
_MOST_APART = 0.05


def _latencies_agree(output: str) -> bool:
    """Prints three latencies of each network; returns false if they disagree."""
    latencies = _latencies(output)
    if latencies:
        rows = [(*cells, f"{apart:.0%}") for cells, apart in latencies]
        print(table(_LATENCIES, rows))
    apart = sum(apart > _MOST_APART for _, apart in latencies)
    if apart:
        print(
            f"The latencies of {apart} of {len(latencies)} rows are more than "
            f"{_MOST_APART:.0%} apart."
        )
    return not apart


def _latencies(output: str) -> list[tuple[tuple[str, ...], float]]:
    """Returns rows with three latencies of each network, and how far they are apart.

    The search adds the latencies of stages. So the sum should equal the latency of the
    whole network, by the profiler and by the wall clock of calls. Latencies are in
    milliseconds, and the difference is a fraction of the smallest.
    """
    rows = []
    for dtype in ("float32", "float16"):
        measured, called = (
            _networks(os.path.join(output, dtype, f"{name}.json"))
            for name in ("schedules", "frameworks")
        )
        for network in [name for name in measured if name in called]:
            for schedule, peer in (("sequential", "ios_sequential"), ("auto", "ios")):
                by_profiler, by_clock = measured[network][schedule], called[network]
                if "median_ms" not in by_clock.get(peer, {}):
                    continue  # the peer was not measured
                times = [
                    by_profiler["sum_of_stages_ms"],
                    by_profiler["median_ms"],
                    by_clock[peer]["median_ms"],
                ]
                cells = (f"{network}, {dtype}", schedule, *(f"{t:.3f}" for t in times))
                rows.append((cells, max(times) / min(times) - 1))
    return rows


def _networks(path: str) -> Mapping[str, Any]:
    """Returns an experiment's results by network; none if it has not run."""
    if not os.path.exists(path):
        return {}
    return read_json(path)["results"]["networks"]


def _outcome(step: Step, limit: float, output: str) -> Outcome:
    start = time.monotonic()
    what, line = "left out", step.missing
    if not step.missing and limit < 1:
        line = "no time was left"
    elif not step.missing:
        log = Path(output, f"{step.name}.log")
        with open(log, "wb") as file:
            code = run_for(limit, step.command, file)
        what = {0: "passed", None: "ended: no time"}.get(code, "failed")
        said = log.read_text(encoding="utf-8", errors="replace").split("\n")
        line = next((text.strip() for text in reversed(said) if text.strip()), "")
    seconds = round(time.monotonic() - start, 1)
    return Outcome(step.name, " ".join(step.command), what, seconds, line[:100])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "networks",
        metavar="NETWORK",
        nargs="*",
        help="files that python -m benchmarks export_blocks wrote; the sanitizers run "
        "the last file; default: the paper's four networks, of which they run "
        "SqueezeNet. RandWire and NASNet come last",
    )
    cudnn_plans.add_inputs(parser)
    parser.add_argument(
        "--minutes", type=_minutes, default=25.0, metavar="M", help="for all steps"
    )
    parser.add_argument("--output", default="gpu_day", metavar="DIR")
    parser.add_argument("--steps", metavar="A,B", help="run only these; default: all")


def _minutes(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number of minutes, not {text!r}")
