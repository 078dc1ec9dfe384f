"""IOS-TF: inter-operator scheduling for CNNs in TensorFlow.

Importing this package makes converted models run on the IOS engine: as soon as
TensorFlow is imported as well, before or after, the native plugin is loaded into
it. Nothing else happens at import; in particular, TensorFlow is not imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ios_tf import _native
from ios_tf.errors import NativeLibraryError, UserError

if TYPE_CHECKING:
    from ios_tf.conversion import convert
    from ios_tf.optimized_function import OptimizedFunction, optimize
    from ios_tf.report import Report
    from ios_tf.runtime import disable, enable, session_config, status
    from ios_tf.tuning import tune

__version__ = "0.1.0"
__all__ = [
    "NativeLibraryError",
    "OptimizedFunction",
    "Report",
    "UserError",
    "convert",
    "disable",
    "enable",
    "optimize",
    "session_config",
    "status",
    "tune",
]
# What needs TensorFlow is imported on first use.
_MODULES = {
    "OptimizedFunction": "ios_tf.optimized_function",
    "Report": "ios_tf.report",
    "convert": "ios_tf.conversion",
    "disable": "ios_tf.runtime",
    "enable": "ios_tf.runtime",
    "optimize": "ios_tf.optimized_function",
    "session_config": "ios_tf.runtime",
    "status": "ios_tf.runtime",
    "tune": "ios_tf.tuning",
}

_native.load_with_tensorflow()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
