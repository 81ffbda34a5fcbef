"""Read a submission, which is one Python file with parameters, without running it. Nothing here imports torch.

The value of a parameter replaces the default in the source text before the sandbox runs the file. Therefore, objects
that the file makes from the estimator's class during its import have the value, too.
"""

import ast
import hashlib
import json
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from roarbench.common.errors import CallerError
from roarbench.common.files import write_new_file
from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.ids import Parameter, Value, format_value, parse_id_parameters
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.submissions.faults import SubmissionFault, make_printable_fault

NAMES = ("estimate", "estimator", "explain_func")  # names of entry points; a submission defines exactly one
_LARGEST = 1e9  # maximum absolute value of a numeric parameter
_PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_NUMBER = re.compile(r"[-+]?[0-9.]{1,20}(e[-+]?[0-9]{1,3})?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,100}")
TEMPLATE = Path(__file__).with_name("submission_template.py")
LARGEST = 256 * 1024  # maximum bytes of a file
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_PARSING = Lock()  # before Python 3.11.8 two threads that parse at once may raise SystemError (CPython issue 106905)
_TEXTS = {"DESCRIPTION": 300, "AUTHORS": 300, "PAPER": 300, "CLAIM": 500}  # maximum characters


class ParameterAttribute(NamedTuple):
    """A parameter: a class attribute of the estimator that a user may set."""

    default: Value  # value in the file
    start: int  # first byte of the default in the file
    stop: int  # first byte after the default


def read_parameter_attributes(tree: ast.Module, text: str) -> dict[str, ParameterAttribute]:
    """Return the parameters of a submission, in the order of the file.

    Parameters are the class attributes of the estimator whose values in the file are literal numbers, strings or truth
    values. The result is empty if the file does not make its estimator from a class of its own.
    """
    owner = _find_estimator_class(tree)
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    attributes = {}
    for name, node in _list_assignments(owner.body if owner else ()):
        value = _read_simple_value(node)
        if value is not None and _PARAMETER_NAME.fullmatch(name):
            start, stop = lines[node.lineno - 1] + node.col_offset, lines[(node.end_lineno or 0) - 1]
            attributes[name] = ParameterAttribute(value, start, stop + (node.end_col_offset or 0))
    return attributes


def replace_defaults(text: str, attributes: Mapping[str, ParameterAttribute], values: Mapping[str, Value]) -> bytes:
    """Return the source with `values` instead of the parameters' defaults."""
    data = text.encode()
    for name in sorted(values, key=lambda name: attributes[name].start, reverse=True):
        attribute = attributes[name]
        data = data[: attribute.start] + repr(values[name]).encode() + data[attribute.stop :]
    return data


def _find_estimator_class(tree: ast.Module) -> ast.ClassDef | None:
    """Return the class of the file that is the estimator or makes the estimator; None if there is no such class."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    made = {name: node for name, node in _list_assignments(tree.body) if name in NAMES}
    for name in NAMES:
        if name in made:
            return classes.get(_find_called_name(made[name]))
        if name in classes:
            return classes[name]
    return None


def _find_called_name(node: ast.expr) -> str:
    """Return `Mine` for `Mine`, `Mine(…)`, `Mine(…).explain` and `lambda model: Mine(model)`."""
    while isinstance(node, ast.Lambda | ast.Call | ast.Attribute):
        node = node.body if isinstance(node, ast.Lambda) else node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _list_assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and value of each assignment to a single name, in order."""
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            yield target.id, value


def _read_simple_value(node: ast.expr) -> Value | None:
    """Return the value of a literal number, string or truth value; None for other expressions."""
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd)
    if not isinstance(node.operand if isinstance(node, ast.UnaryOp) and signed else node, ast.Constant):
        return None
    try:
        value = ast.literal_eval(node)
    except ValueError:  # for example -"a"
        return None
    return value if type(value) in (bool, int, float, str) else None


def _make_parameter(default: Value) -> Parameter:
    about = f"the file sets it to {default!r}"
    match default:
        case bool():
            return Parameter(about, "True or False", {"true": True, "false": False}.get)
        case int():
            return Parameter(about, f"a whole number from {-_LARGEST:.0f} to {_LARGEST:.0f}", _parse_integer)
        case float():
            return Parameter(
                about, f"a number from {-_LARGEST:g} to {_LARGEST:g}", lambda text: _parse_number(text, default)
            )
    return Parameter(
        about, "1 to 100 letters, digits and . _ + -", lambda text: text if _WORD.fullmatch(text) else None
    )


def _parse_integer(text: str) -> int | None:
    value = int(text) if re.fullmatch("[-+]?[0-9]{1,10}", text) else None
    return value if value is not None and abs(value) <= _LARGEST else None


def _parse_number(text: str, default: float) -> float | None:
    try:
        value = float(text) if _NUMBER.fullmatch(text) else _LARGEST * 2
    except ValueError:
        return None
    if value == default or not abs(value) <= _LARGEST:
        return default if value == default else None
    return float(f"{value:g}") + 0.0  # rounds to the precision of names; + 0.0 turns -0 into 0


class ValidationFinding(StrEnum):
    """A finding of `validate` about an accepted submission."""

    NETWORK = "ignores the network"
    CLASS = "ignores the class"
    CONSTANT = "has maps that are the same everywhere"


class Refusal(CallerError):
    """Raised for a rejected submission; `fault` holds the reason and, after an exception, the traceback."""

    def __init__(self, kind: SubmissionFault, words: str, trace: str = "") -> None:
        self.fault = make_printable_fault(kind, words, trace)
        super().__init__(self.fault.words)

    def add_subject(self, subject: str) -> "Refusal":
        """Return the refusal with its file or submission named first, because a command may read several."""
        kind, words, trace = self.fault
        return Refusal(kind, f"{subject}: {words}", trace)


