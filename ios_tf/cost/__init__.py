"""Cost models: where the scheduler's stage latencies come from."""

from ios_tf.cost.cached import CachedCostModel, stage_key
from ios_tf.cost.cost_model import CostModel, LaneCostModel, SampledCostModel
from ios_tf.cost.simulated import SimulatedCostModel, SimulatedDevice

__all__ = [
    "CachedCostModel",
    "CostModel",
    "LaneCostModel",
    "SampledCostModel",
    "SimulatedCostModel",
    "SimulatedDevice",
    "stage_key",
]
