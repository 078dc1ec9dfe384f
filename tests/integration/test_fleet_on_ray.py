"""Searches on a Ray cluster of several nodes on this machine."""

import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cache_helpers import add_pending
from commands import run

import ios_tf
from ios_tf.cost.cost_model import SampledCostModel
from ios_tf.cost.samples import Sample
from ios_tf.cost.stage_key import lane_key, stage_key
from ios_tf.errors import UserError
from ios_tf.fleet.device import stage_json
from ios_tf.native import engine, plugin
from ios_tf.scheduler import Problem, Strategy
from ios_tf.tuning import pending
from ios_tf.tuning.algorithms import allowed
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings

os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # on a busy machine
ray = pytest.importorskip("ray", reason="Ray is not installed")
from fleet_devices import FOLDER, KnownDevice, known_ms  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from ios_tf.fleet import ray_fleet  # noqa: E402

NAME = "test device"
DEVICE = {"ios_tf_device": 1}
# Arguments: the cache and the cluster's address.
_TUNE = """
import sys
from fleet_devices import KnownDevice
from ios_tf.fleet import ray_fleet
from ios_tf.tuning import pending
ray_fleet.DEVICE_CLASS = KnownDevice
tuned = pending.tune(sys.argv[1], ray=sys.argv[2], fingerprint="test device")
print(len(tuned.schedules))
"""


def problem(number: int, inputs=((-1,), (-1,), (0,), (1,), (2,), (3,), (1,))):
    """Convolutions in several branches. The outputs of the last three are joined."""
    convolution = {"type": "conv2d", "filters": 8 + number, "kernel": [3, 3]}
    convolution |= {"padding": "SAME"}
    block = {
        "version": 1,
        "name": f"block {number}",
        "dtype": "float32",
        "inputs": [[1, 8, 8, 4]],
        "operators": [{**convolution, "inputs": list(refs)} for refs in inputs],
        "outputs": [len(inputs)],
    }
    joined = range(len(inputs) - 3, len(inputs))
    block["operators"].append({"type": "concat", "inputs": list(joined)})
    return Problem.from_json(engine.problem(block))


class KnownLatencies(SampledCostModel):
    """The latencies of KnownDevice, for a search without a fleet."""

    lanes = 16
    lanes_divide_device = False

    def sample(self, block, stage, lanes):
        key = stage_key(block, stage)
        if stage.strategy is Strategy.CONCURRENT and len(stage.groups) == 1:
            key = lane_key(block, stage.groups[0], max(lanes, 1), {})
        return [Sample(known_ms(key))] * self.measurement.sample_count

    def compare(self, block, candidates, seconds=0.0):
        found = [stage_json(*stages) for stages in candidates]
        return [known_ms(json.dumps(one["stages"])) for one in found]

    def release(self):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        found = tmp_path_factory.mktemp("fleet")
        patch.setenv(FOLDER, str(found))
        support = str(Path(__file__).parents[1] / "support")
        patch.setenv("PYTHONPATH", os.pathsep.join([support, *sys.path]))
        patch.setattr(ray_fleet, "DEVICE_CLASS", KnownDevice)
        yield found


@pytest.fixture(scope="module")
def cluster(folder):
    """A head without a device, and three nodes with a device each."""
    found = Cluster()
    add_node(found)
    for _ in range(3):
        add_node(found, resources=DEVICE)
    yield found
    found.shutdown()


def add_node(cluster: Cluster, **details):
    # By default, a node waits at most 15 s for processes that choose these ports, which
    # may be too short on a busy machine.
    names = ("metrics_agent_port", "runtime_env_agent_port")
    return cluster.add_node(
        num_cpus=1, **dict(zip(names, free_ports(len(names)), strict=True)), **details
    )


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def measured(folder):
    """A function that returns the (node, key) of all tasks since the test began."""
    log = folder / "log"
    log.write_text("")
    yield lambda: [tuple(line.split(" ", 1)) for line in log.read_text().splitlines()]
    for path in folder.glob("*.json"):
        path.unlink()


_numbers = itertools.count()


@pytest.fixture
def blocks():
    """Three blocks that no other test has, because a dispatcher remembers latencies."""
    return [problem(next(_numbers)) for _ in range(3)]


@pytest.fixture
def cache(tmp_path, blocks):
    return fill(tmp_path / "cache", blocks)


def fill(path: Path, blocks: list[Problem]) -> str:
    for block in blocks:
        add_pending(str(path), block, NAME)
    return str(path)