@dataclass(frozen=True)
class Submission:
    """A submission: the file with its metadata, and the values of its parameters."""

    name: str  # NAME of the file
    source: bytes  # the file's bytes; the submission's id has their hash
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
    def file_id(self) -> str:
        """Return the id of the file: its name and the first digits of its hash."""
        return f"{self.name}@{self.sha256[:8]}"

    @property
    def id(self) -> str:
        """Return the file's id, followed by the parameters whose values differ from the file's."""
        values = ",".join(f"{name}={format_value(value)}" for name, value in self.values)
        return f"{self.file_id}({values})" if values else self.file_id

    @property
    def parameters(self) -> dict[str, Value]:
        """Return the parameters (class attributes of the estimator) with their values in the file."""
        return {name: attribute.default for name, attribute in self._read_attributes().items()}

    @property
    def code(self) -> bytes:
        """Return the code to run: the file with the values of the parameters."""
        return (
            replace_defaults(_decode_source(self.source), self._read_attributes(), dict(self.values))
            if self.values
            else self.source
        )

    def replace_parameters(self, assignments: str) -> "Submission":
        """Return the submission with the parameters of `samples=50,noise=0.1`; raise CallerError for invalid ones."""
        if not assignments:
            return replace(self, values=())
        defaults, written = self.parameters, f"{self.name}({assignments})"
        table = {name: _make_parameter(default) for name, default in defaults.items()}
        values = parse_id_parameters(self.name, defaults, assignments, written, table)
        return replace(self, values=tuple(values.items()))

    def _read_attributes(self) -> dict[str, ParameterAttribute]:
        text = _decode_source(self.source)
        return read_parameter_attributes(_parse_source_or_refuse(text), text)


def read_submission(path: Path) -> Submission:
    """Read a submission, `FILE` or `FILE(samples=50)`, and check it without running it.

    Raises:
        Refusal: The file cannot be a submission. The checks are, in this order: file, size, encoding, syntax, names.
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
    """Check a file as `parse_submission` does; a refusal names the file."""
    source = _read_file(path)
    try:
        return parse_submission(source)
    except Refusal as refusal:
        raise refusal.add_subject(path.name) from None


def parse_submission(source: bytes) -> Submission:
    """Check the source of a submission and return the submission; raise Refusal."""
    _check_size(len(source))
    texts = _check_metadata(_read_constants(_parse_source_or_refuse(_decode_source(source))))
    return Submission(texts["name"], source, *(texts[key.lower()] for key in _TEXTS))


def write_template(name: str) -> Path:
    """Write the template to the current folder, as a submission with this name.

    Raises Refusal if the name is not valid for a submission, CallerError if the file exists, and StoreError if the file
    cannot be written.
    """
    path = Path(f"{name.replace('-', '_')}.py")
    source = TEMPLATE.read_text("utf-8").replace('NAME = "my-estimator"', f"NAME = {json.dumps(name)}")
    parse_submission(source.encode())
    write_new_file(path, lambda temporary: temporary.write_text(source, "utf-8"))
    return path


def _read_file(path: Path) -> bytes:
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # reading a pipe or a device may block forever
            raise Refusal(SubmissionFault.UNREADABLE, f"{path} is not a regular file; name a Python file")
        _check_size(about.st_size, path.name)
        return path.read_bytes()
    except OSError as error:
        raise Refusal(SubmissionFault.UNREADABLE, f"cannot read {path}: {error.strerror or error}") from None


def _check_size(count: int, file: str = "the file") -> None:
    if count > LARGEST:
        words = f"{file} has {count / 1024:,.0f} KiB, expected at most 256 KiB; remove embedded data"
        raise Refusal(SubmissionFault.TOO_LARGE, words)


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
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else "the file"
        raise Refusal(SubmissionFault.SYNTAX, f"{where} is not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        words = f"Python cannot parse the file ({type(error).__name__}); reduce its nesting and remove null bytes"
        raise Refusal(SubmissionFault.SYNTAX, words) from None


def _read_constants(tree: ast.Module) -> dict[str, object]:
    constants: dict[str, object] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = (target.id for target in targets if isinstance(target, ast.Name))
            constants |= dict.fromkeys(names, _read_literal_or_keep_node(statement.value))
    return constants


def _read_literal_or_keep_node(value: ast.expr | None) -> object:
    try:
        return None if value is None else ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return value  # the caller refuses values that are no strings


def _check_metadata(constants: dict[str, object]) -> dict[str, str]:
    name = constants.get("NAME")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        seen = f"NAME is {name[:60]!r}" if isinstance(name, str) else "NAME is missing or not a plain string"
        raise Refusal(
            SubmissionFault.NAMES, f'{seen}, expected 1-40 characters of a-z, 0-9 and "-"; write NAME = "my-estimator"'
        )
    if name in ESTIMATORS or name == CLEAN:
        raise Refusal(SubmissionFault.NAMES, f"NAME {name!r} is a built-in estimator; choose another name")
    return {"name": name} | {key.lower(): _check_metadata_text(constants, key, most) for key, most in _TEXTS.items()}


def _check_metadata_text(constants: dict[str, object], key: str, longest: int) -> str:
    value = constants.get(key, "")
    if not isinstance(value, str) or len(value) > longest or (key == "DESCRIPTION" and not value.strip()):
        seen = f"{len(value)} characters" if isinstance(value, str) else "not a plain string"
        seen = seen if key in constants else "missing"
        raise Refusal(SubmissionFault.NAMES, f'{key} is {seen}, expected 1-{longest} characters; write {key} = "…"')
    return fit_on_one_line(value)
