"""Cost models: where the scheduler's stage latencies come from."""

from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import (
    CostModel,
    LaneCostModel,
    Latency,
    Measurement,
    SampledCostModel,
)
from ios_tf.cost.database import LatencyDatabase, open_database
from ios_tf.cost.simulated import SimulatedCostModel, SimulatedDevice
from ios_tf.cost.stage_key import stage_key

__all__ = [
    "CachedCostModel",
    "CostModel",
    "LaneCostModel",
    "Latency",
    "LatencyDatabase",
    "Measurement",
    "SampledCostModel",
    "SimulatedCostModel",
    "SimulatedDevice",
    "open_database",
    "stage_key",
]
