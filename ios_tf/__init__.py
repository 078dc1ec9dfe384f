"""IOS-TF: inter-operator scheduling for CNNs in TensorFlow.

Importing this package makes converted models run on the IOS engine: as soon as
TensorFlow is imported as well, before or after, the native plugin is loaded into
it. Nothing else happens at import; in particular, TensorFlow is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ios_tf import _native
from ios_tf.errors import NativeLibraryError, UserError

if TYPE_CHECKING:
    from ios_tf.conversion import convert
    from ios_tf.report import Report

__version__ = "0.1.0"
__all__ = ["NativeLibraryError", "Report", "UserError", "convert"]

_native.load_with_tensorflow()


def __getattr__(name: str) -> Any:
    # What needs TensorFlow is imported on first use.
    if name == "convert":
        from ios_tf.conversion import convert

        return convert
    if name == "Report":
        from ios_tf.report import Report

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
