"""sass.py FILE: examines the machine code that NVRTC compiles for an H200.

The program compiles the CUDA kernels with the widest vectors, and disassembles them
with nvdisasm. It prints a table of the registers, the spilled bytes, and the widths of
reads and writes of global memory, and writes the table to FILE as JSON. It takes a
minute or two. nvdisasm is a part of CUDA's toolkit and of the wheel `triton`.
"""

import collections
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kernel_variants
import nvrtc

from ios_tf.files import utc_now, write_json
from ios_tf.tables import table

_ARCHITECTURE = 90
_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_.]+)", re.M
)
_ACCESS = re.compile(r"(LDG|STG)\.E(?:\.CONSTANT|\.EF|\.NA)*(?:\.(U8|U16|64|128))?\b")
_BYTES = {"U8": 1, "U16": 2, None: 4, "64": 8, "128": 16}
# Variants that are left out, because they do not process images.
_OTHERS = ("spin",)


def disassembler() -> str:
    """The path of nvdisasm. Ends the process if it is not installed."""
    found = shutil.which("nvdisasm")
    spec = importlib.util.find_spec("triton")
    for root in spec.submodule_search_locations or [] if spec else []:
        path = Path(root, "backends/nvidia/bin/nvdisasm")
        found = found or (str(path) if path.exists() else None)
    if found is None:
        raise SystemExit("nvdisasm is not installed. Run: pip install triton")
    return found


def kernels(compiler: nvrtc.Nvrtc, program: str, variant: str, dtype: str) -> list:
    """The facts about the code of a variant's kernels."""
    source, _, _ = kernel_variants.VARIANTS[variant]
    macros = kernel_variants.macros_of(variant, dtype, kernel_variants.widest(dtype))
    image, log = compiler.compile(
        kernel_variants.texts()[source], kernel_variants.options(macros, _ARCHITECTURE)
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        text = subprocess.run(
            [program, "-c", file.name], check=True, capture_output=True, text=True
        ).stdout
    found = []
    for part in re.split(r"^\s*\.section\s+\.text\.", text, flags=re.M)[1:]:
        name = re.match(r"\w+", part)
        assert name is not None
        about = log.split(f"entry function '{name[0]}'")[1]
        registers, spilled = (
            int(re.search(pattern, about)[1])  # type: ignore[index]
            for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill stores")
        )
        instructions = _INSTRUCTION.findall(part)
        widths = collections.defaultdict(collections.Counter)
        for instruction in instructions:
            if access := _ACCESS.match(instruction):
                widths[access[1]][_BYTES[access[2]]] += 1
        found.append(
            {
                "kernel": f"{variant} {name[0]}",
                "dtype": dtype,
                "registers": registers,
                "spilled_bytes": spilled,
                "instructions": len(instructions),
                "loads": dict(sorted(widths["LDG"].items())),
                "stores": dict(sorted(widths["STG"].items())),
            }
        )
    return found


def main(file: str) -> None:
    program = disassembler()
    library = nvrtc.find()
    if library is None:
        raise SystemExit(f"NVRTC is not installed. Run: {nvrtc.INSTALL}")
    compiler = nvrtc.Nvrtc(library)
    found = [
        one
        for variant in kernel_variants.VARIANTS
        for dtype in ("float32", "float16")
        if variant not in _OTHERS
        for one in kernels(compiler, program, variant, dtype)
    ]
    compiler.close()
    version = subprocess.run([program, "--version"], capture_output=True, text=True)
    write_json(
        file,
        {
            "command": "python tests/gpu/sass.py FILE",
            "date": utc_now(),
            "architecture": f"sm_{_ARCHITECTURE}",
            "nvdisasm": version.stdout.strip().splitlines()[-1],
            "kernels": found,
        },
    )
    columns = ("registers", "spilled_bytes", "instructions", "loads", "stores")
    rows = [
        (one["kernel"], one["dtype"], *(json.dumps(one[c]) for c in columns))
        for one in found
    ]
    print(table(("kernel", "type", *columns), rows))


if __name__ == "__main__":
    main(sys.argv[1])
