"""Copies a shared library under names that no other library in the process has.

TensorFlow contains a oneDNN of its own, and other packages bring further copies and
their own libgomp. The dynamic linker binds a symbol to the first library that defines
its name, and loads only one library of each SONAME. So the copy gets its own SONAME,
and every symbol that it defines gets a prefix (cc/engine/cpu/onednn/onednn.h). The
OpenMP functions that it calls get the prefix, too: the engine defines these
(cc/engine/cpu/threads/openmp.cc), so the copy does not need libgomp.

    python cc/elf.py LIBRARY COPY
"""

from __future__ import annotations

import sys
from pathlib import Path

import lief

PREFIX = "ios_"
_OPENMP = ("GOMP_", "omp_")
_OPENMP_LIBRARY = "libgomp.so.1"
# The linker defines these symbols in every library.
_LINKER_SYMBOLS = {"_init", "_fini", "__bss_start", "_edata", "_end"}


def copy_with_private_names(library: Path, copy: Path) -> None:
    """Writes the copy of a library; the SONAME is the copy's file name."""
    binary = lief.parse(str(library))
    if not isinstance(binary, lief.ELF.Binary):
        raise SystemExit(f"ios_tf: {library} is not an ELF library: reinstall it")
    for symbol in binary.dynamic_symbols:
        name = str(symbol.name)
        is_defined = name and symbol.shndx != 0 and name not in _LINKER_SYMBOLS
        if is_defined or name.startswith(_OPENMP):
            symbol.name = PREFIX + name
    binary.remove_library(_OPENMP_LIBRARY)
    binary.remove_version_requirement(_OPENMP_LIBRARY)
    binary.get(lief.ELF.DynamicEntry.TAG.SONAME).name = copy.name
    unfinished = copy.with_name(copy.name + ".tmp")
    binary.write(str(unfinished))
    unfinished.replace(copy)


if __name__ == "__main__":
    copy_with_private_names(Path(sys.argv[1]), Path(sys.argv[2]))
