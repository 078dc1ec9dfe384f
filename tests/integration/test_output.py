"""Outputs appear completely or not at all."""

import os

import pytest
import tensorflow as tf

from ios_tf.errors import UserError
from ios_tf.model.outputs import copy_directory, written_directory


def _write(directory, text="model"):
    with open(os.path.join(directory, "saved_model.pb"), "w") as file:
        file.write(text)


def test_appears_when_the_block_succeeds(tmp_path):
    output = tmp_path / "deep" / "er" / "out"
    with written_directory(str(output) + "/") as directory:
        _write(directory)
        assert not output.exists()
    assert os.listdir(output) == ["saved_model.pb"]
    assert os.listdir(output.parent) == ["out"]


def test_leaves_nothing_when_the_block_fails(tmp_path):
    with (
        pytest.raises(tf.errors.InternalError, match="mine"),
        written_directory(str(tmp_path / "deep" / "out")) as directory,
    ):
        _write(directory)
        raise tf.errors.InternalError(None, None, "mine")
    assert os.listdir(tmp_path) == []


def test_leaves_what_others_wrote_when_the_block_fails(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        written_directory(str(tmp_path / "deep" / "out")),
    ):
        (tmp_path / "deep" / "theirs").write_text("")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path / "deep") == ["theirs"]


def test_replaces_a_saved_model_only_when_told(tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    _write(output, "old")
    with (
        pytest.raises(UserError, match="--overwrite"),
        written_directory(str(output)),
    ):
        pass
    with written_directory(str(output), overwrite=True) as directory:
        _write(directory, "new")
    assert (output / "saved_model.pb").read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_never_replaces_anything_else(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for output in (tmp_path, tmp_path / "thesis.txt"):
        with (
            pytest.raises(UserError, match="not a SavedModel"),
            written_directory(str(output), overwrite=True),
        ):
            pass
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_unwritable_output_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match="cannot be written") as error,
        written_directory(str(tmp_path / "file" / "out")),
    ):
        pass
    assert "\n" not in str(error.value)


def test_copies_a_tree(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("text")
    (tmp_path / "c").mkdir()
    copy_directory(str(tmp_path / "a"), str(tmp_path / "c"))
    assert (tmp_path / "c" / "b" / "file").read_text() == "text"


def test_a_link_is_followed_and_stays(tmp_path):
    """The link's target is replaced, as if `current` names the version being served."""
    version, link = tmp_path / "v12", tmp_path / "current"
    version.mkdir()
    _write(version)
    (version / "old").mkdir()
    link.symlink_to("v12")
    with written_directory(str(link), overwrite=True) as directory:
        _write(directory, "new")
    assert os.readlink(link) == "v12"
    assert os.listdir(version) == ["saved_model.pb"]
    assert (version / "saved_model.pb").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["current", "v12"]


def test_a_copy_may_lie_inside_of_the_original(tmp_path):
    _write(tmp_path)
    with written_directory(str(tmp_path / "out")) as directory:
        copy_directory(str(tmp_path), directory)
    assert os.listdir(tmp_path / "out") == ["saved_model.pb"]