def stages(cache: str) -> dict:
    """The stages of all schedules in a cache, by signature."""
    return {
        path.stem: json.loads(path.read_text())["stages"]
        for path in (Path(cache) / NAME).glob("*.json")
    }


def expected(blocks: list[Problem]) -> dict:
    """The stages that a search without a fleet finds."""
    settings = SearchSettings(algorithms=allowed("cpu"))
    schedules, _ = Searcher(KnownLatencies(), settings).schedule_all(blocks)
    return {name: json.loads(s.to_json())["stages"] for name, s in schedules.items()}


def tune(cache: str, address: str) -> pending.Tuned:
    return ios_tf.tune(cache, ray=address, fingerprint=NAME)


def in_thread(cache: str, address: str) -> tuple[threading.Thread, list]:
    found: list = []
    thread = threading.Thread(target=lambda: found.append(tune(cache, address)))
    thread.start()
    return thread, found


def wait_for(condition) -> None:
    """Waits until a condition is true, for at most two minutes."""
    ended = threading.Event()
    for _ in range(1200):
        if condition():
            return
        ended.wait(0.1)
    raise AssertionError("the condition did not become true within two minutes")


def nodes(cluster: Cluster) -> list:
    """The nodes with a device, always in the same order."""
    return sorted(cluster.worker_nodes, key=lambda node: node.node_id)


def set_faults(folder: Path, node, **faults) -> None:
    (folder / f"{node.node_id}.json").write_text(json.dumps(faults))


def keys(tasks) -> list[str]:
    """The keys of stages. Keys of whole schedules differ in every search."""
    return [key for _, key in tasks if not key.startswith("once ")]


def test_the_fleet_finds_the_schedules_of_one_machine(cluster, blocks, cache, measured):
    tuned = tune(cache, cluster.address)
    assert len(tuned.schedules) == 3 and not tuned.ignored and not tuned.kept
    assert stages(cache) == expected(blocks)
    found = keys(measured())
    assert len(set(found)) == len(found)
    assert len({node for node, _ in measured()}) == 3
    lines = (Path(cache) / "latencies.txt").read_text().splitlines()
    assert len(lines) == len(found)
    assert not list(pending.pending_files(cache, NAME))


def test_the_engine_measures_on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_fleet, "DEVICE_CLASS", ray_fleet.MeasuringDevice)
    cache, device = str(tmp_path / "cache"), plugin.device_fingerprint("cpu")
    block = problem(next(_numbers), ((-1,), (-1,), (-1,)))
    add_pending(cache, block, device)
    tuned = ios_tf.tune(cache, ray=cluster.address, runs=1, sample_count=1)
    ((found, schedule),) = tuned.schedules
    assert found.signature == block.signature
    assert schedule.metadata["latency_ms"] > 0
    engine.check_schedule(block.block, schedule.to_json())


def test_a_slow_node_measures_nothing(cluster, folder, blocks, cache, measured, caplog):
    slow, *_ = nodes(cluster)
    set_faults(folder, slow, slowness=1.2)
    with caplog.at_level(logging.WARNING, "ios_tf"):
        tune(cache, cluster.address)
    assert stages(cache) == expected(blocks)
    assert slow.node_id not in {node for node, _ in measured()}
    assert "is 20 % slower than the other devices" in caplog.text


def test_a_node_whose_answers_are_not_numbers_is_refused(
    cluster, folder, blocks, cache, measured, caplog
):
    liar, *_ = nodes(cluster)
    set_faults(folder, liar, factor=float("nan"))
    with caplog.at_level(logging.WARNING, "ios_tf"):
        tune(cache, cluster.address)
    assert stages(cache) == expected(blocks)
    assert sum(node == liar.node_id for node, _ in measured()) == 1
    assert "is not used: its answers are not valid" in caplog.text


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ({"fingerprint": "another"}, 'has the device "another", but the search is for'),
        (
            {"versions": {"ios_tf": "9.9"}},
            f"has ios_tf 9.9, but the driver has {ios_tf.__version__}",
        ),
        (
            {"versions": {"tensorflow": "1.0"}},
            "has tensorflow 1.0, but the driver has ",
        ),
    ],
)
def test_no_device_suits(cluster, folder, cache, measured, faults, sentence):
    for node in nodes(cluster):
        set_faults(folder, node, **faults)
    with pytest.raises(UserError) as error:
        tune(cache, cluster.address)
    assert "no device of the Ray cluster can be used" in str(error.value)
    assert sentence in str(error.value) and "\n" not in str(error.value)
    assert len(list(pending.pending_files(cache, NAME))) == 3
    assert measured() == []


