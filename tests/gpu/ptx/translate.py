"""Translates PTX to C++ that the fake GPU runs thread by thread."""

from __future__ import annotations

import re

from ptx.syntax import (
    Address,
    Instruction,
    Kernel,
    Label,
    Module,
    Operand,
    PtxError,
    Registers,
    Scope,
    Variable,
    bits,
)

# The C++ types of PTX's types, keyed by the first letter of the PTX type.
_KINDS = {"b": "uint", "u": "uint", "s": "int"}
_TYPES = {
    f"{kind}{length}": f"{name}{length}_t"
    for kind, name in _KINDS.items()
    for length in (8, 16, 32, 64)
} | {"f32": "float", "f64": "double", "pred": "bool"}
_LENGTHS = {name: int(name[1:]) // 8 for name in _TYPES if name != "pred"}

# Functions of runtime.h, keyed by opcodes without the type of the instruction. All
# operands have this type.
_FUNCTIONS = {
    "abs": "Absolute",
    "add": "Add",
    "add.rn": "Add",
    "and": "And",
    "div": "Divide",
    "div.approx": "Divide",
    "div.rn": "Divide",
    "fma.rn": "Fma",
    "mad.lo": "MultiplyAdd",
    "max": "Maximum",
    "min": "Minimum",
    "mov": "Same",
    "mul": "Multiply",
    "mul.hi": "MultiplyHigh",
    "mul.lo": "Multiply",
    "mul.rn": "Multiply",
    "mul.wide": "MultiplyWide",
    "neg": "Negate",
    "not": "Not",
    "or": "Or",
    "rcp.rn": "Reciprocal",
    "rem": "Remainder",
    "sqrt.rn": "SquareRoot",
    "sub": "Subtract",
    "sub.rn": "Subtract",
    "xor": "Xor",
}
# Functions of runtime.h that exist only for float.
_FLOAT_FUNCTIONS = {
    "add.rz": "AddTowardsZero",
    "ex2.approx": "Exp2Approximate",
    "ex2.approx.ftz": "Exp2ApproximateFlushed",
    "fma.rm": "FmaDown",
    "rcp.approx.ftz": "ReciprocalFlushed",
}
# Functions with operands of several types: T is the type of the instruction, W has
# twice its length.
_MIXED_FUNCTIONS = {
    "bfi": ("InsertBits", ("T", "T", "u32", "u32")),
    "mad.wide": ("MultiplyAddWide", ("T", "T", "W")),
    "selp": ("Select", ("T", "T", "pred")),
    "shl": ("ShiftLeft", ("T", "u32")),
    "shr": ("ShiftRight", ("T", "u32")),
}
_COMPARISONS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_ROUNDINGS = {
    "rni": "std::nearbyint",
    "rzi": "std::trunc",
    "rmi": "std::floor",
    "rpi": "std::ceil",
}
_SPECIAL = {
    **{f"%tid.{d}": f"ios_host_state.thread.{d}" for d in "xyz"},
    **{f"%ntid.{d}": f"ios_host_state.block_dim.{d}" for d in "xyz"},
    **{f"%ctaid.{d}": f"ios_host_state.block.{d}" for d in "xyz"},
    **{f"%nctaid.{d}": f"ios_host_state.grid_dim.{d}" for d in "xyz"},
    "%globaltimer": "GlobalTimer()",
}


def translate(module: Module, macros: str) -> str:
    """The text of a C++ file with a module's kernels.

    `macros` are the macros with which the module was compiled. They are only used in
    messages.
    """
    translations = [_Translation(kernel, module, macros) for kernel in module.kernels]
    sites = max([1, *(t.sites for t in translations)])
    used = {name for t in translations for name in t.tables}
    tables = [variable for variable in module.variables if variable.name in used]
    lines = [
        f"namespace ptx {{ constexpr int kPtxSites = {sites}; }}",
        '#include "runtime.h"',
        'extern "C" { IosHostState ios_host_state; }',
        "namespace {",
        "using namespace ptx;",
    ]
    for table in tables:
        data = ", ".join(map(str, table.values))
        lines.append(
            f"alignas({table.alignment}) const unsigned char "
            f"{_name(table.name)}[{table.bytes}] = {{{data}}};"
        )
    entries = [f"{{{_name(v.name)}, {v.bytes}}}" for v in tables] or ["{nullptr, 0}"]
    lines.append(f"const Table kTables[] = {{{', '.join(entries)}}};")
    lines += [line for t in translations for line in t.lines]
    lines.append("}  // namespace")
    lines += [line for t in translations for line in t.entry()]
    return "\n".join(lines) + "\n"


def _name(name: str) -> str:
    """A C++ identifier for a PTX one."""
    return "ptx_" + re.sub(r"\W", "_", name)


def _wider(type_: str) -> str:
    if type_ == "pred":
        return type_
    return f"{type_[0]}{2 * int(type_[1:])}"


class _Translation:
    """The translation of one kernel."""

    def __init__(self, kernel: Kernel, module: Module, macros: str):
        self._kernel = kernel
        self._macros = macros
        self._globals = {variable.name for variable in module.variables}
        self.tables: set[str] = set()  # the module's tables that the kernel uses
        self.sites = 0  # number of instructions that access global or shared memory
        # The address of each variable in its state space.
        self._addresses = {kernel.parameter.name: 0}
        self._bytes = {"local": 0, "shared": 0}
        # The registers of each open scope.
        self._registers: list[dict[str, str]] = [{}]
        body = [line for s in kernel.statements for line in self._statement(s)]
        name, shared = _name(kernel.name), self._bytes["shared"]
        self.lines = [
            f"unsigned char {name}_shared[{max(shared, 1)}];",
            f"SharedWord {name}_words[{shared // 4 + 1}];",
            f'Block {name}_block{{"{kernel.name}", R"({macros})", {name}_shared, '
            f"{name}_words, {shared}, kTables, std::size(kTables)}};",
            f"void {name}_run(const void* parameter) {{",
            f"Thread thread(&{name}_block);",
            f"constexpr uint64_t kParameterBytes = {kernel.parameter.bytes};",
            f"constexpr uint64_t kLocalBytes = {self._bytes['local']};",
            "alignas(16) unsigned char local[kLocalBytes + 1];",
            "std::memset(local, 0xa5, sizeof(local));",
            "(void)parameter, (void)kParameterBytes;",
            *body,
            "}",
        ]

    def entry(self) -> list[str]:
        """The functions and constants that the fake driver looks for."""
        name, size = self._kernel.name, self._kernel.parameter.bytes
        bounds = f"ios_bounds_{name}"
        return [
            'extern "C" {',
            f"void ios_call_{name}(void** parameters) {{ "
            f"{_name(name)}_run(parameters[0]); }}",
            f"int ios_sizes_{name}(unsigned* sizes) {{ *sizes = {size}; return 1; }}",
            f"extern const unsigned {bounds};",
            f"const unsigned {bounds} = {self._kernel.threads};",
            "#ifdef PTX_FIGURES",
            f"const char* ptx_figures_{name}() "
            f"{{ return {_name(name)}_block.figures.Json(); }}",
            "#endif",
            "}",
        ]

    def _statement(self, statement: object) -> list[str]:
        match statement:
            case Scope(opens=True):
                self._registers.append({})
                return ["{"]
            case Scope():
                self._registers.pop()
                return ["}"]
            case Label(name):
                return [f"{_name(name)}:;"]
            case Registers(type_, names):
                return [self._register(type_, name) for name in names]
            case Variable():
                self._place(statement)
                return []
            case Instruction():
                code = self._instruction(statement)
                if statement.guard:
                    condition = self._read(statement.guard.lstrip("!"), "pred")
                    negation = "!" if statement.guard[0] == "!" else ""
                    code = f"if ({negation}{condition}) {{ {code} }}"
                return [code]
        raise PtxError(f"cannot translate {statement}")

    def _register(self, type_: str, name: str) -> str:
        self._registers[-1][name] = type_
        cpp = _TYPES[type_]
        return f"{cpp} {_name(name)} = Poison<{cpp}>();"

    def _place(self, variable: Variable) -> None:
        """Gives a variable of the kernel its address."""
        used = self._bytes[variable.space]
        address = -(-used // variable.alignment) * variable.alignment
        self._addresses[variable.name] = address
        self._bytes[variable.space] = address + variable.bytes

    def _type_of(self, name: str) -> str | None:
        """The type of a register; None if the name is not one."""
        for scope in reversed(self._registers):
            if name in scope:
                return scope[name]
        return None

    def _value(self, operand: str, type_: str) -> str:
        """An operand in C++; a number has the instruction's type."""
        if self._type_of(operand):
            return _name(operand)
        if operand in _SPECIAL:
            return _SPECIAL[operand]
        if operand in self._addresses:
            return f"uint64_t{{{self._addresses[operand]}}}"
        if operand in self._globals:
            self.tables.add(operand)
            return f"reinterpret_cast<uint64_t>({_name(operand)})"
        try:
            number = bits(operand)
        except ValueError:
            raise PtxError(f"{self._kernel.name} uses {operand!r}") from None
        length = _LENGTHS[type_]
        return f"uint{8 * length}_t{{{number % 256**length}u}}"

    def _read(self, operand: Operand, type_: str) -> str:
        """An operand as a value of the instruction's type."""
        if not isinstance(operand, str):
            raise PtxError(f"{self._kernel.name} uses {operand} as a number")
        return f"As<{_TYPES[type_]}>({self._value(operand, type_)})"

    def _write(self, operand: Operand, value: str, resize: bool = False) -> str:
        type_ = self._type_of(operand) if isinstance(operand, str) else None
        if type_ is None:
            raise PtxError(f"{self._kernel.name} writes to {operand}")
        convert = "Resize" if resize else "As"
        return f"{_name(str(operand))} = {convert}<{_TYPES[type_]}>({value});"

    def _instruction(self, instruction: Instruction) -> str:
        name, type_ = instruction.opcode[0], instruction.opcode[-1]
        operands = instruction.operands
        match name:
            case "ret":
                return "return;"
            case "bra":
                return f"goto {_name(str(operands[0]))};"
            case "bar" if operands == ("0",):
                return "thread.Barrier();"
            case "ld":
                return self._load(instruction)
            case "st":
                return self._store(instruction)
            case "cvt":
                return self._convert(instruction)
            case "cvta":
                # cvta converts an address between a state space and the generic space.
                # Here, both addresses are the same offset.
                return self._write(operands[0], self._read(operands[1], type_))
            case "setp" if len(instruction.opcode) == 3:
                return self._compare(instruction)
            case "mov" if isinstance(operands[0], tuple):
                return self._split(operands[0], self._read(operands[1], type_))
            case "mov" if isinstance(operands[1], tuple):
                parts = [self._value(part, type_) for part in operands[1]]
                joined = f"Join<{_TYPES[type_]}>({', '.join(parts)})"
                return self._write(operands[0], joined)
        function, kinds = self._function(instruction)
        types = {"T": type_, "W": _wider(type_)}
        values = ", ".join(
            self._read(x, types.get(kind, kind))
            for x, kind in zip(operands[1:], kinds, strict=True)
        )
        return self._write(operands[0], f"{function}({values})")

    def _function(self, instruction: Instruction) -> tuple[str, tuple[str, ...]]:
        """The C++ function of an instruction, and its operands' types."""
        type_ = instruction.opcode[-1]
        operation = ".".join(instruction.opcode[:-1])
        same = ("T",) * (len(instruction.operands) - 1)
        if operation in _FUNCTIONS:
            return f"{_FUNCTIONS[operation]}<{_TYPES[type_]}>", same
        if operation in _FLOAT_FUNCTIONS and type_ == "f32":
            return _FLOAT_FUNCTIONS[operation], same
        if operation in _MIXED_FUNCTIONS:
            function, kinds = _MIXED_FUNCTIONS[operation]
            return f"{function}<{_TYPES[type_]}>", kinds
        raise PtxError(f"{self._kernel.name} has the unknown {instruction}")

    def _split(self, parts: tuple[str, ...], value: str) -> str:
        code = []
        for i, part in enumerate(parts):
            type_ = _TYPES[self._type_of(part) or "b32"]
            code.append(self._write(part, f"PartOf<{type_}>({value}, {i})"))
        return " ".join(code)

    def _compare(self, instruction: Instruction) -> str:
        _, comparison, type_ = instruction.opcode
        x, y = (self._read(operand, type_) for operand in instruction.operands[1:])
        unordered = f"Unordered({x}, {y})"
        if comparison in ("nan", "num"):
            result = unordered if comparison == "nan" else f"!{unordered}"
        elif comparison in _COMPARISONS:
            result = f"{x} {_COMPARISONS[comparison]} {y}"
            if comparison == "ne" and type_[0] == "f":
                result += f" && !{unordered}"
        elif comparison[-1] == "u" and comparison[:-1] in _COMPARISONS:
            result = f"{unordered} || {x} {_COMPARISONS[comparison[:-1]]} {y}"
        else:
            raise PtxError(f"{self._kernel.name} has the unknown {instruction}")
        return self._write(instruction.operands[0], result)

    def _convert(self, instruction: Instruction) -> str:
        *modifiers, to, source = instruction.opcode[1:]
        modifier = ".".join(modifiers)
        if source == "f16":
            value = f"HalfToFloat({self._read(instruction.operands[1], 'b16')})"
            known = (modifier, to) == ("", "f32")
            return self._converted(instruction, value, known)
        x = self._read_resized(instruction.operands[1], source)
        if to in ("f16", "bf16"):
            function = "FloatToHalf" if to == "f16" else "FloatToBfloat"
            known = (modifier, source) == ("rn", "f32")
            return self._converted(instruction, f"{function}({x})", known)
        is_float = (source[0] == "f", to[0] == "f")
        if is_float == (False, False):
            value, known = f"static_cast<{_TYPES[to]}>({x})", modifier in ("", "rn")
        elif is_float == (False, True):
            value, known = f"static_cast<{_TYPES[to]}>({x})", modifier == "rn"
        elif is_float == (True, False):
            known = modifier in _ROUNDINGS
            value = f"ToInteger<{_TYPES[to]}>({_ROUNDINGS.get(modifier)}({x}))"
        elif to != source:
            value, known = f"static_cast<{_TYPES[to]}>({x})", modifier in ("", "rn")
        elif modifier == "sat":
            value, known = f"Saturate({x})", to == "f32"
        else:
            value, known = f"{_ROUNDINGS.get(modifier)}({x})", modifier in _ROUNDINGS
        return self._converted(instruction, value, known)

    def _converted(self, instruction: Instruction, value: str, known: bool) -> str:
        if not known:
            raise PtxError(f"{self._kernel.name} has the unknown {instruction}")
        return self._write(instruction.operands[0], value, resize=True)

    def _read_resized(self, operand: Operand, type_: str) -> str:
        if not isinstance(operand, str):
            raise PtxError(f"{self._kernel.name} uses {operand} as a number")
        return f"Resize<{_TYPES[type_]}>({self._value(operand, type_)})"

    def _access(self, instruction: Instruction) -> tuple[str, int, str]:
        """The state space, the number of elements and the address of an access."""
        parts = [p for p in instruction.opcode[1:-1] if p not in ("nc", "volatile")]
        place = instruction.operands[0 if instruction.opcode[0] == "st" else 1]
        spaces = ("global", "shared", "local", "param")
        if parts[:1] and parts[0] in spaces and isinstance(place, Address):
            count = {(): 1, ("v2",): 2, ("v4",): 4}.get(tuple(parts[1:]))
            if count is not None:
                base = self._value(place.base, "b64")
                return parts[0], count, f"uint64_t{{{base}}} + uint64_t({place.offset})"
        raise PtxError(f"{self._kernel.name} has the unknown {instruction}")

    def _site(self) -> int:
        self.sites += 1
        return self.sites - 1

    def _load(self, instruction: Instruction) -> str:
        space, count, address = self._access(instruction)
        type_ = _TYPES[instruction.opcode[-1]]
        targets = instruction.operands[0]
        names = targets if isinstance(targets, tuple) else (targets,)
        if space == "param":
            call = f"Own<{type_}, {count}>(parameter, kParameterBytes, {address})"
        elif space == "local":
            call = f"Own<{type_}, {count}>(local, kLocalBytes, {address})"
        else:
            site = self._site()
            call = f"{space.capitalize()}<{type_}, {count}>({address}, {site})"
        code = [f"const auto loaded = thread.Load{call};"]
        for i, name in enumerate(names):
            code.append(self._write(name, f"loaded.value[{i}]", resize=True))
        return "{ " + " ".join(code) + " }"

    def _store(self, instruction: Instruction) -> str:
        space, count, address = self._access(instruction)
        type_ = instruction.opcode[-1]
        sources = instruction.operands[1]
        names = sources if isinstance(sources, tuple) else (sources,)
        values = ", ".join(self._read_resized(name, type_) for name in names)
        stored = f"Values<{_TYPES[type_]}, {count}>{{{{{values}}}}}"
        if space == "local":
            return f"thread.StoreOwn(local, kLocalBytes, {address}, {stored});"
        if space == "param":
            raise PtxError(f"{self._kernel.name} writes its parameters")
        where = space.capitalize()
        return f"thread.Store{where}({address}, {stored}, {self._site()});"
