"""The code in the README, guides and references runs, and prints what they show.

The documents name MODEL, OUTPUT and others, which are files in the directory in which
the code runs here. Commands run in this process, because starting one takes seconds.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
from pathlib import Path

import keras
import pytest
import shared
import tensorflow as tf
from cache_helpers import run, undoing_enable
from keras import layers

import ios_tf

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/guides/*.md")),
    *sorted(ROOT.glob("docs/coming_from/*.md")),
    *sorted(ROOT.glob("docs/reference/*.md")),
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
    r"(pip|auditwheel) ": ".ci/run makes and installs a wheel",
    r"PYTHON=python3 bazel ": "a build with Bazel takes minutes",
    r"ray start": "test_fleet_on_ray.py starts a cluster",
    r"ios_tf (tune|convert) .*--ray": "test_fleet_on_ray.py starts a cluster",
    r"docker ": "there may be no Docker; .ci/run checks the files with hadolint",
    r"python examples/serving/": "test_serving.py runs it",
    r"ios_tf bench MODEL --callers": "test_bench_callers.py measures callers",
    r"ios_tf convert .*--device=gpu": "there may be no GPU; test_devices.py has a fake",
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
    (tmp_path / "cache").mkdir()
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
        else:
            assert language == "", language
            if text.startswith("$ "):
                self._check_output(text)

    def _run_command(self, line: str) -> str:
        words = shlex.split(line, comments=True)
        if not words:
            return ""
        if any(re.match(pattern, line) for pattern in _ELSEWHERE):
            check_extras(words)
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
        """Compares the rows of a table with those that the command prints."""
        command, *shown = text.removeprefix("$ ").splitlines()
        printed = self._run_command(command).splitlines()
        label = re.compile(r"(\s*\S.*?)  ")
        expected = [match[1] for line in shown if (match := label.match(line))]
        found = [match[1] for line in printed if (match := label.match(line))]
        assert expected
        assert [row for row in found if row in expected] == expected


def check_extras(words: list[str]) -> None:
    """Checks that the extras in a pip command exist."""
    project = (ROOT / "pyproject.toml").read_text()
    for extras in re.findall(r"\.\[(.+?)\]", " ".join(words)):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", project, re.M), words
