"""Write a function to the file of a submission, which has to compute the maps of the function."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from roarbench.api.neutral_settings import use_neutral_settings
from roarbench.api.submission_source import (
    choose_entry_point_code,
    make_submission,
    warn_of_values_outside_file,
)
from roarbench.common.device_settings import restore_global_generators
from roarbench.common.errors import CallerError
from roarbench.common.files import write_file_refusing_existing
from roarbench.compute.networks import DRAWING
from roarbench.submissions.limits_and_faults import Refusal
from roarbench.submissions.submission_calls import (
    EstimateFunction,
    compute_maps_of_part,
    find_entry_point,
    load_entry_point,
)
from roarbench.submissions.submission_file import Submission
from roarbench.submissions.submission_validation import are_equal_up_to_rounding, make_test_case


@use_neutral_settings
def write_submission(function: Callable[..., Any], name: str = "", folder: str | Path = ".") -> Path:
    """Write the file of a submission, to be run in the sandbox by `roarbench run --submission FILE`.

    The function and its file are called with the network and images of `roarbench validate`, and compared.

    Args:
        function: A function of (model, inputs, targets), a class of captum, or an explanation function for Quantus; see
            `evaluate`.
        name: Name of the row; the function's name if empty.
        folder: Folder of the file.

    Returns:
        The file.

    Raises:
        CallerError: The file exists with other content, or the function cannot be written to a file, or the file
            computes other maps.

    Examples:
        >>> from captum.attr import Saliency
        >>> path = write_submission(Saliency, "my-saliency")
        >>> path.name, "Saliency" in path.read_text()
        ('my_saliency.py', True)
    """
    submission = make_submission(name or getattr(function, "__name__", ""), function)
    warn_of_values_outside_file(submission)
    _compare_file_with_function(submission, adapt_as_in_file(submission.name, function))
    path = Path(folder) / f"{submission.name.replace('-', '_')}.py"
    if not path.exists() or path.read_bytes() != submission.source:
        write_file_refusing_existing(path, lambda temporary: temporary.write_bytes(submission.source))
    return path


def adapt_as_in_file(name: str, function: Callable[..., Any]) -> EstimateFunction:
    """Return the entry point that a function's file would have, without writing the function itself."""
    module = ModuleType("function")
    vars(module).update(torch=torch, function=function)
    exec(choose_entry_point_code(name, function).format(call="function"), vars(module))
    return find_entry_point(module)


def refuse_other_maps(name: str, of_file: torch.Tensor, of_function: torch.Tensor) -> None:
    """Raise CallerError if the maps of a function's file are not those of the function."""
    if not are_equal_up_to_rounding(of_file, of_function):
        seen = f"{name}: the file of the function, which a run calls, computes other maps than the function"
        remedy = "do not read __name__, __file__, or a function's own attributes in it, and define each name once"
        raise CallerError(f"{seen}; {remedy}")


def _compare_file_with_function(submission: Submission, function: EstimateFunction) -> None:
    part = make_test_case()
    with DRAWING, restore_global_generators():
        try:
            expected = compute_maps_of_part(function, part)
        except Refusal:
            return  # the function may be for other networks; `validate` names its faults
        try:
            made = compute_maps_of_part(load_entry_point(submission.source), part)
        except Refusal as refusal:
            raise refusal.add_subject(submission.name) from None
    refuse_other_maps(submission.name, made.nan_to_num(), expected.nan_to_num())
