"""Checks a wheel for other machines, and that a second build gives the same wheel.

    python tests/check_wheel.py WHEEL [SECOND]

Both are wheels after `auditwheel repair`. They must have the same bytes.
"""

from __future__ import annotations

import email
import hashlib
import re
import sys
import zipfile
from pathlib import Path

MOST_BYTES = 60 << 20
TAG = re.compile(r"-py3-none-manylinux_2_\d+_x86_64\.whl$")
LIBRARIES = ("libios_dnnl.so", "libios_engine.so", "libios_tf_ops.so")
LICENSES = ("cudnn-frontend", "nlohmann-json", "onednn")
# The license files in the metadata: of IOS-TF and of the third-party sources in it.
OWN_LICENSES = ("LICENSE", "cudnn-frontend-LICENSE", "d3.LICENSE", "plot.LICENSE")
# Fields that the Python Package Index shows.
METADATA = (
    *("Summary", "License-Expression", "License-File", "Requires-Python"),
    *("Project-URL", "Classifier", "Keywords", "Description-Content-Type"),
)


def check(wheel: Path) -> None:
    assert TAG.search(wheel.name), f"{wheel.name} does not fit other machines"
    size = wheel.stat().st_size
    assert size < MOST_BYTES, f"{wheel.name} has {size} bytes"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (information,) = [n for n in names if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(information))
    package = information.partition(".dist-info/")[0]
    inside = ("ios_tf/", f"{package}.dist-info/")
    others = [name for name in names if not name.startswith(inside)]
    assert not others, f"{wheel.name} also contains {others}"
    libraries = {n for n in names if n.startswith("ios_tf/lib/") and ".so" in n}
    assert libraries == {f"ios_tf/lib/{name}" for name in LIBRARIES}, libraries
    for project in LICENSES:
        assert f"ios_tf/lib/licenses/{project}-LICENSE" in names, project
    listed = {Path(name).name for name in metadata.get_all("License-File", [])}
    assert listed == {*OWN_LICENSES}, listed
    # Type checkers read the annotations of a package only if it has this file.
    assert "ios_tf/py.typed" in names
    assert "ios_tf/reasons/reasons.md" in names
    for field in METADATA:
        assert metadata[field], f"{wheel.name} has no {field}"
    print(f"{wheel.name}: {size >> 20} MiB, {len(names)} files")


def main() -> None:
    wheels = [*map(Path, sys.argv[1:])]
    check(wheels[0])
    hashes = {hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}
    assert len(hashes) == 1, f"wheels differ: {', '.join(map(str, wheels))}"


if __name__ == "__main__":
    main()
