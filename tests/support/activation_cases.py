"""All activations, and special and random numbers to test them with."""

from __future__ import annotations

import numpy as np

from benchmarks.frameworks.activations import ACTIVATIONS

# Activations whose parameters differ from the defaults.
SPECIAL = [
    {"activation": "swish", "alpha": 1.702},
    {"activation": "hard_sigmoid", "alpha": 0.2},
    {"activation": "elu", "alpha": 0.3},
    {"activation": "leaky_relu", "alpha": 0.01},
    {"activation": "leaky_relu", "alpha": 0.0},
    {"activation": "maximum", "alpha": -1.5},
    {"activation": "minimum", "alpha": 2.5},
    {"activation": "clip", "alpha": -1.0, "beta": 4.0},
    {"activation": "threshold", "alpha": 0.5},
    *({"activation": "pow", "alpha": p} for p in (2, 4, -1, -2, -3, -4, 0.5, -0.5)),
]
CASES = [{"activation": name} for name in ACTIVATIONS] + SPECIAL
IDS = ["-".join(str(value) for value in case.values()) for case in CASES]

NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-30, -1e-30]
NUMBERS += [200.0, -200.0, 88.0, -88.0, 20.0, -20.0, 3.0, -3.0, 6.0, 1.0, -1.0]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32 numbers, with one in eight replaced by one of NUMBERS."""
    random = np.random.default_rng(seed)
    values = random.normal(0, 2, shape).astype(np.float32)
    strange = random.choice(np.array(NUMBERS, np.float32), shape)
    return np.where(random.uniform(size=shape) < 1 / 8, strange, values)
