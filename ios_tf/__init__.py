"""IOS-TF: inter-operator scheduling for CNNs in TensorFlow.

Importing this package makes converted models run on the IOS engine: as soon as both
packages are imported, in either order, the native plugin is loaded into TensorFlow.
Importing this package does not import TensorFlow.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from ios_tf.errors import NativeLibraryError, UserError
from ios_tf.native import plugin
from ios_tf.printable import only_printable

if TYPE_CHECKING:
    from ios_tf.conversion.convert import convert
    from ios_tf.conversion.direct_function import DirectFunction, direct
    from ios_tf.conversion.optimized_function import OptimizedFunction, optimize
    from ios_tf.conversion.report import Report
    from ios_tf.trace_files import trace
    from ios_tf.tuning.on_the_fly import (
        RegionStatus,
        Status,
        disable,
        enable,
        session_config,
        status,
    )
    from ios_tf.tuning.pending import Tuned, tune

logging.getLogger("ios_tf").addFilter(only_printable)
__version__ = "0.1.0"
__all__ = [
    "DirectFunction",
    "NativeLibraryError",
    "OptimizedFunction",
    "RegionStatus",
    "Report",
    "Status",
    "Tuned",
    "UserError",
    "convert",
    "direct",
    "disable",
    "enable",
    "optimize",
    "session_config",
    "status",
    "trace",
    "tune",
]
# These modules are imported on first use, because most of them need TensorFlow.
_MODULES = {
    "DirectFunction": "ios_tf.conversion.direct_function",
    "OptimizedFunction": "ios_tf.conversion.optimized_function",
    "RegionStatus": "ios_tf.tuning.on_the_fly",
    "Report": "ios_tf.conversion.report",
    "Status": "ios_tf.tuning.on_the_fly",
    "Tuned": "ios_tf.tuning.pending",
    "convert": "ios_tf.conversion.convert",
    "direct": "ios_tf.conversion.direct_function",
    "disable": "ios_tf.tuning.on_the_fly",
    "enable": "ios_tf.tuning.on_the_fly",
    "optimize": "ios_tf.conversion.optimized_function",
    "session_config": "ios_tf.tuning.on_the_fly",
    "status": "ios_tf.tuning.on_the_fly",
    "trace": "ios_tf.trace_files",
    "tune": "ios_tf.tuning.pending",
}

plugin.load_with_tensorflow()


# Type checkers would accept any name if they saw this function.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names, for completion in interactive shells."""
    return [*__all__, "__version__"]
