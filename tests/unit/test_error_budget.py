"""The choice of operators that compute in bfloat16, for errors that are given."""

import dataclasses
import math

import pytest

from ios_tf.conversion import error_budget
from ios_tf.conversion.error_budget import Errors, Returned
from ios_tf.native.graph import Precision


@dataclasses.dataclass
class Network:
    """A network whose groups have independent errors, so their squares add up."""

    errors_of: dict[str, float]
    precision: Precision = dataclasses.field(default_factory=lambda: Precision())

    def with_precision(self, precision):
        return dataclasses.replace(self, precision=precision)

    def errors(self, network):
        exact = network.precision.float32_operators
        found = [e for name, e in self.errors_of.items() if name not in exact]
        return Errors(math.sqrt(sum(e * e for e in found)), None, 1)


@pytest.mark.parametrize(
    ("errors", "most", "count"),
    [
        ([0.3, 0.2, 0.1, 0.05], 0.13, 2),  # 0.9 * 0.13 > hypot(0.1, 0.05)
        ([0.3, 0.2, 0.1, 0.05], 0.12, 3),
        ([0.3, 0.2, 0.1, 0.05], 0.5, 1),
        ([0.1, 0.1, 0.1, 0.9], 0.2, None),  # the last group alone is not exact enough
    ],
)
def test_as_few_groups_as_possible_compute_in_float32(errors, most, count):
    network = Network({f"op_{i}": error for i, error in enumerate(errors)})
    candidates = [Returned([f"op_{i}"], error, 1.0) for i, error in enumerate(errors)]
    found, chosen = error_budget._fewest(
        candidates, network, Precision("bfloat16", max_error=most), network
    )
    if count is None:
        assert (found, chosen) == (len(errors), None)
    else:
        assert found == count
        assert chosen.error == pytest.approx(math.hypot(*errors[count:]))