def test_a_cluster_without_devices(cache):
    empty = Cluster()
    add_node(empty)
    with pytest.raises(UserError, match="declares the resource ios_tf_device"):
        tune(cache, empty.address)
    empty.shutdown()


def test_errors_of_the_command(cache, capfd, monkeypatch):
    words = ["tune", "--cache_dir", cache, f"--fingerprint={NAME}"]
    code, _, error = run(capfd, *words, "--ray=127.0.0.1:1")
    assert code == 1
    assert "ray='127.0.0.1:1': the cluster cannot be reached" in error
    code, _, error = run(capfd, *words)
    assert (code, error.count("\n")) == (1, 1)
    assert "Give the address of the cluster with ray" in error
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, error = run(capfd, *words, "--ray=auto")
    assert (code, error.count("\n")) == (1, 1)
    assert "Ray cannot be imported" in error and "pip install" in error


def test_a_driver_that_is_killed_can_start_again(
    cluster, folder, blocks, cache, measured
):
    """The dispatcher survives the killed driver, and all later tests use it."""
    for node in nodes(cluster):
        set_faults(folder, node, seconds=0.05)
    driver = subprocess.Popen([sys.executable, "-c", _TUNE, cache, cluster.address])
    wait_for(lambda: len(measured()) > 10)
    driver.kill()
    driver.wait()
    # Otherwise, the next driver waits until the claims of the killed one end.
    for claim in Path(cache).rglob("*.claim.tmp"):
        claim.unlink()
    tuned = tune(cache, cluster.address)
    assert len(tuned.schedules) == 3
    assert stages(cache) == expected(blocks)
    found = keys(measured())
    assert len(set(found)) == len(found)  # the dispatcher has outlived the driver


def test_two_drivers_measure_nothing_twice(
    cluster, folder, blocks, cache, tmp_path, measured
):
    other = fill(tmp_path / "other", blocks)
    driver = subprocess.Popen([sys.executable, "-c", _TUNE, other, cluster.address])
    tune(cache, cluster.address)
    assert driver.wait() == 0
    assert stages(cache) == stages(other) == expected(blocks)
    found = keys(measured())
    assert len(set(found)) == len(found)


def test_a_search_waits_for_a_device_and_resumes(
    cluster, folder, blocks, cache, measured, caplog
):
    for node in nodes(cluster):
        set_faults(folder, node, seconds=0.05)
    with caplog.at_level(logging.WARNING, "ios_tf"):
        thread, found = in_thread(cache, cluster.address)
        wait_for(lambda: len(measured()) > 5)
        for node in nodes(cluster):
            pid = (folder / f"{node.node_id}.pid").read_text()
            os.kill(int(pid), signal.SIGKILL)
        thread.join()
    assert "no device can measure now, so the search waits" in caplog.text
    assert len(found[0].schedules) == 3
    assert stages(cache) == expected(blocks)
    # Each device was measuring one task.
    found = keys(measured())
    assert len(found) - len(set(found)) <= 3


def test_an_interrupt_ends_the_command(cluster, folder, cache, measured):
    for node in nodes(cluster):
        set_faults(folder, node, seconds=0.2)
    code = _TUNE.replace(
        "tuned = pending.tune(sys.argv[1], ray=sys.argv[2], "
        'fingerprint="test device")\nprint(len(tuned.schedules))',
        "from ios_tf.__main__ import run\n"
        "sys.argv = ['ios_tf', 'tune', '--cache_dir', sys.argv[1], '--ray', "
        "sys.argv[2], '--fingerprint=test device', '--quiet']\nsys.exit(run())",
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code, cache, cluster.address],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(measured()) > 5)
    driver.send_signal(signal.SIGINT)
    _, error = driver.communicate()
    assert driver.returncode == 130, error
    assert "Traceback" not in error
    assert len(list(pending.pending_files(cache, NAME))) == 3


def test_a_node_that_is_killed_loses_only_its_measurement(
    cluster, folder, blocks, cache, measured
):
    """This must be the last test, because the cluster then has one node less."""
    for node in nodes(cluster):
        set_faults(folder, node, seconds=0.05)
    thread, found = in_thread(cache, cluster.address)
    wait_for(lambda: len({node for node, _ in measured()}) == 3)
    # The driver runs on one of the nodes, and would end if this node was killed.
    own = ray.get_runtime_context().get_node_id()
    lost = next(node for node in nodes(cluster) if node.node_id != own)
    cluster.remove_node(lost, allow_graceful=False)
    thread.join()
    assert len(found[0].schedules) == 3
    assert stages(cache) == expected(blocks)
    found = keys(measured())
    assert len(found) - len(set(found)) <= 1
