"""A device for tests of fleets. Its latencies are known, and its nodes can
misbehave."""

import hashlib
import json
import os
import time
from pathlib import Path

import ray

from ios_tf.fleet.device import MeasuringDevice

# The environment variable that names the directory of a test, which all nodes share:
#   log         a line "NODE KEY" for each task that a device begins
#   NODE.pid    the process of the device
#   NODE.json   how the device of a node misbehaves
FOLDER = "IOS_TF_TEST_FLEET"


def known_ms(text: str) -> float:
    """A latency that depends on the text alone: 0.5 to 1.5 ms."""
    return 0.5 + int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


class KnownDevice(MeasuringDevice):
    """A device whose latencies depend on the tasks alone, without measuring."""

    def __init__(self, device, measurement):
        super().__init__(device, measurement)
        self._folder = Path(os.environ[FOLDER])
        self._node = ray.get_runtime_context().get_node_id()
        (self._folder / f"{self._node}.pid").write_text(str(os.getpid()))

    def _faults(self) -> dict:
        path = self._folder / f"{self._node}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def describe(self):
        found = {**super().describe(), "lanes": 16, "lanes_divide_device": False}
        faults = self._faults()
        found["versions"] |= faults.get("versions", {})
        return {**found, "fingerprint": faults.get("fingerprint", "test device")}

    def references(self):
        return [self._faults().get("slowness", 1.0)] * 2

    def measure(self, task):
        with open(self._folder / "log", "a") as log:
            log.write(f"{self._node} {task['key']}\n")
        faults = self._faults()
        time.sleep(faults.get("seconds", 0.0))
        factor = faults.get("factor", faults.get("slowness", 1.0))
        if "schedules" in task:
            found = [known_ms(json.dumps(s["stages"])) for s in task["schedules"]]
            return {"latencies_ms": [factor * ms for ms in found]}
        latency = {"median_ms": factor * known_ms(task["key"]), "spread": 0.0}
        return {"latency": {**latency, "samples": 3, "disturbed": False}}
