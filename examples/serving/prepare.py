"""Converts a model into the directory a model server serves from.

    python examples/serving/prepare.py MODEL DIRECTORY [--name=NAME] [--version=N]

Writes, below DIRECTORY:

    NAME/N/                 the converted SavedModel, with warm-up requests
    models.config           for tensorflow_model_server --model_config_file
    platform.config         for --platform_config_file: names the optimizer
    session.config          the ConfigProto in it, for load_model.cc and clients

MODEL is what `ios_tf convert` takes. The version directory appears when it is
complete: a server that watches NAME picks it up then.
"""

from __future__ import annotations

import argparse
import os
import textwrap

import numpy as np
import tensorflow as tf

import ios_tf
from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs
from ios_tf.model.loading import saved_model

WARMUP_FILE = "tf_serving_warmup_requests"

MODELS = """\
model_config_list {{
  config {{
    name: "{name}"
    base_path: "{base_path}"
    model_platform: "tensorflow"
  }}
}}
"""

# The plugin's optimizer runs in every session of a process unless another plugin
# came first: named here, it runs in any case. Without the plugin the name is ignored.
SESSION = """\
graph_options {
  rewrite_options {
    # These passes would rewrite what carries the schedule, before it is read.
    remapping: OFF
    layout_optimizer: OFF
    arithmetic_optimization: OFF
    custom_optimizers { name: "IosOptimizer" }
  }
}
"""

PLATFORM = """\
platform_configs {{
  key: "tensorflow"
  value {{
    source_adapter_config {{
      [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {{
        legacy_config {{
          enable_model_warmup: true
          session_config {{
{session}
          }}
        }}
      }}
    }}
  }}
}}
"""


def warmup_record(name: str, signature: str, inputs: dict[str, np.ndarray]) -> bytes:
    """One predict request as a serialised PredictionLog."""
    from tensorflow_serving.apis import prediction_log_pb2

    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return log.SerializeToString()


def write_warmup(
    model: str, name: str, batch_sizes: list[int], signature: str | None = None
) -> None:
    """Adds random warm-up requests, one a batch size, to a SavedModel."""
    loaded = tf.saved_model.load(model)
    signature = saved_models.choose_signature(signature, loaded)
    directory = os.path.join(model, "assets.extra")
    tf.io.gfile.makedirs(directory)
    with tf.io.TFRecordWriter(os.path.join(directory, WARMUP_FILE)) as file:
        for batch_size in batch_sizes:
            inputs = example_inputs(loaded.signatures[signature], batch_size)
            arrays = {key: value.numpy() for key, value in inputs.items()}
            file.write(warmup_record(name, signature, arrays))


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepares a model for serving.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("directory", metavar="DIRECTORY")
    parser.add_argument("--name", default="model")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument(
        "--batch_sizes", default="1,8", help="to schedule for, and of warm-up requests"
    )
    options = parser.parse_args()
    try:
        import tensorflow_serving.apis  # noqa: F401
    except ImportError:
        parser.exit(1, "prepare.py: needs pip install tensorflow-serving-api\n")

    directory = os.path.abspath(options.directory)
    batch_sizes = [int(size) for size in options.batch_sizes.split(",")]
    base_path = os.path.join(directory, options.name)
    version = os.path.join(base_path, str(options.version))
    # Model servers ignore what is not a number.
    unfinished = os.path.join(base_path, f".{options.version}.unfinished")
    with saved_model(options.model, log=print) as source:
        report = ios_tf.convert(
            source,
            unfinished,
            batch_size=batch_sizes,
            overwrite=True,
            progress=True,
        )
    print(report.table())
    write_warmup(unfinished, options.name, batch_sizes)
    tf.io.gfile.rename(unfinished, version)
    files = {
        "models.config": MODELS.format(name=options.name, base_path=base_path),
        "session.config": SESSION,
        "platform.config": PLATFORM.format(
            session=textwrap.indent(SESSION.rstrip(), " " * 12)
        ),
    }
    for name, text in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    print(f"prepared {version}")


if __name__ == "__main__":
    main()
