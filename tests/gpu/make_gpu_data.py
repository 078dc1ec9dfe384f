"""make_gpu_data.py DIRECTORY: writes the files in benchmarks/gpu_data. These are the
paper's networks, and the convolutions for which the engine uses cuDNN in them and in
some networks of the zoo. The networks of the zoo are exported to DIRECTORY. A network
whose file exists is not exported again.

The engine compiles the networks for the fake GPU (specs.py). The convolutions therefore
have the merges, added channels, epilogues and places in concats that the engine
chooses. The program needs TensorFlow and takes some minutes. Run record.py afterwards.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # has the benchmarks

from benchmarks import gpu_data
from benchmarks.checks import without_measuring
from benchmarks.network import Network

_HERE = Path(__file__).resolve().parent
_DEVICES = {"tf32": "gpu", "exact": "gpu,tf32=off", "half": "gpu"}
_DTYPES = {"tf32": "float32", "exact": "float32", "half": "float16"}
# Networks of the zoo that have groups, transposed convolutions, dilations, and all
# kinds of activations.
_ZOO = (
    *("shufflenet", "unet_transpose", "convnext", "yolo_v3", "yolo_csp", "edsr"),
    *("deeplab_v3_plus", "wavenet", "googlenet_lrn", "se_net", "text_cnn"),
    *("keras:EfficientNetB0", "keras:MobileNetV3Small", "keras:ResNet50"),
)
_OF_A_KIND = 1  # number of recorded convolutions of each kind from the zoo
_IN_CONCATS = 6  # number of recorded convolutions that write a part of a larger tensor

_SPEC = re.compile(
    r"\w+(?: \(TF32\))?(?P<transposed> transposed)? convolution of (?P<input>[^,]+) to "
    r"(?P<output>[^,]+), kernel (?P<kernel>\S+), strides (?P<strides>\S+), "
    r"dilations (?P<dilations>\S+), padding (?P<padding>\S+), groups (?P<groups>\d+)"
    r"(?P<bias>, bias)?(?:, residual (?P<residual>[^,]+))?(?:, (?P<activation>.+))?"
)
_VIEW = re.compile(
    r"(?P<shape>[\dx]+)(?: of pitch (?P<pitch>\d+))?(?: aligned to \d+)?"
)
_EXPORT = """
import sys, tempfile
from ios_tf import models
from benchmarks.zoo import registry
from benchmarks.export_blocks import network_of
name, path = sys.argv[1:]
if name in models.NETWORKS:
    network_of(models.build(name)).write(path)  # biases of zero would be left out
else:
    with tempfile.TemporaryDirectory() as directory:
        registry.networks()[name]().save(directory)
        network_of(directory).write(path)
