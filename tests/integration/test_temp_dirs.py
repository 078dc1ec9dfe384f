"""Files that killed processes leave behind, and their removal."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time

import prepared_python
import pytest
import tensorflow as tf
from commands import run_prepared

import ios_tf
from ios_tf.conversion import convert
from ios_tf.model import temp_dirs
from ios_tf.model.outputs import written_directory

# Starts to write an output with old files, says so, and waits.
_WRITER = """
import os, sys, time
from ios_tf.model.outputs import written_directory
with written_directory(sys.argv[1], overwrite=True) as directory:
    open(os.path.join(directory, "saved_model.pb"), "w").close()
    os.utime(directory, (1e9, 1e9))
    print(directory, flush=True)
    sys.stdin.read()
"""
_COMMAND = """
import os, sys, tempfile
from ios_tf.model.temp_dirs import temporary_directory
with temporary_directory() as directory:
    tempfile.mkdtemp(prefix="__autograph_generated")
    os.utime(directory, (1e9, 1e9))
    print(directory, flush=True)
    sys.stdin.read()
"""
_STEP = """
import os, sys, tempfile
from ios_tf.model.temp_dirs import remove_abandoned_steps, step_directory
remove_abandoned_steps()
before = tempfile.gettempdir()
with step_directory() as directory:
    assert tempfile.gettempdir() == before == os.environ["TMPDIR"]
    os.utime(directory, (1e9, 1e9))
    print(directory, flush=True)
    sys.stdin.read()
"""
_WAITING_COMMAND = """
import os, signal, sys, tempfile
from ios_tf.cli import main, show
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
def wait(options):
    tempfile.mkdtemp()
    print(os.environ["TMPDIR"], flush=True)
    sys.stdin.read()
