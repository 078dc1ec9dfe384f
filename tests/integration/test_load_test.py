"""examples/serving/load_test.py, with a server that loads models as TensorFlow Serving
does."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import shared
import tensorflow as tf

from ios_tf.native import plugin

pytest.importorskip("tensorflow_serving.apis", reason="tensorflow-serving-api")

from serving_examples import load_test, prepared_models, run

SERVER = Path(__file__).resolve().parents[1] / "support" / "model_server.py"


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server, and the flags that make load_test.py use it."""

    pid: int
    models: Path
    log: Path
    flags: list[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("server")
    models, log = directory / "models", directory / "log"
    shutil.copytree(prepared_models(), models)
    config = (models / "models.config").read_text()
    for path in (str(prepared_models()), '"/models'):
        config = config.replace(path, path[: path.count('"')] + str(models))
    (models / "models.config").write_text(config)
    with _running_server(directory, log) as running:
        yield running


@contextlib.contextmanager
def _running_server(directory, log, *flags):
    models = directory / "models"
    command = [sys.executable, SERVER, f"--model_config_file={models}/models.config"]
    command += ["--port=0", "--rest_api_port=0", "--file_system_poll_wait_seconds=0.1"]
    command += [f"--plugin={plugin.LIBRARIES / 'libios_tf_ops.so'}", *flags]
    with open(log, "w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    with process:
        try:
            yield Server(process.pid, models, log, _flags_of(process.stdout, log))
        finally:
            process.terminate()


def _flags_of(output, log) -> list[str]:
    flags = {}
    for line in output:
        for protocol, text in (("grpc", "gRPC"), ("rest", "REST")):
            if text in line:
                flags[protocol] = f"--{protocol}={line.split()[-1]}"
        if len(flags) == 2:
            return list(flags.values())
    raise AssertionError(log.read_text())


@pytest.fixture
def test(server, monkeypatch, capsys):
    """Runs load_test.py; returns its exit code, its output and its errors."""

    def run_test(*flags, model=None, name="one"):
        model = model or prepared_models().parent / "one"
        arguments = [model, f"--name={name}", "--seconds=1", *server.flags, *flags]
        return run(load_test, arguments, monkeypatch, capsys)

    return run_test


def rows_of(output: str) -> list[dict[str, str]]:
    """The rows of a table, by titles of columns."""
    header, *lines = output.splitlines()
    titles = ["protocol", *re.split(r"  +", header.strip())]
    return [
        dict(zip(titles, re.split(r"  +", line), strict=True))
        for line in lines
        if line.startswith(("grpc", "rest"))
    ]


def test_table(test, server):
    code, output, error = test(
        *("--clients=1,4", f"--pid={server.pid}"),
        **{"model": shared.branches(), "name": "branches"},
    )
    assert code == 0, output + error
    rows = rows_of(output)
    found = [(row["protocol"], row["clients"]) for row in rows]
    assert found == [(p, c) for p in ("grpc", "rest") for c in ("1", "4")]
    for row in rows:
        assert row["failed"] == "0"
        assert int(row["requests"]) >= int(row["clients"])
        assert 0 < float(row["difference"]) < 1e-4  # the engine rounds differently
        assert 0 < float(row["p50 ms"]) <= float(row["p99 ms"])
        assert float(row["CPU ms/image"]) > 0


def test_the_table_is_json_on_request(test):
    code, output, error = test("--clients=1", "--protocols=grpc", "--json")
    assert (code, error) == (0, "")
    document = json.loads(output)
    (row,) = document.pop("rows")
    assert document == {"notes": [], "problems": []}
    assert (row["protocol"], row["clients"], row["failed"]) == ("grpc", 1, 0)
    assert row["requests"] > 0
    assert 0 < row["p50_ms"] <= row["p99_ms"]
    assert row["cpu_ms_per_image"] is None  # without --pid


def test_versions_are_swapped_under_load(test, server):
    versions = server.models / "branches"
    code, output, error = test(
        *("--swap=2", "--clients=4", f"--versions={versions}"),
        **{"model": shared.branches(), "name": "branches"},
    )
    assert code == 0, output + error
    rows = rows_of(output)
    assert [row["protocol"] for row in rows] == ["grpc", "rest"]
    for row in rows:
        assert (row["swaps"], row["failed"]) == ("3", "0")
        assert float(row["difference"]) < 1e-4
    assert os.listdir(versions) == ["7"]


def test_model_without_a_batch_dimension(test):
    code, output, error = test("--clients=1")
    assert code == 0, output + error
    assert [row["failed"] for row in rows_of(output)] == ["0", "0"]


def test_server_runs_the_engine(server):
    """Outputs over both protocols have the bits that the engine gives here."""
    path = str(server.models / "branches" / "7")
    function = tf.saved_model.load(path).signatures["serving_default"]
    ((key, spec),) = function.structured_input_signature[1].items()
    images = np.random.default_rng(5).random([2, *spec.shape[1:]], np.float32)
    ((name, expected),) = function(**{key: tf.constant(images)}).items()
    target = load_test.Target(
        "branches", "serving_default", {name: np.dtype("float32")}
    )
    for protocol, flag in zip(("grpc", "rest"), server.flags, strict=True):
        make = load_test.PROTOCOLS[protocol]
        connection = make(flag.partition("=")[2], target)
        found = connection.predict(make.request(target, {key: images}))[name]
        np.testing.assert_array_equal(found, expected)
        assert connection.states()[7] == "AVAILABLE"
        connection.close()


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--name=no"], "no such model (Servable not found for request: Latest(no))"),
        (["--name=branches"], "refuses the request"),
        (["--signature=no"], "there is no signature 'no'. The model has serving_def"),
        (["--input=x=1,2"], "the signature has no input 'x'"),
        (["--pid=4194304"], "no such process"),
    ],
)
def test_wrong_input_is_one_line(protocol, flags, message, test):
    code, _, error = test(f"--protocols={protocol}", *flags)
    assert code == 1
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_server_that_is_not_there_is_one_line(protocol, test):
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        address = f"localhost:{unused.getsockname()[1]}"
        code, _, error = test(f"--protocols={protocol}", f"--{protocol}={address}")
    assert code == 1
    assert f"{address}: no server answers (" in error
    assert "Connection refused" in error
    assert error.count("\n") == 1


