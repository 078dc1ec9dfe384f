"""ios_tf doctor, on this machine and with an installation that has faults."""

import json
import os
import platform
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from commands import run, run_prepared, run_python
from native_build import ROOT
from quotas import quota_of_one_core

import ios_tf
from ios_tf.doctor import cache, gpu, settings, system
from ios_tf.native import engine, plugin

# Code that reads a variable of this package.
PATTERN = r'(?:getenv|environ)[.\w]*[(\[]"(IOS_TF_\w+)'
# Runs the command with other libraries than the installed ones.
CHILD = """
import pathlib, sys
from ios_tf.native import plugin
if sys.argv[1]:
    plugin.LIBRARIES = pathlib.Path(sys.argv[1])
from ios_tf.cli import main
sys.exit(main.main(["doctor", *sys.argv[2:]]))
"""


@pytest.fixture(autouse=True)
def no_threads(monkeypatch):
    """The benchmarks that other tests run set the variable."""
    monkeypatch.delenv("IOS_TF_NUM_THREADS", raising=False)


def doctor(
    *arguments, libraries="", before="", **environment
) -> subprocess.CompletedProcess:
    # Importing ios_tf loads the libraries if TensorFlow has been imported before.
    run = run_python if libraries else run_prepared
    command = ("-c", before + CHILD, libraries, *arguments)
    return run(*command, status=None, **environment)


def findings(text: str) -> dict[tuple[str, str], dict]:
    document = json.loads(text)
    assert document["version"] == 1
    return {(found["topic"], found["name"]): found for found in document["findings"]}


def statuses(found: dict) -> dict[tuple[str, str], str]:
    return {key: one["status"] for key, one in found.items()}


def test_this_machine_has_no_error(capfd, tmp_path):
    code, out, err = run(capfd, "doctor", f"--cache_dir={tmp_path}", "--json")
    assert (code, err) == (0, "")
    found = findings(out)
    values = {key: one["value"] for key, one in found.items()}
    assert values["versions", "ios_tf"] == ios_tf.__version__
    assert values["versions", "TensorFlow"].startswith(tf.__version__)
    assert values["versions", "numpy"] == np.__version__
    assert values["processor", "cores"].startswith(f"{len(os.sched_getaffinity(0))} of")
    assert values["cache", "directory"] == f"{tmp_path} (writable)"
    assert values["cache", "schedules"] == "0"
    assert float(values["self-test", "compare"].split()[3]) < 1e-4
    assert "error" not in statuses(found).values()
    assert all(one["advice"] for one in found.values() if one["status"] != "ok")


def test_faults_are_found(tmp_path):
    """Another TensorFlow, a cache that cannot be written, wrong variables."""
    (tmp_path / "build.json").write_text(json.dumps({"tensorflow": "2.20.1"}))
    (tmp_path / "libios_tf_ops.so").write_text("")
    done = doctor(
        "--json",
        libraries=tmp_path,
        IOS_TF_CACHE="/proc/ios_tf",
        IOS_TF_NUM_THREADS="many",
        IOS_TF_REFRESH_SECONDS="often",
        IOS_TF_CASHE="/tmp",
    )
    assert (done.returncode, done.stderr) == (1, "")
    found = findings(done.stdout)
    advice = {key: one["advice"] for key, one in found.items()}
    expected = {
        ("versions", "TensorFlow"): ("error", "pip install 'tensorflow~=2.20.0'"),
        ("plugin", "library"): ("error", "converted models run as plain TensorFlow"),
        ("cache", "directory"): ("warning", "--cache_dir=DIR or IOS_TF_CACHE=DIR"),
        ("environment", "IOS_TF_NUM_THREADS"): ("warning", "a number from 1 to"),
        ("environment", "IOS_TF_REFRESH_SECONDS"): ("warning", "a number of seconds"),
        ("environment", "IOS_TF_CASHE"): ("warning", "did you mean IOS_TF_CACHE?"),
    }
    for key, (status, text) in expected.items():
        assert (key, found[key]["status"]) == (key, status)
        assert text in advice[key]
    assert ("self-test", "convert") not in found


