"""Random blocks, and random legal schedules for them."""

import numpy as np
import tensorflow as tf

SIZE = 9  # height and width of every tensor


class RandomBlock:
    """A random block, its weights, and its value as TensorFlow computes it."""

    def __init__(self, rng: np.random.Generator, operators: int):
        self._rng = rng
        self.weights: list[np.ndarray] = []
        self._inputs = [int(rng.integers(3, 20)) for _ in range(2)]
        self._channels: list[int] = []  # of each operator's output
        self._operators: list[dict] = []
        for _ in range(operators):
            self._append()
        read = {ref for op in self._operators for ref in op["inputs"]}
        sinks = [i for i in range(operators) if i not in read]
        extra = int(rng.integers(operators))  # an output that may also be read
        self.outputs = sorted({*sinks, extra})

    @property
    def json(self) -> dict:
        return self.json_for_batch(1)

    def json_for_batch(self, batch: int) -> dict:
        return {
            "version": 1,
            "name": "random",
            "dtype": "float32",
            "inputs": [[batch, SIZE, SIZE, c] for c in self._inputs],
            "operators": self._operators,
            "outputs": self.outputs,
        }

    def random_inputs(self, batch: int) -> list[np.ndarray]:
        return [self._normal(batch, SIZE, SIZE, c) for c in self._inputs]

    def expected(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        weights = iter(self.weights)
        values: list[tf.Tensor] = []
        for op in self._operators:
            args = [inputs[-1 - r] if r < 0 else values[r] for r in op["inputs"]]
            values.append(evaluate(op, args, weights))
        return [np.asarray(values[i]) for i in self.outputs]

    def _normal(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def _channels_of(self, ref: int) -> int:
        return self._inputs[-1 - ref] if ref < 0 else self._channels[ref]

    def _append(self) -> None:
        rng = self._rng
        count = len(self._operators)
        refs = [int(r) for r in rng.integers(-2, count, size=3)]
        x, channels = refs[0], self._channels_of(refs[0])
        same = [r for r in range(-2, count) if self._channels_of(r) == channels]
        kind = rng.choice(
            ["conv2d"] * 4
            + ["sepconv", "pool", "concat", "concat", "add", "slice", "scale"]
            + ["activation"]
        )
        op: dict = {"type": str(kind), "inputs": [x]}
        out = channels
        if kind == "conv2d":
            # Convolutions of one input may merge, because all of them have the same
            # strides, padding and activation.
            out = int(rng.integers(3, 20))
            kernel = [int(k) for k in rng.choice([1, 3, 5], size=2)]
            op |= {"kernel": kernel, "padding": "SAME", "filters": out}
            op |= {"bias": bool(rng.integers(2)), "activation": "relu"}
            fan_in = kernel[0] * kernel[1] * channels
            self.weights.append(
                self._normal(*kernel, channels, out) / np.float32(fan_in) ** 0.5
            )
            if op["bias"]:
                self.weights.append(self._normal(out))
        elif kind == "sepconv":
            out = int(rng.integers(3, 20))
            op |= {"kernel": [3, 3], "padding": "SAME", "filters": out}
            op |= {"pre_activation": "relu"}
            self.weights.append(self._normal(3, 3, 1, channels) / 3)
            self.weights.append(
                self._normal(1, 1, channels, out) / np.float32(channels) ** 0.5
            )
        elif kind == "pool":
            op |= {"kernel": [3, 3], "padding": "SAME"}
            op |= {"pool": str(rng.choice(["max", "avg"]))}
        elif kind == "concat":
            op["inputs"] = refs[: int(rng.integers(1, 4))]
            out = sum(self._channels_of(r) for r in op["inputs"])
        elif kind == "add":
            op["inputs"] = [x, int(rng.choice(same))]
            op |= {"activation": str(rng.choice(["none", "relu"]))}
        elif kind == "activation":
            op |= {"activation": "relu"}
        elif kind == "slice":
            offset = int(rng.integers(channels))
            out = int(rng.integers(1, channels - offset + 1))
            op |= {"offset": offset, "size": out}
        elif kind == "scale":
            self.weights.append(self._normal(channels))
            self.weights.append(self._normal(channels))
        self._operators.append(op)
        self._channels.append(out)


def evaluate(op, args, weights) -> tf.Tensor:
    x = args[0]
    if op["type"] == "conv2d":
        y = tf.nn.conv2d(x, next(weights), 1, "SAME")
        return tf.nn.relu(y + next(weights) if op["bias"] else y)
    if op["type"] == "sepconv":
        depthwise = np.moveaxis(next(weights), 2, 3)
        return tf.nn.separable_conv2d(
            tf.nn.relu(x), depthwise, next(weights), [1, 1, 1, 1], "SAME"
        )
    if op["type"] == "pool":
        pool = tf.nn.max_pool2d if op["pool"] == "max" else tf.nn.avg_pool2d
        return pool(x, 3, 1, "SAME")
    if op["type"] == "concat":
        return tf.concat(args, -1)
    if op["type"] == "add":
        y = args[0] + args[1]
        return tf.nn.relu(y) if op["activation"] == "relu" else y
    if op["type"] == "activation":
        return tf.nn.relu(x)
    if op["type"] == "slice":
        return tf.identity(x[..., op["offset"] : op["offset"] + op["size"]])
    return x * next(weights) + next(weights)


def random_schedule(rng: np.random.Generator, problem: dict) -> dict:
    """Stages of operators whose inputs are in the same stage or in earlier ones."""
    operators = problem["block"]["operators"]
    remaining = list(range(len(operators)))
    stages = []
    while remaining:
        done = set(range(len(operators))) - set(remaining)
        ready = [
            i for i in remaining if all(r < 0 or r in done for r in reads(operators, i))
        ]
        classes = [
            members
            for merge_class in problem["merge_classes"]
            if len(members := [i for i in merge_class if i in ready]) > 1
        ]
        if classes and rng.integers(2):
            chosen = classes[int(rng.integers(len(classes)))]
            stages.append({"strategy": "merge", "groups": [chosen]})
        else:
            chosen = []
            for i in remaining:  # ascending: a topological order
                inside = done | set(chosen)
                if all(r < 0 or r in inside for r in reads(operators, i)) and (
                    not chosen or rng.integers(3)
                ):
                    chosen.append(i)
            if rng.integers(3):
                groups = components(operators, chosen)
                stages.append({"strategy": "concurrent", "groups": groups})
            else:
                split = {"strategy": "split", "micro_batches": int(rng.integers(2, 5))}
                stages.append({**split, "groups": [chosen]})
        remaining = [i for i in remaining if i not in chosen]
    return {"version": 1, "stages": stages}


def reads(operators: list[dict], i: int) -> list[int]:
    return operators[i]["inputs"]


def components(operators: list[dict], chosen: list[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for i in chosen:
        linked = [g for g in groups if any(r in g for r in reads(operators, i))]
        groups = [g for g in groups if g not in linked]
        groups.append([*sorted(j for g in linked for j in g), i])
    return groups
