"""The examples run and report equal results."""

import re
import runpy
import sys
from concurrent import futures
from pathlib import Path

import keras
import nbclient
import nbformat
import networks
import numpy as np
import pytest
import tensorflow as tf
from commands import run_prepared
from fastapi import testclient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_here(script: str, *arguments: object, monkeypatch, capfd) -> str:
    """Runs a script in this process, which has imported TensorFlow already."""
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return capfd.readouterr().out


def difference(output: str) -> float:
    return float(re.search(r"largest relative difference (\S+)", output)[1])


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("network") / "branches.keras"
    networks.branches().save(path)
    return path


@pytest.fixture
def cache(network, monkeypatch):
    """A cache that the tests share, so that only the first one searches."""
    monkeypatch.setenv("IOS_TF_CACHE", str(network.parent / "cache"))


@pytest.mark.usefixtures("cache")
def test_a_script_in_a_process(network, tmp_path):
    example = EXAMPLES / "convert_and_compare.py"
    assert difference(run_prepared(example, network, tmp_path).stdout) < 1e-4


@pytest.mark.usefixtures("cache")
def test_optimized_keras_model(network, monkeypatch, capfd):
    output = run_here(
        "optimize_keras_model.py", network, monkeypatch=monkeypatch, capfd=capfd
    )
    assert difference(output) < 1e-4
    assert float(re.search(r"optimized +(\S+) ms", output)[1]) > 0


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("script", ["keras_predict.py", "tf_data_pipeline.py"])
def test_scripts(script, network, monkeypatch, capfd):
    output = run_here(script, network, monkeypatch=monkeypatch, capfd=capfd)
    assert difference(output) < 1e-4


@pytest.mark.usefixtures("cache")
def test_fastapi_server(network, monkeypatch):
    monkeypatch.setenv("MODEL", str(network))
    names = runpy.run_path(str(EXAMPLES / "fastapi_server.py"))
    model = keras.saving.load_model(network)
    images = np.random.default_rng(0).integers(0, 256, (24, 17, 17, 3), np.uint8)
    expected = model(images.astype(np.float32) / 255, training=False).numpy()
    files = [tf.io.encode_png(image).numpy() for image in images]
    headers = {"Content-Type": "image/png"}
    with testclient.TestClient(names["app"]) as client:

        def scores(file: bytes) -> list[float]:
            return client.post("/predict", content=file, headers=headers).json()

        with futures.ThreadPoolExecutor(8) as threads:
            found = np.array(list(threads.map(scores, files)))
        assert client.get("/health").json()["engine"] is True
        bad = client.post("/predict", content=b"no image", headers=headers)
        assert (bad.status_code, "send JPEG or PNG" in bad.text) == (400, True)
    assert networks.relative_difference(found, expected) < 1e-4


@pytest.mark.usefixtures("cache")
def test_notebook(network, tmp_path, monkeypatch):
    monkeypatch.setenv("MODEL", str(network))
    notebook = nbformat.read(EXAMPLES / "optimize_in_notebook.ipynb", 4)
    nbclient.NotebookClient(
        notebook, resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    data = [one.data for one in outputs if "data" in one]
    assert data[0]["text/html"].startswith("<iframe")
    assert data[1]["text/plain"] in ("'converted'", "'copied'", "'undecided'")
    text = "".join(one.text for one in outputs if one.get("name") == "stdout")
    assert difference(text) < 1e-4
    assert (tmp_path / "saved_model" / "saved_model.pb").exists()


@pytest.mark.usefixtures("cache")
def test_run_with_onnxruntime(tmp_path, monkeypatch, capfd):
    pytest.importorskip("tf2onnx", reason="pip install 'ios-tf[onnx]'")
    output = run_here(
        "run_with_onnxruntime.py", tmp_path, monkeypatch=monkeypatch, capfd=capfd
    )
    assert difference(output) < 1e-4
    assert (tmp_path / "model.onnx").stat().st_size > 10_000