def test_a_file_in_place_of_the_default_cache_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("IOS_TF_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "ios_tf").write_text("")
    (finding,) = cache.cache_findings()
    assert finding.status == "warning"
    assert finding.value == f"{tmp_path}/ios_tf cannot be written: Not a directory"


def test_missing_packages_and_another_c_library_are_errors(monkeypatch):
    installed = system.version_of
    missing = ("keras", "numpy")
    monkeypatch.setattr(
        system, "version_of", lambda name: None if name in missing else installed(name)
    )
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    found = {one.name: one for one in system.version_findings()}
    for package in missing:
        assert (found[package].value, found[package].status) == (
            "not installed",
            "error",
        )
        assert found[package].advice.startswith(f"pip install {package}, ")
    library = found["C library"]
    assert (library.value, library.status) == ("unknown", "error")
    assert library.advice.endswith(". Use Linux on x86_64 with glibc, such as Debian")
    assert found["system"].status == "ok"


def test_a_missing_library_is_an_error_and_the_text_says_so(tmp_path):
    done = doctor(libraries=tmp_path)
    assert done.returncode == 1
    assert done.stderr == ""
    assert "  ERROR native library: missing" in done.stdout
    assert "is not built" in done.stdout
    assert re.search(r"\n\d+ checks, errors: \d, warnings: \d\n$", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_a_memory_limit_of_the_container_is_found(monkeypatch):
    def fail(size):
        raise engine.EngineMemoryError(f"{size} bytes are needed")

    monkeypatch.setattr(system, "_ENOUGH_MEMORY", 1)
    monkeypatch.setattr(engine, "check_memory", fail)
    (finding,) = (f for f in system.processor_findings() if f.name == "memory")
    assert finding.status == "warning"
    assert "less than 4 GiB in this container" in finding.value
    assert "docker run --memory" in finding.advice


def test_a_quota_is_found():
    with quota_of_one_core() as processes:
        code = f"open({str(processes)!r}, 'w').write('0')\n"
        done = doctor("--json", before=code)
    found = findings(done.stdout)["processor", "cores"]
    assert found["value"].startswith("1 of ")
    assert "quota" in found["value"]
    assert "resources.limits.cpu" in found["advice"]


def test_affinity_is_found():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("the process has one core only")
    first = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{first}])\n"
    done = doctor("--json", before=code)
    found = findings(done.stdout)["processor", "cores"]
    assert found["value"].endswith("limited by the affinity of the process")
    assert found["status"] == "note"


def test_all_variables_of_the_package_are_known():
    read = set()
    for pattern in ("ios_tf/**/*.py", "cc/**/*.cc"):
        for path in ROOT.glob(pattern):
            text = path.read_text()
            read |= set(re.findall(PATTERN, text))
    assert read == settings.OWN.keys()


def test_gpu_libraries_are_searched_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CUDA_LIBRARIES", f"/nowhere:{tmp_path}")
    (tmp_path / "libcudnn.so.9").write_text("")
    found = {one.name: one for one in gpu.gpu_findings()}
    assert found["cuDNN"].value == str(tmp_path / "libcudnn.so.9")
    assert found["NVRTC"].value == "libnvrtc.so.13 not found"
    assert "tensorflow[and-cuda]" in found["NVRTC"].advice


def test_version_names_what_results_depend_on(capfd):
    code, out, err = run(capfd, "--version")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        f"ios_tf {ios_tf.__version__}",
        f"TensorFlow {tf.__version__} (ios_tf is built for {plugin.built_against()})",
    ]
    assert re.fullmatch(r"oneDNN \d+\.\d+\.\d+", out.splitlines()[2])
    assert out.splitlines()[3].startswith("instruction set ")
