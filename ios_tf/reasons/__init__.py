"""Reasons with stable codes, such as IOS012, for the decisions in reports and logs.

docs/reference/reasons.md has the texts of the reasons. `ios_tf explain` and the report
show them. cc/core/reasons.def lists the reasons that C++ gives, and a test checks that
Python has them, too.
"""

from ios_tf.reasons.decision import Decision
from ios_tf.reasons.reason import BY_CODE, Reason, find

__all__ = ["BY_CODE", "Decision", "Reason", "find"]
