"""The pages of the documentation agree with the code."""

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import ios_tf
from ios_tf import options
from ios_tf.cost.samples import MachineLoad
from ios_tf.doctor import settings
from ios_tf.reasons import Reason
from tests import command_line_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_command_line():
    hint = "run python -m tests.command_line_page"
    assert command_line_page.PAGE.read_text() == command_line_page.page(), hint


def test_python_names():
    page = (DOCS / "reference/python.md").read_text()
    documented = re.findall(r"^::: ios_tf\.(\w+)$", page, re.M)
    assert sorted(documented) == sorted(ios_tf.__all__)


def _cells(path: str, column: int = 0) -> list[str]:
    """The code in a column of a page's tables."""
    rows = re.findall(r"^\| (.+) \|$", (DOCS / path).read_text(), re.M)
    cells = [re.split(r" \| ", row)[column] for row in rows]
    return [code for cell in cells for code in re.findall("`([^`]+)`", cell)]


def test_environment_variables():
    documented = _cells("reference/environment.md")
    assert sorted(documented) == sorted([*settings.OWN, *settings.OTHERS])
    sources = [
        *ROOT.glob("ios_tf/**/*.py"),
        *ROOT.glob("cc/**/*.cc"),
        *ROOT.glob("cc/**/*.h"),
    ]
    # The names of variables are in quotes. The names of include guards are not.
    read = {
        name
        for path in sources
        for name in re.findall(r'"(IOS_TF_[A-Z_]+[A-Z])"', path.read_text())
    }
    assert read == {*settings.OWN}


def _text(node: ast.AST) -> str:
    """The text of a string expression, with … in place of values."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "…"


def _messages() -> str:
    """All string literals of the Python and C++ sources, one per line."""
    texts = [
        _text(node)
        for path in ROOT.glob("ios_tf/**/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
    ]
    literal = r'"(?:[^"\\\n]|\\.)*"'
    for path in ROOT.glob("cc/**/*.cc"):
        for found in re.findall(rf"{literal}(?:\s+{literal})*", path.read_text()):
            texts.append("".join(part[1:-1] for part in re.findall(literal, found)))
    return "\n".join(text.replace("\n", " ") for text in texts)


def test_error_texts():
    documented = [
        text
        for page in ("errors", "symptoms")
        for text in re.findall(
            r'^\| "(.+?)" \|', (DOCS / f"troubleshooting/{page}.md").read_text(), re.M
        )
    ]
    assert len(documented) > 40
    messages = _messages()
    # The beginning and the end may come from another string than the rest.
    rests = [re.sub(r"^… (is|must be) |, not …$", "", text) for text in documented]
    assert [text for text in rests if text not in messages] == []


def test_warning_of_a_busy_machine():
    guide = (DOCS / "guides/production.md").read_text()
    (warning,) = re.findall("^warning: .+$", guide, re.M)
    load = MachineLoad(average=9.31, samples=100, disturbed=41)
    sentence, _, code = warning.removeprefix("warning: ").rpartition(" ")
    assert sentence.replace(str(load), "…") in _messages().splitlines()
    assert code == f"[{Reason.BUSY.code}]"


def test_arguments_of_tf_trt():
    # Parses the source of the module, because importing the module needs TensorRT.
    package = importlib.util.find_spec("tensorflow")
    converter = Path(package.origin).parent / "python/compiler/tensorrt/trt_convert.py"
    (cls,) = [
        node
        for node in ast.parse(converter.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "TrtGraphConverterV2"
    ]
    arguments = {
        f.name: [argument.arg for argument in f.args.args[1:]]
        for f in cls.body
        if isinstance(f, ast.FunctionDef) and (f.name == "__init__" or f.name[0] != "_")
    }
    documented = _cells("coming_from/tf_trt.md")
    methods: dict[str, list[str]] = {"__init__": []}
    for code in documented:
        name, _, rest = code.partition("(")
        if rest:
            methods.setdefault(name, []).extend(rest.rstrip(")").split(", "))
        else:
            methods["__init__"].append(code)
    assert methods == arguments


def test_names_of_options():
    # Pages about other packages mention options of this package, which must exist.
    known = {
        name
        for cls in (options.ConvertOptions, options.OptimizeOptions)
        for name in inspect.signature(cls).parameters
    }
    used = re.findall(r"`(\w+)=", (DOCS / "coming_from/tf_trt.md").read_text())
    assert {*used} <= known