show._show = wait
sys.exit(main.main(["show", "model"]))
"""
# Sends itself a signal while native code runs, which drops exceptions raised there.
_FORGETFUL_COMMAND = """
import ctypes, os, signal, sys, tempfile, time
from ios_tf.cli import main, show
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
@ctypes.CFUNCTYPE(None)
def signalled():
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(60)
def wait(options):
    tempfile.mkdtemp()
    signalled()
    print("forgotten", flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep(1)
        print("tidied", flush=True)
show._show = wait
sys.exit(main.main(["show", "model"]))
"""


def start(code: str, *arguments: str, python: str = sys.executable, **environment: str):
    process = subprocess.Popen(
        [python, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return process, process.stdout.readline().strip()


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    output = str(tmp_path / "out")
    killed, abandoned = start(_WRITER, output)
    living, in_use = start(_WRITER, output)
    killed.kill()
    killed.wait()
    assert {abandoned, in_use} == {str(p) for p in tmp_path.iterdir()}
    # These must stay: old directories with other names, a link, and a recent directory.
    for name in (".other.12345678.tmp", ".out.12345678.old"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1e9, 1e9))
    (tmp_path / ".out.link.tmp").symlink_to(tmp_path)
    (tmp_path / ".out.young.tmp").mkdir()
    others = {str(p) for p in tmp_path.iterdir()} - {abandoned}
    with written_directory(output) as directory:
        (open(os.path.join(directory, "saved_model.pb"), "w")).close()
        assert {str(p) for p in tmp_path.iterdir()} == {*others, directory}
    living.communicate("")
    assert living.returncode == 0
    assert os.listdir(output) == ["saved_model.pb"]
    assert {str(p) for p in tmp_path.iterdir()} == {*others, output} - {in_use}


@pytest.mark.parametrize("number", [signal.SIGHUP])
def test_commands_that_are_asked_to_end_tidy_up(number, tmp_path):
    process, directory = start(_WAITING_COMMAND, TMPDIR=str(tmp_path))
    assert os.path.dirname(directory) == str(tmp_path)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_that_native_code_forgets(number, tmp_path):
    process, line = start(
        _FORGETFUL_COMMAND,
        str(int(number)),
        python=prepared_python.path(),
        TMPDIR=str(tmp_path),
    )
    output, _ = process.communicate(timeout=50)
    assert (line, output) == ("forgotten", "tidied\n")
    assert process.returncode == 128 + number
    assert os.listdir(tmp_path) == []


def test_a_killed_step_of_a_library_is_removed_by_the_next_conversion(tmp_path):
    killed, abandoned = start(_STEP, TMPDIR=str(tmp_path))
    living, in_use = start(_STEP, TMPDIR=str(tmp_path))
    killed.kill()
    killed.wait()
    assert os.path.isdir(abandoned)
    third, other = start(_STEP, TMPDIR=str(tmp_path))
    assert {str(p) for p in tmp_path.iterdir()} == {in_use, other}
    for process in (living, third):
        process.communicate("")
        assert process.returncode == 0
    assert os.listdir(tmp_path) == []


def test_a_conversion_looks_for_abandoned_steps_once(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    abandoned = temporary / "ios_tf_step_dead"
    abandoned.mkdir(parents=True)
    os.utime(abandoned, (1e9, 1e9))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    looked = []
    really = temp_dirs.remove_abandoned

    def noted(parent, *names):
        looked.append(parent)
        really(parent, *names)

    monkeypatch.setattr(temp_dirs, "remove_abandoned", noted)
    model = tf.Module()
    weights = tf.ones((3, 3, 4, 4))

    @tf.function(input_signature=[tf.TensorSpec((1, 8, 8, 4))])
    def network(x):
        return {"y": tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME"))}

    settings = {"cache_dir": str(tmp_path / "cache"), "keep_slower": True}
    settings |= {"warmup_runs": 0, "runs": 1, "sample_count": 1}
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=network)
    ios_tf.convert(str(tmp_path / "model"), str(tmp_path / "out"), **settings)
    assert looked.count(str(temporary)) == 1
    assert not abandoned.exists()
    ios_tf.optimize(network, **settings)
    assert looked.count(str(temporary)) == 2


def test_a_discarded_result_leaves_the_output_locked(tmp_path, monkeypatch):
    locked = []
    really = convert.copy_directory

    def copy(source, target):
        descriptor = os.open(target, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        locked.append(os.listdir(target))
        really(source, target)

    monkeypatch.setattr(convert, "copy_directory", copy)
    model = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec((1, 8))])
    def sort(x):
        return {"y": tf.sort(x)}

    # No part of the model can run on the engine, so the original is copied.
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=sort)
    report = ios_tf.convert(str(tmp_path / "model"), str(tmp_path / "out"))
    assert report.verdict == "copied"
    assert locked == [[]]


def test_a_conversion_writes_no_temporary_files_of_autograph(tmp_path, monkeypatch):
    """Temporary files of AutoGraph would be left behind if the process was killed."""
    model = tf.Module()
    weights = tf.ones((3, 3, 4, 4))

    @tf.function(input_signature=[tf.TensorSpec((1, 8, 8, 4))], autograph=False)
    def network(x):
        return {"y": tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME"))}

    model.network = network
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=network)
    begun = []
    really = tempfile.NamedTemporaryFile

    def noted(*arguments, **keywords):
        begun.append(keywords.get("prefix"))
        return really(*arguments, **keywords)

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", noted)
    ios_tf.convert(
        str(tmp_path / "model"),
        str(tmp_path / "out"),
        cache_dir=str(tmp_path / "cache"),
        keep_slower=True,
        warmup_runs=0,
        runs=1,
        sample_count=1,
    )
    assert begun == []


def test_temporary_files_of_killed_commands(tmp_path):
    killed, abandoned = start(_COMMAND, TMPDIR=str(tmp_path))
    living, in_use = start(_COMMAND, TMPDIR=str(tmp_path))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(os.listdir(abandoned)) == 1
    other, third = start(_COMMAND, TMPDIR=str(tmp_path))
    assert {str(p) for p in tmp_path.iterdir()} == {in_use, third}
    for process in (living, other):
        process.communicate("")
    assert os.listdir(tmp_path) == []


def test_the_process_has_its_directory_back(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    with temp_dirs.temporary_directory() as directory:
        assert os.environ["TMPDIR"] == directory == tempfile.gettempdir()
    assert tempfile.gettempdir() == str(tmp_path)
    assert "TMPDIR" not in os.environ
    assert os.listdir(tmp_path) == []


def test_a_clock_that_was_set_back(tmp_path):
    for name in ("ios_tf_run_a", "ios_tf_run_b"):
        (tmp_path / name).mkdir()
    future = time.time() + 1e6
    os.utime(tmp_path / "ios_tf_run_a", (future, future))
    temp_dirs.remove_abandoned(str(tmp_path), "ios_tf_run_")
    assert os.listdir(tmp_path) == ["ios_tf_run_b"]


def test_an_old_model_is_there_whenever_the_process_is_killed(tmp_path):
    """The old and the new model are exchanged atomically."""
    output = tmp_path / "out"
    code = """
import os, sys
from ios_tf.model import outputs
remove = outputs._remove
def die(directory):
    os.kill(os.getpid(), 9)
outputs._remove = die
with outputs.written_directory(sys.argv[1], overwrite=True) as directory:
    with open(os.path.join(directory, "saved_model.pb"), "w") as file:
        file.write("new")
"""
    output.mkdir()
    (output / "saved_model.pb").write_text("old")
    run_prepared("-c", code, output, status=-signal.SIGKILL)
    assert (output / "saved_model.pb").read_text() == "new"
    (left,) = (p for p in tmp_path.iterdir() if p != output)
    os.utime(left, (1e9, 1e9))
    with written_directory(str(output), overwrite=True) as directory:
        tf.io.gfile.GFile(os.path.join(directory, "saved_model.pb"), "w").close()
    assert os.listdir(tmp_path) == ["out"]
