"""Spellings, suggestions, completion and help of the command line; no TensorFlow."""

import subprocess
import sys

import pytest
from commands import run, run_python

from ios_tf.cli import main
from tests import command_line_page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("convrt MODEL OUTPUT", "unknown command 'convrt'; did you mean convert?"),
        ("cache claer", "unknown action 'claer'; did you mean clear?"),
        ("convert M O --batchsize=1", "did you mean --batch_size?"),
        ("convert M O --batch-sizes=1", "did you mean --batch_size?"),
        ("convert M O --overwrit", "arguments: --overwrit; did you mean --overwrite?"),
        ("convert M O --warmup=1", "--warmup is now called --warmup_runs"),
    ],
)
def test_wrong_names_are_one_line_with_a_suggestion(capsys, words, message):
    code, out, err = run(capsys, *words.split())
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert message in line
    assert line.endswith(" --help)")


def test_nothing_is_suggested_if_nothing_is_similar(capsys):
    code, _, err = run(capsys, "zzzz")
    assert code == 2
    assert "unknown command 'zzzz'; choose convert, show, " in err
    assert "did you mean" not in err


@pytest.mark.parametrize("flag", ["--batch-size", "--batch_size"])
def test_flags_have_dashes_or_underscores(capsys, flag):
    code, _, err = run(capsys, "convert", "MODEL", "OUTPUT", f"{flag}=0")
    assert code == 2
    assert "batch_size must be a whole number >= 1, not 0" in err


def test_words_after_two_dashes_are_not_flags(capsys):
    code, _, err = run(capsys, "convert", "--", "--batch-size", "OUTPUT", "more")
    assert code == 2
    assert "unrecognized arguments: more" in err


def test_commands_print_json_on_request():
    parsers = dict(command_line_page.commands("ios_tf", main.command_parser()))
    assert len(parsers) > 10
    without = [name for name, one in parsers.items() if "--json" not in one.flags()]
    assert without == ["ios_tf completion"]  # its output is a script


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_commands_and_flags(capsys, shell):
    code, out, err = run(capsys, "completion", shell)
    assert (code, err) == (0, "")
    for word in ("convert", "doctor", "batch_size", "overwrite"):
        assert word in out
    assert "pdb_post_mortem" not in out  # a hidden flag of absl


def test_bash_completes_a_command_and_a_flag(capsys, tmp_path):
    _, script, _ = run(capsys, "completion", "bash")
    (tmp_path / "completion").write_text(script)
    code = """
source "$1"
function=$(complete -p ios_tf | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
COMP_WORDS=(ios_tf conv) COMP_CWORD=1; $function; echo "${COMPREPLY[@]}"
COMP_WORDS=(ios_tf convert --batch) COMP_CWORD=2; $function; echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(
        ["bash", "-c", code, "bash", tmp_path / "completion"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["convert", "--batch_size"]


def test_missing_shtab_is_one_line(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, _, err = run(capsys, "completion", "bash")
    assert (code, err) == (
        1,
        "ios_tf: error: completion needs shtab. Run pip install shtab\n",
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["convert", "--help"], ["--version"], ["completion", "bash"]]
)
def test_help_does_not_import_large_packages(words):
    code = f"""
import sys
from ios_tf.cli import main
try:
    main.main({words!r})
except SystemExit:
    pass
sys.exit(sorted({{"tensorflow", "keras", "numpy"}} & sys.modules.keys()) or 0)
"""
    done = run_python("-c", code)
    assert done.stdout and not done.stderr
