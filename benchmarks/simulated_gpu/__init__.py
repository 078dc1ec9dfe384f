"""Simulated devices: analytic latencies, for tests and for exploring without a device.

The model was calibrated on the paper's V100; docs/benchmarks/simulated.md says how
well it predicts that GPU. It does not replace measurements.
"""

from benchmarks.simulated_gpu.device import DEVICES, Arithmetic, SimulatedDevice
from benchmarks.simulated_gpu.model import SimulatedCostModel

__all__ = ["DEVICES", "Arithmetic", "SimulatedCostModel", "SimulatedDevice"]
