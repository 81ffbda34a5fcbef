"""Read and check a submission, which is one Python file, without running it. Nothing here imports torch."""

import ast
import hashlib
import json
import re
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from roarbench.common.errors import CallerError
from roarbench.common.files import ARRAY_LOADERS, write_new_file
from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.ids import Value, format_value, parse_nondefault_parameters
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault
from roarbench.submissions.parameters import (
    ParameterAttribute,
    list_assignments,
    make_parameter,
    read_parameter_attributes,
    replace_defaults,
)

TEMPLATE = Path(__file__).with_name("submission_template.py")
_MAX_BYTES = 256 * 1024  # of a submission
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_PARSING = Lock()  # before Python 3.11.8 two threads that parse at once may raise SystemError (CPython issue 106905)
_MAX_CHARACTERS = {"DESCRIPTION": 300, "AUTHORS": 300, "PAPER": 300, "CLAIM": 500}


@dataclass(frozen=True)
class Submission:
    """File with an estimator, its metadata, and the values of its parameters."""

    name: str  # NAME in the file
    source: bytes  # content of the file
    description: str
    authors: str = ""  # empty if not given
    paper: str = ""  # publication; empty if not given
    claim: str = ""  # the authors' claim; empty if not given
    # names and values of the parameters that the user changed, in the file's order
    values: tuple[tuple[str, Value], ...] = field(default=(), kw_only=True)

    @property
    def sha256(self) -> str:
        """Return the checksum of the file, 64 hex digits."""
        return hashlib.sha256(self.source).hexdigest()

    @property
    def id_without_parameters(self) -> str:
        """Return the id of the file, which consists of NAME and the first digits of the hash."""
        return f"{self.name}@{self.sha256[:8]}"

    @property
    def id(self) -> str:
        """Return the file's id, followed by the parameters whose values differ from the file's."""
        values = ",".join(f"{name}={format_value(value)}" for name, value in self.values)
        return f"{self.id_without_parameters}({values})" if values else self.id_without_parameters

    @property
    def parameters(self) -> dict[str, Value]:
        """Return the parameters (class attributes of the estimator) with their values in the file."""
        return {name: attribute.default for name, attribute in self._read_attributes().items()}

    @property
    def code(self) -> bytes:
        """Return the content of the file, with the values of the parameters, to run in the sandbox."""
        if not self.values:
            return self.source
        return replace_defaults(_decode_source(self.source), self._read_attributes(), dict(self.values))

    def replace_parameters(self, assignments: str) -> "Submission":
        """Return the submission with values such as `samples=50,noise=0.1`; raise CallerError for invalid values."""
        if not assignments:
            return replace(self, values=())
        defaults = self.parameters
        table = {name: make_parameter(default) for name, default in defaults.items()}
        values = parse_nondefault_parameters(self.name, defaults, assignments, f"{self.name}({assignments})", table)
        return replace(self, values=tuple(values.items()))

    def _read_attributes(self) -> dict[str, ParameterAttribute]:
        text = _decode_source(self.source)
        return read_parameter_attributes(_parse_source_or_refuse(text), text)


def read_submission(path: Path) -> Submission:
    """Read a submission, `FILE` or `FILE(samples=50)`, and check it without running it.

    Raises:
        Refusal: The file is not a submission: it cannot be read, is too large, is not UTF-8, is not valid Python, or
            lacks a constant.
        CallerError: The submission does not have such a parameter, or the parameter does not accept the value.
    """
    match = re.fullmatch(r"(.+)\(([^()]*)\)", str(path), re.DOTALL)
    if not match or path.exists():  # the file's own name may end in parentheses
        return _read_submission_file(path)
    if not match[2].strip():
        raise CallerError(
            f"'{path}' has no parameter between its parentheses; write FILE(samples=50), or leave the parentheses out"
        )
    return _read_submission_file(Path(match[1])).replace_parameters(match[2])


def _read_submission_file(path: Path) -> Submission:
    """Read and check a file; a refusal names the file."""
    source = _read_file(path)
    try:
        return parse_submission(source)
    except Refusal as refusal:
        raise refusal.add_subject(path.name) from None


def parse_submission(source: bytes) -> Submission:
    """Check the source of a submission, and return the submission; raise Refusal if a check fails."""
    if len(source) > _MAX_BYTES:
        raise Refusal(SubmissionFault.TOO_LARGE, "the file has more than 256 KiB; remove embedded data")
    constants = dict(list_assignments(_parse_source_or_refuse(_decode_source(source)).body))
    texts = {name: _read_text(node) for name, node in constants.items()}
    name = texts.get("NAME")
    if not name or not _NAME.fullmatch(name):
        seen = f"NAME is {name[:60]!r}" if name else "NAME is missing or not a plain string"
        expected = 'expected 1-40 characters of a-z, 0-9 and "-"; write NAME = "my-estimator"'
        raise Refusal(SubmissionFault.NAMES, f"{seen}, {expected}")
    if name in ESTIMATORS or name == CLEAN:
        raise Refusal(SubmissionFault.NAMES, f"NAME {name!r} is a built-in estimator; choose another name")
    return Submission(name, source, *(_check_text(texts, key, limit) for key, limit in _MAX_CHARACTERS.items()))


def write_template(name: str) -> Path:
    """Write the template to the current folder, as a submission with this name; return the path.

    Raises:
        Refusal: The name is not valid for a submission.
        CallerError: The file exists.
        StoreError: The file cannot be written.
    """
    path = Path(f"{name.replace('-', '_')}.py")
    source = TEMPLATE.read_text("utf-8").replace('NAME = "my-estimator"', f"NAME = {json.dumps(name)}")
    parse_submission(source.encode())
    write_new_file(path, lambda temporary: temporary.write_text(source, "utf-8"))
    return path


def _read_file(path: Path) -> bytes:
    try:
        # reading a pipe or a device may block forever
        if path.suffix != ".py" or not stat.S_ISREG(path.stat().st_mode):
            remedy = "; rb.check and rb.evaluate judge maps in arrays" if path.suffix in ARRAY_LOADERS else ""
            raise Refusal(SubmissionFault.UNREADABLE, f"{path} is not a Python file, expected FILE.py{remedy}")
        with path.open("rb") as file:
            return file.read(_MAX_BYTES + 1)  # a larger file is refused, so its rest is not needed
    except OSError as error:
        raise Refusal(SubmissionFault.UNREADABLE, f"cannot read {path}: {error.strerror or error}") from None


def _decode_source(source: bytes) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        seen = f"byte {source[error.start]:#04x} at position {error.start}"
        raise Refusal(SubmissionFault.ENCODING, f"{seen} is not UTF-8; save the file as UTF-8") from None


def parse_source(text: str) -> ast.Module:
    """Parse source code, in one thread at a time; raise the errors of `ast.parse`."""
    with _PARSING:
        return ast.parse(text)


def _parse_source_or_refuse(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for example about invalid escapes in strings
            return parse_source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        seen = f"{f'line {line}' if line else 'the file'} is not valid Python"
        raise Refusal(SubmissionFault.SYNTAX, f"{seen}: {getattr(error, 'msg', error)}") from None


def _read_text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _check_text(texts: Mapping[str, str | None], key: str, limit: int) -> str:
    text = texts.get(key, "")
    if text is None or len(text) > limit or (key == "DESCRIPTION" and not text.strip()):
        seen = f"{key} is {'not a plain string' if text is None else f'{len(text)} characters'}"
        raise Refusal(SubmissionFault.NAMES, f'{seen}, expected 1-{limit} characters; write {key} = "…"')
    return fit_on_one_line(text)