"""


def export(name: str, path: Path) -> None:
    """Writes a network without the names of its nodes."""
    subprocess.run([sys.executable, "-c", _EXPORT, name, str(path)], check=True)
    data = json.loads(path.read_text())
    for block in [*data["blocks"], *(region["block"] for region in data["regions"])]:
        block.pop("name", None)
        for operator in block["operators"]:
            operator.pop("name", None)
    data["name"] = f"models:{name}"
    # Writes one operator per line.
    text = json.dumps(data, separators=(",", ":")).replace('},{"', '},\n{"')
    path.write_text(text + "\n")


def specs(programs: Sequence[tuple[Any, str]], kind: str) -> list[list[str]]:
    """The names of the convolutions of each (block, schedule), as in the plan cache.

    `kind` is a key of _DTYPES.
    """
    paths = [str(_HERE), str(_HERE.parents[1]), *sys.path]
    of_kind = [({**block, "dtype": _DTYPES[kind]}, how) for block, how in programs]
    done = subprocess.run(
        [sys.executable, str(_HERE / "specs.py"), _DEVICES[kind]],
        input=json.dumps(of_kind),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def of_network(network: Network, kind: str) -> set[str]:
    """The names of a network's convolutions, as in the plan cache.

    The schedules are the sequential ones, and those with the most merges.
    """
    programs = []
    for strategy in ("sequential", "merge"):
        schedules = {
            signature: without_measuring(problem, strategy)
            for signature, problem in network.problems.items()
        }
        programs += [
            (region.block, region.schedule(schedules).json_object())
            for region in network.regions
        ]
    return set().union(*specs(programs, kind))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split("x")]


def _view(text: str) -> tuple[list[int], int]:
    """The shape of a view, and how many more channels the whole tensor has."""
    view = _VIEW.fullmatch(text)
    assert view, text
    shape = _numbers(view["shape"])
    return shape, int(view["pitch"] or shape[-1]) - shape[-1]


def convolution(text: str) -> dict[str, Any]:
    """Parses the engine's text about a convolution into arguments of gpu_data.block."""
    spec = _SPEC.fullmatch(text)
    assert spec, text
    (x, beside_x), (y, rest) = _view(spec["input"]), _view(spec["output"])
    inputs = [x]
    assert beside_x == 0, text  # the engine copies inputs that are views
    operator: dict[str, Any] = {"type": "conv2d", "filters": y[-1]}
    kernel, strides, dilations = (
        _numbers(spec[name]) for name in ("kernel", "strides", "dilations")
    )
    operator |= {"kernel": kernel, "strides": strides, "dilations": dilations}
    top, bottom, left, right = _numbers(spec["padding"])
    if spec["transposed"]:
        operator["type"] = "conv2d_transpose"
        full = [
            (x[1 + i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
            for i in (0, 1)
        ]
        bottom, right = full[0] - y[1] - top, full[1] - y[2] - left
    operator["padding"] = [top, bottom, left, right]
    if int(spec["groups"]) > 1:
        operator["groups"] = int(spec["groups"])
    if spec["bias"]:
        operator["bias"] = True
    if spec["residual"]:
        operator["residual"] = True
        inputs.append(_view(spec["residual"])[0])
    if spec["activation"]:
        name, *numbers = re.findall(r"[\w.+-]+", spec["activation"])
        operator["activation"] = name
        operator |= dict(zip(("alpha", "beta"), map(float, numbers), strict=False))
    result: dict[str, Any] = {"inputs": inputs, "operator": operator}
    return result | ({"rest": rest, "size": y[1:3]} if rest else {})


def _kind(one: dict[str, Any]) -> str:
    """A text that is equal for convolutions that differ only in sizes."""
    sizes = ("filters", "padding")
    operator = {k: v for k, v in one["operator"].items() if k not in sizes}
    operator["groups"] = operator.get("groups", 1) > 1
    operator["dilations"] = max(operator["dilations"]) > 1
    return json.dumps(operator, sort_keys=True)


def _without_activation(one: dict[str, Any]) -> str:
    """A convolution without its activation, as JSON.

    The engine asks cuDNN about this form, too, because a separate activation may be
    faster.
    """
    left_out = ("activation", "alpha", "beta")
    operator = {k: v for k, v in one["operator"].items() if k not in left_out}
    return json.dumps({**one, "operator": operator}, sort_keys=True)


def _activation(text: str) -> str:
    return str(convolution(text)["operator"].get("activation", ""))


def _some(texts: Iterable[str], known: set[str]) -> list[str]:
    """A few texts of each kind that are not in `known`.

    Of convolutions that differ only in the activation, takes one with an activation.
    """
    kinds = collections.Counter[str]()
    chosen: dict[str, str] = {}
    for text in sorted(texts, key=_activation, reverse=True):
        one = convolution(text)
        kind, alone = _kind(one), _without_activation(one)
        if text not in known and kinds[kind] < _OF_A_KIND and alone not in chosen:
            kinds[kind] += 1
            chosen[alone] = text
    return sorted(chosen.values())


def _spread(texts: Sequence[str]) -> list[str]:
    """Up to _IN_CONCATS of the texts, evenly spaced, and a transposed convolution."""
    transposed = [text for text in texts if " transposed " in text]
    others = [text for text in texts if " transposed " not in text]
    return others[:: -(-len(others) // _IN_CONCATS)] + transposed[:1]


def convolutions(files: dict[str, Path]) -> dict[str, dict[str, list[str]]]:
    """The texts about all convolutions to record.

    The first key is the name of a network, "zoo" or "concats". The second is a key of
    _DTYPES.
    """
    result: dict[str, dict[str, list[str]]] = collections.defaultdict(dict)
    for kind in _DTYPES:
        known: set[str] = set()
        zoo: set[str] = set()
        concats: set[str] = set()
        for name, path in files.items():
            every = of_network(Network.read(path), kind)
            print(f"{name}, {kind}: {len(every)} convolutions", flush=True)
            pitched = {text for text in every if "rest" in convolution(text)}
            concats |= pitched
            if name in _ZOO:
                zoo |= every - pitched
            else:
                known |= every - pitched
                result[name][kind] = sorted(every - pitched)
        result["zoo"][kind] = _some(sorted(zoo), known)
        result[gpu_data.IN_CONCATS][kind] = _spread(_some(sorted(concats), set()))
    return result


def check(texts: Sequence[str], kind: str) -> None:
    """Asserts that the engine gives the same texts for blocks of a single
    convolution."""
    programs = []
    for text in texts:
        block = gpu_data.block(convolution(text), 1, _DTYPES[kind])
        programs.append((block, gpu_data.schedule(block)))
    missing = set(texts).difference(*specs(programs, kind))
    assert not missing, missing


def main() -> None:
    paths = map(Path, [*gpu_data.NETWORKS, *gpu_data.LARGE_NETWORKS])
    files = {path.stem: path for path in paths}
    files |= {name: Path(sys.argv[1], f"{name}.json") for name in _ZOO}
    for name, path in files.items():
        if not path.exists():
            export(name, path)
    found = convolutions(files)
    for by_kind in found.values():
        for kind, texts in by_kind.items():
            check(texts, kind)
    data = {
        name: {kind: [convolution(t) for t in texts] for kind, texts in of.items()}
        for name, of in found.items()
    }
    text = json.dumps(data, sort_keys=True).replace('{"inputs"', '\n{"inputs"')
    Path(gpu_data.CONVOLUTIONS).write_text(text + "\n")


if __name__ == "__main__":
    main()
