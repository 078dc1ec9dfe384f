"""Verdicts that a busy machine leaves undecided, and how a conversion reports them. The
tests replace the measured samples."""

import json
import os

import keras
import pytest
from commands import run
from keras import layers

import ios_tf
from ios_tf.conversion import timing
from ios_tf.cost.samples import RECORDER, Sample
from ios_tf.reasons import Reason

pytestmark = pytest.mark.usefixtures("cache")

FAST = ["--warmup_runs=0", "--runs=1", "--sample_count=1", "--device=cpu"]


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> str:
    """A SavedModel with two branches."""
    path = str(tmp_path_factory.mktemp("network") / "model")
    inputs = keras.Input((9, 9, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    b = layers.Conv2D(4, 1, padding="same", activation="relu")(inputs)
    outputs = layers.Dense(3)(layers.GlobalAveragePooling2D()(a + b))
    keras.Model(inputs, outputs).export(path, verbose=False)
    return path


def made_up(monkeypatch, speedup: float, disturbed: bool, spread: float = 1.0) -> None:
    """Makes TensorFlow take `speedup` times as long in wall and processor time."""

    def latencies(turns, callers):
        factors = [spread, 1 / spread, 1.0, 1.0, spread, 1 / spread] * 3
        first = [Sample(2.0 * f, disturbed, 4.0 * f) for f in factors]
        other = [Sample(2.0 / speedup, disturbed, 4.0 / speedup) for _ in factors]
        samples = [first, *[other] * (len(turns) - 1)]
        for of_one in samples:
            # The samples are repeated, so that they outnumber the real samples of the
            # search.
            RECORDER.add(of_one * 100)
        return timing.Latencies(samples, on_cpu=True)

    monkeypatch.setattr(timing, "latencies", latencies)


@pytest.mark.parametrize(
    ("speedup", "spread", "verdict", "code"),
    [
        (2.0, 1.1, "converted", 0),
        (0.5, 1.1, "copied", 3),
        (1.2, 3.0, "undecided", 4),
        (0.8, 3.0, "undecided", 4),
    ],
)
def test_verdicts_beside_busy_processes(
    speedup, spread, verdict, code, network, tmp_path, monkeypatch, capfd
):
    source, output = network, str(tmp_path / "converted")
    made_up(monkeypatch, speedup, disturbed=True, spread=spread)
    words = ["convert", source, output, *FAST]
    found, printed, _ = run(capfd, *words, "--json", "--exit_code")
    assert found == code
    (line,) = printed.splitlines()
    report = json.loads(line)
    assert report["verdict"] == verdict
    load = report["machine"]["load"]
    assert load["busy"] and load["disturbed_share"] > 0.5
    sentences = {one["code"]: one["sentence"] for one in report["decisions"]}
    assert f"(load {load['average']:.1f}, " in sentences[Reason.BUSY.code]
    assert (Reason.UNDECIDED.code in sentences) == (verdict == "undecided")
    if verdict == "undecided":
        again = f"ios_tf convert {source} {output} --again"
        assert again in sentences[Reason.UNDECIDED.code]
    # The result is the faster model by the estimate: converted or original.
    if speedup > 1:
        (signature,) = report["signatures"]
        (latency,) = signature["latencies"].values()
        ratio = latency["converted_speedup"]
        assert ratio["by_processor_time"] and ratio["disturbed"] == ratio["pairs"] == 18
        assert ratio["low"] <= ratio["estimate"] <= ratio["high"]
        assert signature["difference"] < 1e-4
    else:
        assert Reason.COPIED.code in sentences

    if verdict != "undecided":
        return
    # On a calm machine the suggested command decides.
    made_up(monkeypatch, 2.0, disturbed=False)
    found, printed, _ = run(capfd, *words, "--exit_code")
    assert found == 1  # the output exists
    found, printed, _ = run(capfd, *words, "--exit_code", "--again")
    assert found == 0
    assert not printed.startswith("warning") and "undecided" not in printed


def test_the_warning_comes_first_and_codes_only_when_asked(
    network, tmp_path, monkeypatch, capfd
):
    made_up(monkeypatch, 0.5, disturbed=True)
    code, printed, _ = run(capfd, "convert", network, str(tmp_path / "out"), *FAST)
    assert code == 0
    warning = printed.splitlines()[0]
    assert warning.startswith("warning: ") and warning.endswith(f"[{Reason.BUSY.code}]")


def test_fresh_ignores_what_the_cache_knows(network, tmp_path, monkeypatch):
    made_up(monkeypatch, 2.0, disturbed=False)

    def convert(**options):
        return ios_tf.convert(
            network,
            str(tmp_path / "out"),
            again=True,
            warmup_runs=0,
            runs=1,
            sample_count=1,
            device="cpu",
            **options,
        )

    first = convert()
    blocks = first.different_blocks
    assert first.cached_blocks == 0 < blocks
    latencies = os.path.getsize(tmp_path / "cache" / "latencies.txt")
    fresh = convert(fresh=True)
    assert (fresh.cached_blocks, fresh.different_blocks) == (0, blocks)
    assert fresh.measurements > 0
    assert os.path.getsize(tmp_path / "cache" / "latencies.txt") >= latencies
