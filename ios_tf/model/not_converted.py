"""Errors that say why a signature cannot be converted, with the code of the reason."""

from __future__ import annotations

from ios_tf.errors import UserError
from ios_tf.reasons import Decision, Reason


class NotConvertedError(UserError):
    """A signature cannot be converted.

    Attributes:
      decision: the reason, and the message.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.decision = Decision(reason, text)


class NotOptimizedError(NotConvertedError):
    """TensorFlow's own optimizers, or a step that they need, fail for a signature."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.TENSORFLOW_FAILS, text)


class NoFunctionError(NotConvertedError):
    """A signature is not a function of its inputs and of constants alone."""


class ChangesVariableError(NoFunctionError):
    """A signature assigns a variable that outputs depend on."""

    def __init__(self, signature: str, variable: str) -> None:
        super().__init__(
            Reason.CHANGES_VARIABLE,
            f"signature {signature!r} changes the variable {variable!r} in every call, "
            "so the variable cannot become a constant",
        )
