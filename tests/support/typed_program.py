"""A user's program that calls every public function; mypy --strict and pyright read it.

Both report an "ignore" comment on a line without an error. So they must find the errors
in the wrong calls below.
"""

from pathlib import Path
from typing import Any

import ios_tf
from ios_tf import OptimizedFunction, Report, Status, Tuned


def convert(source: Path, target: Path) -> float:
    report: Report = ios_tf.convert(
        source, target, batch_size=(1, 8), strategy="parallel", overwrite=True
    )
    document: dict[str, Any] = report.to_json()
    for decision in report.decisions:
        print(decision.code, decision.sentence)
    print(report, report.headline, len(document))
    return report.speedup


def optimize(model: Any, images: Any) -> Any:
    faster: OptimizedFunction = ios_tf.optimize(model, 8, device="cpu", log=print)
    faster.save("saved", overwrite=True)
    with ios_tf.trace("trace.json"):
        return faster(images)


def serve(cache: Path) -> dict[str, Any]:
    ios_tf.enable(cache_dir=cache, on_miss="skip")
    config = ios_tf.session_config(on_miss="greedy")
    status: Status = ios_tf.status()
    tuned: Tuned = ios_tf.tune(cache, device="cpu")
    ios_tf.disable()
    print(config, status.counts, tuned.table())
    return tuned.to_json()


def handle(model: Any) -> str:
    try:
        ios_tf.optimize(model)
    except (ios_tf.UserError, ios_tf.NativeLibraryError) as error:
        return str(error)
    return ""


def wrong(model: Any) -> None:
    ios_tf.convert(model, "output", batchsize=1)  # type: ignore[call-arg]
    ios_tf.convert(model, "output", strategy="best")  # type: ignore[arg-type]
    ios_tf.enable(on_miss="pass")  # type: ignore[arg-type]
    ios_tf.optimise(model)  # type: ignore[attr-defined]
    speedup: str = ios_tf.optimize(model).report.speedup  # type: ignore[assignment]
    print(speedup)
