"""Reads PTX: NVIDIA's assembly language for GPUs, as NVRTC writes it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r'"[^"]*"|[%$.\w]+|-\d+|\S')


class PtxError(ValueError):
    """The PTX text contains something that the reader or translator cannot handle."""


@dataclasses.dataclass(frozen=True)
class Address:
    """A memory operand: `[base + offset]`."""

    base: str
    offset: int


# A register or number, several of them in braces, or a memory operand.
Operand = str | tuple[str, ...] | Address


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
      guard: the predicate that must hold, "" if there is none; "!p" negates p.
      opcode: the parts between dots: "ld.global.u32" is ("ld", "global", "u32").
      operands: the destination comes first.
    """

    guard: str
    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{'.'.join(self.opcode)} {self.operands}"


@dataclasses.dataclass(frozen=True)
class Label:
    name: str


@dataclasses.dataclass(frozen=True)
class Registers:
    """Declares registers of one type."""

    type: str
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Variable:
    """An array of bytes in the state space `space`, perhaps with its values."""

    space: str
    name: str
    alignment: int
    bytes: int
    values: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Scope:
    """Opens or closes a pair of braces, which limits names of registers."""

    opens: bool


Statement = Instruction | Label | Registers | Variable | Scope


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An entry point; `threads` is the largest size of its blocks."""

    name: str
    parameter: Variable
    threads: int
    statements: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True)
class Module:
    variables: tuple[Variable, ...]
    kernels: tuple[Kernel, ...]


SIZES = {f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (8, 16, 32, 64)}
# Types of these lengths do not exist, so PTX that has them is refused.
del SIZES["f8"]


def bits(number: str) -> int:
    """The value of an integer, or the bits of a floating-point number."""
    if re.match("0[fFdD]", number):
        return int(number[2:], 16)
    return int(number, 0)


def read(text: str) -> Module:
    """The module that a text describes."""
    return _Reader(text).module()


class _Reader:
    def __init__(self, text: str):
        self._tokens = _TOKEN.findall(_COMMENT.sub(" ", text))
        self._at = 0

    def module(self) -> Module:
        variables, kernels = [], []
        while self._at < len(self._tokens):
            token = self._take()
            if token in (".version", ".target", ".address_size"):
                self._take()
            elif token == ".global":
                variables.append(self._variable("global", self._until(";")))
            elif token == ".visible":
                self._expect(".entry")
                kernels.append(self._kernel())
            else:
                raise PtxError(f"a module has {token!r}")
        return Module(tuple(variables), tuple(kernels))

    def _kernel(self) -> Kernel:
        name = self._take()
        self._expect("(")
        parameter = self._until(")")
        if parameter[:1] != [".param"] or "," in parameter:
            raise PtxError(f"{name} does not have one parameter: {parameter}")
        directives = self._until("{")
        threads = 1024
        if ".maxntid" in directives:
            threads = int(directives[directives.index(".maxntid") + 1])
        return Kernel(
            name,
            self._variable("param", parameter[1:]),
            threads,
            tuple(self._statements()),
        )

    def _statements(self) -> Iterator[Statement]:
        depth = 1
        while True:
            token = self._take()
            if token in "{}":
                depth += 1 if token == "{" else -1
                if depth == 0:
                    return
                yield Scope(token == "{")
            elif self._tokens[self._at] == ":":
                self._at += 1
                yield Label(token)
            elif token == ".reg":
                yield self._registers(self._until(";"))
            elif token in (".shared", ".local"):
                yield self._variable(token[1:], self._until(";"))
            elif token == ".pragma":
                self._until(";")
            else:
                yield self._instruction([token, *self._until(";")])

    def _registers(self, tokens: list[str]) -> Registers:
        text = "".join(tokens[1:])
        names: list[str] = []
        for part in text.split(","):
            several = re.fullmatch(r"(.*)<(\d+)>", part)
            if several:
                names += [f"{several[1]}{i}" for i in range(int(several[2]))]
            else:
                names.append(part)
        return Registers(tokens[0][1:], tuple(names))

    def _variable(self, space: str, tokens: list[str]) -> Variable:
        """Reads `.align A .TYPE NAME[COUNT] = {VALUES}`."""
        match = re.fullmatch(
            r"\.align (\d+) \.(\w+) ([\w$]+)(?: \[ (\d+) \])?(?: = (.*))?",
            " ".join(tokens),
        )
        if match is None:
            raise PtxError(f"cannot read the variable {tokens}")
        alignment, element, name, count, values = match.groups()
        numbers = [bits(value) for value in re.findall(r"-?\w+", values or "")]
        size = SIZES[element]
        data = b"".join((n % 256**size).to_bytes(size, "little") for n in numbers)
        total = size * int(count or 1)
        return Variable(space, name, int(alignment), total, tuple(data))

    def _instruction(self, tokens: list[str]) -> Instruction:
        guard = ""
        if tokens[0] == "@":
            length = 2 if tokens[1] == "!" else 1
            guard = "".join(tokens[1 : 1 + length])
            tokens = tokens[1 + length :]
        operands: list[Operand] = []
        rest = " ".join(tokens[1:])
        for part in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^\s,]+", rest):
            if part[0] == "{":
                operands.append(tuple(part[1:-1].replace(",", " ").split()))
            elif part[0] == "[":
                operands.append(self._address(part))
            else:
                operands.append(part)
        return Instruction(guard, tuple(tokens[0].split(".")), tuple(operands))

    def _address(self, text: str) -> Address:
        match = re.fullmatch(r"\[([%$.\w]+)(?:\+(-?\d+))?\]", text.replace(" ", ""))
        if match is None:
            raise PtxError(f"cannot read the address {text}")
        return Address(match[1], int(match[2] or 0))

    def _take(self) -> str:
        if self._at == len(self._tokens):
            raise PtxError("the text ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise PtxError(f"{token!r} is missing")

    def _until(self, end: str) -> list[str]:
        """The tokens before `end`, which is skipped."""
        try:
            stop = self._tokens.index(end, self._at)
        except ValueError:
            raise PtxError(f"{end!r} is missing") from None
        tokens = self._tokens[self._at : stop]
        self._at = stop + 1
        return tokens
