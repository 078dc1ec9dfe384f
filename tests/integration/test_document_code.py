"""The code in the README, guides and references runs, and prints what they show.

The documents name MODEL, OUTPUT and others, which are files in the directory in which
the code runs here. Commands run in this process, because starting one takes seconds.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import keras
import pytest
import report_documents
import shared
import tensorflow as tf
from cache_helpers import undoing_enable
from commands import run
from keras import layers
from serving_examples import load_test, prepare

import ios_tf
from ios_tf.cli.main import command_parser
from ios_tf.report.gain import gains
from ios_tf.report.text import text as report_text

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/guides/*.md")),
    *sorted(ROOT.glob("docs/coming_from/*.md")),
    *sorted(ROOT.glob("docs/reference/*.md")),
    *sorted(ROOT.glob("docs/troubleshooting/*.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
    ROOT / "CONTRIBUTING.md",
]
# Values of the documents, and those with which the code runs here.
_INSTEAD = {
    "keras:InceptionV3": "MODEL",
    "models:squeezenet": "MODEL",
    "/tmp/": "",
    "gs://models/schedules": "schedules",
    "/shared/cache": "cache",
}
# Flags that make a command quick.
_QUICK = {
    "convert": ["--warmup_runs=0", "--runs=1", "--sample_count=1", "--keep_slower"],
    "bench": ["--rounds=1"],
}
# Commands that do not run here, and why.
_ELSEWHERE = {
    r"(pip|auditwheel|python setup.py|mkdocs) ": ".ci/run runs such commands",
    r"(pre-commit|pytest|\.ci/run)": "this test would run itself",
    r"PYTHON=\S+ bazel ": "a build with Bazel takes minutes",
    r"(patch|tensorflow_model_server) ": "TensorFlow Serving is not installed",
    r'python -c "import keras; .*MobileNetV2': "downloads the weights of a network",
    r"examples/serving/build.sh|load_model_": "test_serving.py builds and runs them",
    r"(export|cd) ": "is for docker compose",
    r"kubectl ": "needs a cluster; test_fleet_files.py checks the manifests",
    r"ray start": "test_fleet_on_ray.py starts a cluster",
    r"ios_tf (tune|convert) .*--ray": "test_fleet_on_ray.py starts a cluster",
    r"docker ": "there may be no Docker; .ci/run checks the files with hadolint",
    r"python examples/serving/": "test_serving.py runs it",
    r"ios_tf bench MODEL --callers": "test_bench_callers.py measures callers",
    r"ios_tf convert .*--device=gpu": "there may be no GPU; test_devices.py has a fake",
}
# Beginnings of blocks of text that are not compared with an output, and why.
_NOT_COMPARED = {
    "servers --write": "is a drawing",
    "precision           bfloat16": "needs a processor with bfloat16 arithmetic",
    "warning: the machine was busy": "test_site.py compares this line",
    "models/models.config ": "test_serving.py reads these files",
    "$ python examples/serving/load_test.py ": "test_load_test.py has a server",
    "$ ios_tf doctor\n": "describes a machine; test_doctor.py tests the findings",
    "$ IOS_TF_CACHE=": "describes a machine; test_doctor.py tests the findings",
}
# The programs whose flags are checked where the tests do not run the commands.
_PARSERS = {
    "ios_tf": command_parser,
    "examples/serving/load_test.py": load_test._parser,
    "examples/serving/prepare.py": prepare._parser,
}


def blocks(path: Path) -> list[tuple[str, str]]:
    """The languages and texts of a document's blocks of code."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.M | re.S)
    for old, new in _INSTEAD.items():
        found = [(language, text.replace(old, new)) for language, text in found]
    return found


def network() -> keras.Model:
    inputs = keras.Input((9, 9, 3), name="images")
    a = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    b = layers.Conv2D(4, 1, padding="same", activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(a + b)))


def convert(directory: Path) -> None:
    model = directory / "MODEL"
    network().export(model, verbose=False)
    cache = str(directory / "cache")
    ios_tf.convert(model, directory / "OUTPUT", cache_dir=cache, **shared.FAST)


@pytest.fixture
def code(tmp_path, monkeypatch, capfd) -> Code:
    """An object that runs documents, in a directory with the files that they name."""
    originals = shared.made_once("documents", convert)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))
    shutil.copytree(originals / "cache", "cache")
    for name in ("MODEL", "my_saved_model"):
        os.symlink(originals / "MODEL", name)
    for name in ("OUTPUT", "inception_ios"):
        shutil.copytree(originals / "OUTPUT", name)
    return Code(capfd)


@pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_code(path, code):
    for language, text in blocks(path):
        code.run(language, text)


