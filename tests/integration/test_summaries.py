"""Summaries of a report, read by TensorBoard's own reader."""

import importlib.util
import io

import numpy as np
import pytest
import report_documents as rd
from commands import run
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from ios_tf.files import write_json
from ios_tf.report import summaries


def read(directory) -> dict[str, tuple[str, np.ndarray]]:
    """Maps each tag to the name of its plugin and its value."""
    events = EventAccumulator(str(directory))
    events.Reload()
    found = {}
    for tag in events.Tags()["tensors"]:
        (event,) = events.Tensors(tag)
        plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
        found[tag] = plugin, tensor_util.make_ndarray(event.tensor_proto)
    return found


@pytest.fixture
def report(tmp_path):
    found = rd.document()
    write_json(str(tmp_path / "report.json"), found)
    return found


def test_the_command(report, tmp_path, capfd):
    directory = tmp_path / "logs"
    path = str(tmp_path / "report.json")
    code, out, err = run(capfd, "report", path, f"--logdir={directory}")
    assert (code, out) == (0, "")
    assert f"tensorboard --logdir={directory}" in err
    found = read(directory)
    signature = next(one for one in report["signatures"] if one["kept"])
    for size, latencies in signature["latencies"].items():
        of = f"{signature['name']}/batch {size}"
        for name, label in (("tensorflow", "TensorFlow"), ("converted", "converted")):
            plugin, value = found[f"{of}/{label} ms"]
            assert plugin == "scalars"
            np.testing.assert_allclose(value, latencies[name]["ms"], 1e-6)
    network = report["networks"][0]
    of = f"{network['signature']}/batch {network['batch_size']}"
    blocks = [block for region in network["regions"] for block in region["blocks"]]
    for number, block in enumerate(blocks, 1):
        plugin, (width, height, encoded) = found[f"{of}/block {number}"]
        assert plugin == "images"
        picture = Image.open(io.BytesIO(encoded))
        assert picture.size == (int(width), int(height))
        assert len(picture.getcolors(1 << 24)) > 10
        plugin, text = found[f"{of}/block {number} stages"]
        assert plugin == "text"
        assert len(text.item().decode().splitlines()) == 2 + len(block["stages"])
    assert b"faster" in found["report"][1].item()


def test_without_matplotlib(report, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "matplotlib" else find(name, *rest),
    )
    (note,) = summaries.write(report, str(tmp_path / "logs"))
    assert "pip install matplotlib" in note
    plugins = {plugin for plugin, _ in read(tmp_path / "logs").values()}
    assert plugins == {"scalars", "text"}


@pytest.mark.usefixtures("report")
def test_errors_are_one_line(tmp_path, capfd):
    path = str(tmp_path / "report.json")
    (tmp_path / "file").write_text("")
    for words, message in (
        ([path, f"--logdir={tmp_path / 'file'}"], "cannot be written"),
        ([path, path, f"--logdir={tmp_path / 'logs'}"], "takes one converted model"),
    ):
        code, _, err = run(capfd, "report", *words)
        assert code == 1
        (line,) = err.splitlines()
        assert message in line
