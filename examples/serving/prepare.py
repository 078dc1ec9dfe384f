"""Converts a model into a directory that TensorFlow Serving serves from.

    python examples/serving/prepare.py MODEL DIRECTORY [--name=NAME] [--version=N]

Writes below DIRECTORY:

    NAME/N/                       the converted SavedModel, with warm-up requests
    NAME/N/batching_params.pbtxt  the batch sizes of this model
    models.config                 for --model_config_file; other models stay in it
    batching.config               for --batching_parameters_file

MODEL is what `ios_tf convert` takes. The version directory appears when it is complete,
so that a server that watches NAME never sees a part of it.
Needs `pip install tensorflow-serving-api`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import command_line

from ios_tf import validation
from ios_tf.cli import arguments
from ios_tf.cli.parser import Parser
from ios_tf.errors import UserError, first_line
from ios_tf.files import check_writable, write_text
from ios_tf.options import ConvertOptions, number

# TensorFlow Serving reads this file of a SavedModel if its flags are --enable_batching
# and --enable_per_model_batching_parameters.
_BATCHING_OF_MODEL = "batching_params.pbtxt"
_PLATFORM = "tensorflow"
# Options of `ios_tf convert` that this program also has.
_CONVERT_OPTIONS = (
    *("tags", "weights", "image_size", "device", "strategy", "time_limit"),
    *("samples", "cache_dir", "keep_slower"),
)


def main() -> int:
    return command_line.run(_parser(), _prepare)


def _parser() -> Parser:
    parser = Parser(
        prog="prepare.py", description="Prepares a model for TensorFlow Serving."
    )
    parser.add_argument("model", metavar="MODEL", help=arguments.MODEL)
    parser.add_argument("directory", metavar="DIRECTORY", help="directory to write to")
    parser.add_argument(
        "--name",
        type=validation.as_argument(_model_name),
        default="model",
        help="name under which clients ask for the model; default: model",
    )
    parser.add_argument(
        "--version",
        type=validation.as_argument(_version),
        help="version to write; default: the highest version so far plus 1",
    )
    parser.add_argument(
        "--batch_sizes",
        type=validation.as_argument(_batch_sizes),
        metavar="N[,N...]",
        help="batch sizes to schedule, to warm up, and to join requests to; default: "
        "1,8, or the model's own batch size if it has one",
    )
    parser.add_argument(
        "--batch_timeout_micros",
        type=validation.as_argument(_timeout),
        default=1000,
        metavar="N",
        help="microseconds for which a request may wait for others; default: 1000",
    )
    parser.add_argument(
        "--signature", help="signature of the warm-up requests; default: the usual one"
    )
    parser.add_argument(
        "--server_directory",
        metavar="PATH",
        help="path of DIRECTORY on the server, such as /models in a container; "
        "default: DIRECTORY",
    )
    arguments.add_options(parser, ConvertOptions, *_CONVERT_OPTIONS)
    return parser


def _model_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text):
        raise UserError(
            "must consist of letters, digits, '_', '-' and '.', and not begin with '-' "
            f"or '.', not {text!r}"
        )
    return text


def _version(text: str) -> int:
    return validation.whole("version", number(text), most=2**63 - 1)


def _timeout(text: str) -> int:
    return validation.whole("batch_timeout_micros", number(text), least=0)


def _batch_sizes(text: str) -> list[int]:
    return validation.batch_sizes("batch_sizes", [number(n) for n in text.split(",")])


def _prepare(flags: argparse.Namespace) -> None:
    """Converts the model. All that can be checked before is checked before.

    Raises:
      UserError: an argument does not fit, or the model cannot be converted.
    """
    directory = Path(validation.path("DIRECTORY", flags.directory)).absolute()
    version = _free_version(directory / flags.name, flags.version)
    command_line.load_libraries()
    models = _read_models(directory / "models.config")
    served_at = flags.server_directory or str(directory)
    _list_model(models, flags.name, os.path.join(served_at, flags.name))
    if directory.exists():
        for name in ("models.config", "batching.config"):
            check_writable(directory / name)

    from ios_tf.model.loading import saved_model
    from ios_tf.model.outputs import written_directory

    with (
        saved_model(flags.model, flags.weights, arguments.say) as source,
        written_directory(str(version)) as unfinished,
    ):
        _write_version(source, unfinished, version, flags)

    from google.protobuf import text_format

    write_text(directory / "models.config", text_format.MessageToString(models))
    names = [model.name for model in models.model_config_list.config]
    sizes = sorted({size for name in names for size in _sizes_of(directory / name)})
    text = _batching_parameters(sizes, flags.batch_timeout_micros)
    write_text(directory / "batching.config", text)
    print(f"prepared {version}")


def _free_version(versions: Path, wanted: int | None) -> Path:
    """The directory of the version to write, which does not exist."""
    free = max(version_numbers(versions), default=0) + 1
    version = versions / str(wanted or free)
    if version.exists():
        raise UserError(
            f"{version} already exists; use --version={free}, or leave --version out"
        )
    return version


def version_numbers(versions: Path) -> list[int]:
    """The versions of a model, as a server sees them: names that are numbers."""
    if not versions.is_dir():
        return []
    names = [path.name for path in versions.iterdir()]
    return [int(name) for name in names if re.fullmatch("[0-9]+", name)]


def _read_models(path: Path) -> Any:
    """The ModelServerConfig in a file, or an empty one if there is no file.

    Raises:
      UserError: the file is not a ModelServerConfig that lists models.
    """
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    models = model_server_config_pb2.ModelServerConfig()
    if path.exists():
        try:
            text_format.Parse(path.read_bytes(), models)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            reason = first_line(error).rstrip(".")
            raise UserError(
                f"{path} is not a ModelServerConfig: {reason}; correct or remove it"
            ) from None
    if models.HasField("custom_model_config"):
        raise UserError(
            f"{path} has a custom_model_config, so no model can be added; use another "
            "DIRECTORY"
        )
    return models


def _list_model(models: Any, name: str, base_path: str) -> None:
    """Adds a model to a ModelServerConfig, or changes its path. Others are kept."""
    listed = models.model_config_list.config
    model = next((one for one in listed if one.name == name), None) or listed.add()
    model.name, model.base_path, model.model_platform = name, base_path, _PLATFORM


def _write_version(
    source: str, unfinished: str, version: Path, flags: argparse.Namespace
) -> None:
    """Fills the directory `unfinished`, which becomes `version`."""
    from ios_tf.conversion.convert import convert
    from ios_tf.conversion.samples import WARMUP
    from ios_tf.model import saved_models
    from ios_tf.model.inputs import without_open_batch

    loaded = saved_models.load(source, flags.tags)
    signature = saved_models.choose_signature(flags.signature, loaded)
    function = loaded.signatures[signature]
    sizes = flags.batch_sizes or _usual_batch_sizes(function)
    # Comes before the conversion, because a model may need other inputs.
    requests = _warmup_requests(flags.name, signature, function, sizes)
    report = convert(
        source,
        unfinished,
        batch_size=sizes,
        overwrite=True,
        progress=True,
        log=arguments.say,
        **{name: getattr(flags, name) for name in _CONVERT_OPTIONS},
    )
    print(report.table().replace(unfinished, str(version)))
    _write_records(os.path.join(unfinished, WARMUP), requests)
    if closed := without_open_batch(function):
        tensor, shape = closed
        print(f"requests are not joined to batches: {tensor} has the shape {shape}")
    else:
        text = _batching_parameters(sizes, flags.batch_timeout_micros)
        write_text(os.path.join(unfinished, _BATCHING_OF_MODEL), text)


def _usual_batch_sizes(function: Any) -> list[int]:
    from ios_tf.model.inputs import without_open_batch

    return [1] if without_open_batch(function) else [1, 8]


def _batching_parameters(sizes: Sequence[int], timeout_micros: int) -> str:
    """BatchingParameters of TensorFlow Serving as text.

    The server fills up each batch to one of the allowed sizes. It demands that the last
    one is the largest batch.
    """
    allowed = "".join(f"allowed_batch_sizes: {size}\n" for size in sizes)
    limit = f"max_batch_size {{ value: {sizes[-1]} }}\n" if sizes else ""
    return f"{limit}batch_timeout_micros {{ value: {timeout_micros} }}\n{allowed}"


def _sizes_of(versions: Path) -> list[int]:
    """The allowed batch sizes of a model's newest version."""
    for newest in sorted(version_numbers(versions))[-1:]:
        path = versions / str(newest) / _BATCHING_OF_MODEL
        if path.exists():
            found = re.findall(r"allowed_batch_sizes: (\d+)", path.read_text())
            return [int(size) for size in found]
    return []


def _warmup_requests(
    name: str, signature: str, function: Any, sizes: Sequence[int]
) -> list[bytes]:
    """Requests with random inputs, one for each batch size, as PredictionLogs."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    from ios_tf.model.inputs import accepted_inputs

    records = []
    for size in sizes:
        log = prediction_log_pb2.PredictionLog()
        request = log.predict_log.request
        request.model_spec.name = name
        request.model_spec.signature_name = signature
        for key, value in accepted_inputs(function, size)[0].items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value.numpy()))
        records.append(log.SerializeToString())
    return records


def _write_records(path: str, records: Sequence[bytes]) -> None:
    """Writes a file of records, unless the model has already brought one."""
    import tensorflow as tf

    if os.path.exists(path):
        print("the model brings its own warm-up requests, which are kept")
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path) as file:
        for record in records:
            file.write(record)


if __name__ == "__main__":
    sys.exit(main())
