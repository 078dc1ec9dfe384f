"""The reasons, their codes and their texts."""

from __future__ import annotations

import difflib
import enum

from ios_tf.reasons import page


@enum.unique
class Reason(enum.Enum):
    """A reason why something was not done, or was done in another way.

    The value is the number in the code. It never changes, and is never used again.
    """

    # Nodes that the importer leaves to TensorFlow (1 to 99).
    NODE_TYPE = 1
    UNKNOWN_SHAPE = 2
    DATA_TYPE = 3
    TYPE_ON_GPU_ONLY = 4
    OTHER_DEVICE = 5
    LAYOUT = 6
    OPERAND_NOT_CONSTANT = 7
    ATTRIBUTE = 8
    DIMENSION = 9
    CHANNELS = 10
    FUSED_OPERATION = 11
    OUTPUT_SIZE = 12
    STATISTICS_ARE_READ = 13
    TRAINING = 14
    EQUATION = 15
    RESHAPE = 16
    TRANSPOSE = 17
    SLICE = 18
    REJECTED_SIZES = 19
    CHANNELS_VARY = 20
    SHAPES_DISAGREE = 21
    OUTSIDE_REGIONS = 22
    PART_OF_OPERATOR = 23
    PATTERN = 24
    CONDITIONAL = 25
    FED = 26
    TENSOR_SIZE = 27

    # Regions, signatures and whole models (101 to 199).
    NO_CONVOLUTION = 101
    CONVOLUTION_TYPE = 102
    INSIDE_FUNCTION = 103
    SLOW_REGION = 104
    REGION_NOT_TIMED = 105
    SLOW_SIGNATURE = 106
    NO_FAST_REGION = 107
    NOTHING_TIMED = 108
    COPIED = 109
    ORIGINAL_RUNS = 110
    CHANGES_VARIABLE = 111
    NO_OUTPUTS = 112
    TENSORFLOW_FAILS = 113
    OPTIMIZERS_CHANGE_OUTPUTS = 114
    SHARE_OF_NAN = 115
    DIRECT_CONVOLUTIONS = 116
    SEQUENTIAL = 117
    FIXED_BATCH_SIZE = 118
    OTHER_NETWORK = 119
    LOST_FUNCTION = 120
    NOT_REQUESTED = 121
    SLOW_WITHOUT_PACKAGE = 122
    FULL_PRECISION_OPERATORS = 123
    FULL_PRECISION_SIGNATURE = 124
    OTHER_IMAGE_SIZE = 125

    # Comparisons with the original model (201 to 299).
    INPUTS_REJECTED = 201
    STRINGS = 202
    SAMPLES_REJECTED = 203
    INPUT_TYPE = 204
    NOT_REPEATABLE = 205
    STATEFUL = 206
    CONSTANT_OUTPUT = 207
    ALL_NAN = 208
    AFTER_REGIONS = 209
    ROUNDING = 210
    NO_ONNX_RUNTIME = 211

    # Measurements and searches (301 to 399).
    REGIONS_ONLY = 301
    NOT_TIMED = 302
    UNDECIDED = 303
    CUT = 304
    LITTLE_MEMORY = 305
    TIME_LIMIT = 306
    BUSY = 307
    LATENCIES_MISSING = 308
    NO_TIMELINE = 309
    FRAMEWORK_FAILED = 310
    FRAMEWORK_MISSING = 311

    # Loading and running models: the plugin, `ios_tf.enable` and the schedule cache
    # (401 to 499).
    NO_LIBRARY = 401
    GRAPH_NOT_LOWERED = 402
    UNUSABLE_GPU = 403
    INVALID_REGION = 404
    INVALID_SCHEDULE = 405
    MISSING_SCHEDULE = 406
    SEARCH_FAILED = 407
    CACHE_FILE_IGNORED = 408
    CACHE_NOT_WRITTEN = 409
    CACHE_NOT_OPENED = 410
    OTHER_PLUGIN = 411
    GRAPHS_NOT_FROZEN = 412
    NO_SCHEDULE = 413
    NO_CUDA_GRAPH = 414
    PASSES_STAY_ON = 415
    NOT_SEARCHED = 416
    LATENCIES_NOT_KEPT = 417

    @property
    def code(self) -> str:
        """The stable code, such as "IOS012"."""
        return f"IOS{self.value:03}"

    @property
    def slug(self) -> str:
        """A short name, such as "output-size"."""
        return self.name.lower().replace("_", "-")

    @property
    def group(self) -> str:
        """The heading of the page for this reason and similar ones."""
        return self._section.group

    @property
    def title(self) -> str:
        """The decision, in a few words."""
        return self._section.title

    @property
    def meaning(self) -> str:
        """What the reason means, in sentences."""
        return self._section.meaning

    @property
    def remedy(self) -> str:
        """What the user can do, in sentences."""
        return self._section.remedy

    @property
    def _section(self) -> page.Section:
        # A damaged installation must not end a conversion whose report has this reason.
        return page.sections().get(self.code) or page.Section(
            group="Reasons without an explanation",
            title=self.slug.replace("-", " ").capitalize(),
            slug=self.slug,
            meaning="The explanation is missing from this installation of IOS-TF.",
            remedy="Install IOS-TF again.",
        )


BY_CODE = {reason.code: reason for reason in Reason}


def find(text: str) -> Reason:
    """The reason that a user names by its code, number or slug, in any case.

    Raises:
      ValueError: there is no such reason. The message suggests one that looks alike.
    """
    word = text.strip().strip("[]").lower()
    digits = word.removeprefix("ios")
    for reason in Reason:
        if word == reason.slug:
            return reason
        if digits.isdecimal() and digits.isascii() and int(digits) == reason.value:
            return reason
    names = {name.lower(): name for r in Reason for name in (r.code, r.slug)}
    similar = difflib.get_close_matches(word, names, n=1, cutoff=0.75)
    hint = "The command ios_tf explain lists all codes"
    if similar:
        hint = f"Did you mean {names[similar[0]]}?"
    raise ValueError(f"{text!r} is not the code of a reason. {hint}")
