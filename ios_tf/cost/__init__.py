"""Cost models: the sources of the scheduler's stage latencies."""

from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import (
    CostModel,
    LaneCostModel,
    Measurement,
    SampledCostModel,
)
from ios_tf.cost.database import LatencyDatabase, known_devices, open_database
from ios_tf.cost.samples import Latency, MachineLoad, Sample
from ios_tf.cost.stage_key import stage_key

__all__ = [
    "CachedCostModel",
    "CostModel",
    "LaneCostModel",
    "Latency",
    "LatencyDatabase",
    "MachineLoad",
    "Measurement",
    "Sample",
    "SampledCostModel",
    "known_devices",
    "open_database",
    "stage_key",
]