class Code:
    """Runs blocks of code one after another.

    Python code of a document shares its names.
    """

    def __init__(self, capfd) -> None:
        self._capfd = capfd
        images = tf.random.stateless_uniform((2, 9, 9, 3), seed=(1, 2))
        self._names = {"images": images, "batch": images}

    def run(self, language: str, text: str) -> None:
        if language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                self._run_command(line)
        elif language == "python":
            self._run_python(text)
        elif language == "c":
            # The fragment calls what the whole program calls.
            program = (ROOT / "examples/serving/load_model.c").read_text()
            assert {*re.findall(r"\w+(?=\()", text)} <= {*re.findall(r"\w+", program)}
        elif language == "sql":
            # The query has the words of queries that test_trace_in_perfetto.py runs.
            queries = (ROOT / "benchmarks/perfetto.py").read_text()
            assert {*re.findall(r"\w+", text)} <= {*re.findall(r"\w+", queries)}
        else:
            assert language == "", language
            if not text.startswith(tuple(_NOT_COMPARED)):
                self._check_output(text)
            elif text.startswith("$ "):
                check_command(shlex.split(text.partition("\n")[0])[1:])

    def _run_command(self, line: str) -> str:
        words = shlex.split(line, comments=True)
        if not words:
            return ""
        if any(re.match(pattern, line) for pattern in _ELSEWHERE):
            check_command(words)
            return ""
        program, command, *arguments = words
        assert program == "ios_tf", line
        if command == "convert" and "--again" not in arguments:
            shutil.rmtree(arguments[1], ignore_errors=True)
        quick = _QUICK.get(command, [])
        status, output, errors = run(self._capfd, command, *arguments, *quick)
        assert status == 0, (line, errors)
        return output

    def _run_python(self, text: str) -> None:
        tree = ast.parse(text)
        if "trt_convert" in text:  # TensorFlow has no TF-TRT any more
            return
        if re.search(r"\bmodel\b", text):
            self._names.setdefault("model", network())
        with undoing_enable():
            exec(compile(tree, "<document>", "exec"), self._names)

    def _check_output(self, text: str) -> None:
        """Compares all lines with those that the command prints, without the figures.

        A last line "…" replaces the other lines of the output.
        """
        assert text.startswith("$ "), f"nothing compares this text: {text}"
        command, *shown = text.removeprefix("$ ").splitlines()
        printed = self._run_command(command)
        if command.startswith("ios_tf convert "):
            printed = undisturbed_report(Path(shlex.split(command)[3]))
        expected, expected_parts = without_parts(shown)
        found, _ = without_parts(printed.splitlines())
        if expected[-1] == "…":
            found[len(expected) - 1 :] = ["…"]
        assert found == expected
        assert {*expected_parts} <= known_parts()


def undisturbed_report(output: Path) -> str:
    """The report of a conversion, as if the result were twice as fast as the original,
    and as if no other process had disturbed the measurements."""
    path = output / "assets.extra" / "ios_tf_report.json"
    document = json.loads(path.read_text())
    (signature,) = document["signatures"]
    for latencies in signature["latencies"].values():
        latencies["tensorflow"]["ms"], latencies["converted"]["ms"] = 200.0, 100.0
        latencies["converted_speedup"] = report_documents.speedup(2.0)
        latencies["portable_speedup"] = report_documents.speedup(1.0)
    return report_text(document | {"decisions": [], "regions": [], "undecided": []})


def without_parts(lines: list[str]) -> tuple[list[str], list[str]]:
    """The masked lines, and those among them that are about a part of the gain.

    The network of the tests may lack parts of the gain that the document shows.
    """
    masked = [_masked(line) for line in lines]
    parts = [line for line in masked if re.match(r" *N %  ", line)]
    return [line for line in masked if line not in parts], [p.strip() for p in parts]


def known_parts() -> set[str]:
    """The lines about parts of a gain, of a report that has all of them."""
    parts = gains(report_documents.document(), "serving_default", "1")
    assert len(parts) == 5
    return {_masked(f"1 %  {one.text}") for one in parts}


def _masked(line: str) -> str:
    """The line with "N" for figures, and other placeholders for what may differ."""
    for pattern, replacement in (
        (r"\S+_oneDNN_[\w.]+", "DEVICE"),
        (r"^\S+ is ", "MODEL is "),
        (r"\d+(\.\d+)?(e[-+]?\d+)?", "N"),
        (r"N (s|min|h|days)\b", "TIME"),
        (r"N (B|kB|MB|GB)\b", "SIZE"),
        (r"\b(block|stage)s?\b", r"\1s"),
        (r"\bstages (run|merge|split)s\b", r"stages \1"),
        (r"\bresults? of (a region|regions)\b", "results of regions"),
    ):
        line = re.sub(pattern, replacement, line)
    return line


def check_command(words: list[str]) -> None:
    """Checks the extras and flags of a command that the tests do not run."""
    check_extras(words)
    while re.match(r"\w+=", words[0]):  # an environment variable
        words = words[1:]
    if words[:2] == ["docker", "run"]:  # the image ios_tf runs the command ios_tf
        words = words[words.index("ios_tf") :]
    if words[0] == "python":
        words = words[1:]
    if parser := _PARSERS.get(words[0]):
        # The output of a command in an argument is a number.
        parser().parse_args([re.sub(r"\$\(.+\)", "1", word) for word in words[1:]])


def check_extras(words: list[str]) -> None:
    """Checks that the extras in a pip command exist."""
    project = (ROOT / "pyproject.toml").read_text()
    for extras in re.findall(r"\.\[(.+?)\]", " ".join(words)):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", project, re.M), words
