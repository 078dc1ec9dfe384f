"""Who may include whom: cc/core, cc/engine, cc/tensorflow, and the devices apart."""

import re
from pathlib import Path

import pytest

CC = Path(__file__).resolve().parents[1] / "cc"
# Room -> what it may include of others; system headers are in angle brackets.
ALLOWED = {
    "core": (),
    "engine": ("cc/core/",),
    "engine/cpu": ("cc/core/", "cc/engine/[a-z_]+.h"),
    "engine/cuda": ("cc/core/", "cc/engine/[a-z_]+.h"),
    "tensorflow": (
        "cc/core/",
        "cc/engine/program.h",
        # What a graph composes is computed as the engine computes it.
        "cc/engine/cpu/(activations|broadcast).h",
        "(absl|tensorflow|tsl|xla|google)/",
    ),
}
# The one file that knows all devices.
EVERY_DEVICE = "backend.cc"
# Oneself, and libraries that belong to a room.
LIBRARIES = {
    "core": ("nlohmann/",),
    "engine/cpu": ("dnnl",),
    "engine/cuda": ("cuda", "cudnn", "nvrtc", "nlohmann/"),
    "tensorflow": ("nlohmann/", "absl/", "google/"),
}


@pytest.mark.parametrize("room", ALLOWED)
def test_includes(room):
    own = f"cc/{room}/"
    allowed = [own, *ALLOWED[room]]
    for path in sorted((CC / room).iterdir()):
        if path.suffix not in (".cc", ".h") or path.name == EVERY_DEVICE:
            continue
        text = path.read_text()
        for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            assert any(re.match(a, name) for a in allowed), f"{path.name}: {name}"
        for name in re.findall(r"^#include <([^>]+)>", text, re.MULTILINE):
            if "/" in name or name.startswith(("cu", "nv", "dnnl")):
                system = ("sys/", "linux/", *LIBRARIES.get(room, ()))
                assert name.startswith(system), f"{path.name}: {name}"