def test_different_outputs_fail(test):
    code, output, _ = test(
        *("--clients=1", "--tolerance=1e-12"),
        **{"model": shared.branches(), "name": "branches"},
    )
    assert code == 1
    assert output.count("of the largest output, more than --tolerance=1e-12") == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--clients=0"], "must be a whole number >= 1, not 0"),
        (["--grpc=somewhere"], "must be HOST:PORT"),
        (["--protocols=http"], "must be grpc, rest or grpc,rest"),
    ],
)
def test_wrong_usage_has_code_2(flags, message, test):
    code, _, error = test(*flags)
    assert code == 2
    assert message in error


def test_swaps_need_a_directory_of_versions(test, tmp_path):
    code, _, error = test("--swap=1", f"--versions={tmp_path}")
    assert code == 1
    assert "there is no version of a model" in error


def test_networks_by_name_are_refused(test):
    """Their weights are random, unlike those of the served model."""
    code, _, error = test(model="keras:MobileNetV2")
    assert code == 1
    assert "would have other weights" in error


def test_requests_after_the_end_of_a_server_fail(server):
    """Only answered requests have a latency: failures would look quick."""
    directory = server.models.parent
    with _running_server(directory, directory / "second_log") as second:
        flags = ["--protocols=rest", "--name=one", *second.flags]
        flags = load_test._parser().parse_args(["one", *flags])
        model = load_test.Model(str(prepared_models().parent / "one"), flags)
        with load_test.Load(model, "rest", flags.rest, 2) as load:
            for client in load.clients:
                client()
            os.kill(second.pid, signal.SIGKILL)
            for client in load.clients * 3:
                client()
    assert (load.calls, load.failed) == (8, 6)
    assert len(load.answered_ms(counted=8)) == 2
    assert load.answered_ms(counted=6) == []
    assert "no server answers" in load.failure


def test_the_engine_obeys_the_parallelism_of_the_server(server):
    """The thread that calls the engine computes, too, beside the engine's threads."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core, so that a limit changes nothing")
    assert _workers(server.pid) > 0
    directory = server.models.parent
    flag = "--tensorflow_intra_op_parallelism=1"
    with _running_server(directory, directory / "limited_log", flag) as limited:
        # The server has answered the warm-up requests before it listens.
        assert _workers(limited.pid) == 0, _cores(limited.pid)


def _cores(pid: int) -> str:
    """The cores and the control group of a process, which limit its threads, too."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    allowed = [line for line in status if line.startswith("Cpus_allowed_list")]
    return "\n".join([*allowed, Path(f"/proc/{pid}/cgroup").read_text()])


def _workers(pid: int) -> int:
    """The number of threads that the engine has started in a process."""
    names = Path(f"/proc/{pid}/task").glob("*/comm")
    return [path.read_text() for path in names].count("ios_worker\n")


def test_processor_time_is_that_of_the_process():
    before = time.process_time()
    found = load_test.processor_seconds(os.getpid())
    after = time.process_time()
    tick = 1 / os.sysconf("SC_CLK_TCK")  # user and system time are each rounded
    assert before - 2 * tick <= found <= after + 2 * tick
