"""Node data for Model Explorer, checked with the graph that Model Explorer makes."""

import json
import os

import pytest
import shared

import ios_tf
from ios_tf.cli.main import main
from ios_tf.report import document

adapter = pytest.importorskip(
    "ai_edge_model_explorer_adapter",
    reason="the adapter of Model Explorer is not installed",
)


@pytest.fixture(scope="module")
def converted(tmp_path_factory) -> str:
    directory = tmp_path_factory.mktemp("model_explorer")
    target, cache = str(directory / "converted"), str(directory / "cache")
    ios_tf.convert(shared.branches(), target, cache_dir=cache, **shared.FAST)
    return target


def labels(model: str) -> dict[str, dict[str, str]]:
    """Graph -> identifier of a node -> its label, as Model Explorer shows it."""
    text = adapter.ConvertSavedModelToJson(adapter.VisualizeConfig(), model)
    return {
        graph["id"]: {node["id"]: node["label"] for node in graph["nodes"]}
        for part in json.loads(text)
        for graph in part["subgraphs"]
    }


def test_node_data(converted, tmp_path):
    folder = tmp_path / "data"
    words = ["report", converted, str(folder), "--format=model_explorer"]
    assert main(words) == 0
    kinds = ["algorithm", "lane", "stage", "time_ms"]
    assert sorted(os.listdir(folder)) == [f"{kind}.json" for kind in kinds]
    data = {kind: json.loads((folder / f"{kind}.json").read_text()) for kind in kinds}
    (network,) = document.read(converted)["networks"]
    operators = network["operators"]
    known = labels(shared.branches())
    for kind in ("time_ms", "stage", "lane"):
        ((graph, found),) = data[kind].items()
        of_type = [known[graph][identifier] for identifier in found["results"]]
        # `networks.branches` has a convolution before its two blocks of three and one.
        assert of_type.count("Conv2D") == 9
        assert len(of_type) == len(operators)
        assert [stop["stop"] for stop in found["gradient"]] == [0, 1]
    ((_, times),) = data["time_ms"].items()
    values = sorted(one["value"] for one in times["results"].values())
    assert values == sorted(operator["ms"] for operator in operators)
    ((_, algorithms),) = data["algorithm"].items()
    assert "gradient" not in algorithms


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "takes two paths, not 1. Give a converted model and the directory"),
        (
            ["DIR", "--original=missing"],
            "the original model 'missing' is not a directory",
        ),
        (["DIR", "--original=EMPTY"], "Model Explorer cannot read"),
    ],
)
def test_wrong_use(converted, tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    os.mkdir("EMPTY")
    words = [word.replace("EMPTY", str(tmp_path / "EMPTY")) for word in words]
    assert main(["report", converted, *words, "--format=model_explorer"]) == 1
    assert message in capsys.readouterr().err
    assert not os.path.exists("DIR")


def test_another_model(converted, tmp_path, capsys):
    folder = str(tmp_path / "data")
    flags = ["--format=model_explorer", f"--original={shared.inception_v3()}"]
    assert main(["report", converted, folder, *flags]) == 1
    assert "has no node of the report" in capsys.readouterr().err
