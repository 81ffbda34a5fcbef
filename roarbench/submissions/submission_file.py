"""Read and check a submission, which is one Python file, and set its parameters, without running it.

The value of a parameter replaces the default in the source text before the sandbox runs the file. Therefore, objects
that the file makes from the estimator's class during its import have the value, too. Nothing here imports torch.
"""

import ast
import hashlib
import math
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from roarbench.common.errors import CallerError
from roarbench.common.files import ARRAY_LOADERS, write_file_refusing_existing
from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.ids import Parameter, Value, format_value, parse_nondefault_parameters
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault

TEMPLATE = Path(__file__).with_name("submission_template.py")
_MAX_BYTES = 256 * 1024  # of a submission
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_EXPECTED_NAME = 'expected 1-40 characters of a-z, 0-9 and "-"'
_PARSING = Lock()  # before Python 3.11.8 two threads that parse at once may raise SystemError (CPython issue 106905)
_MAX_CHARACTERS = {"DESCRIPTION": 300, "AUTHORS": 300, "PAPER": 300, "CLAIM": 500}
ENTRY_POINTS = ("estimate", "estimator", "explain_func")  # a submission defines exactly one of these names
_MAX_MAGNITUDE = 1e9  # maximum absolute value of a numeric parameter
_PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_INTEGER = re.compile("[-+]?[0-9]{1,10}")
_FLOAT = re.compile(r"[-+]?[0-9.]{1,20}(e[-+]?[0-9]{1,3})?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,100}")


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
        return {name: default for name, (default, _) in self._read_attributes().items()}

    @property
    def code(self) -> bytes:
        """Return the content of the file, with the values of the parameters, to run in the sandbox."""
        if not self.values:
            return self.source
        attributes = self._read_attributes()
        texts = {attributes[name][1]: repr(value) for name, value in self.values}
        return replace_nodes(_decode_source(self.source), texts).encode()

    def replace_parameters(self, assignments: str) -> "Submission":
        """Return the submission with values such as `samples=50,noise=0.1`; raise CallerError for invalid values."""
        if not assignments:
            return replace(self, values=())
        defaults = self.parameters
        table = {name: make_parameter(default) for name, default in defaults.items()}
        values = parse_nondefault_parameters(self.name, defaults, assignments, f"{self.name}({assignments})", table)
        return replace(self, values=tuple(values.items()))

    def _read_attributes(self) -> dict[str, tuple[Value, ast.expr]]:
        """Return the class attributes of the estimator whose values are literal numbers, strings or truth values.

        The result has values and their nodes, in the order of the file. It is empty if the file does not make its
        estimator from its own class. An attribute that the file sets elsewhere, too, is left out, because its value in
        the class may have no effect.
        """
        tree = _parse_source_or_refuse(_decode_source(self.source))
        if (estimator_class := _find_estimator_class(tree)) is None:
            return {}
        # statements such as `self.samples = 8`, and arguments of a dataclass
        nodes = list(ast.walk(tree))
        set_elsewhere = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        annotated = (part.target for part in estimator_class.body if isinstance(part, ast.AnnAssign))
        fields = [target.id for target in annotated if isinstance(target, ast.Name) and estimator_class.decorator_list]
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == estimator_class.name:
                set_elsewhere |= {each.arg for each in call.keywords if each.arg} | {*fields[: len(call.args)]}
        attributes = {}
        for name, node in list_assignments(estimator_class.body):
            with suppress(ValueError, TypeError):  # a name, for example, or a dict with a key that is a list
                value = ast.literal_eval(node)
                is_simple = type(value) in (bool, int, float, str)
                if is_simple and _PARAMETER_NAME.fullmatch(name) and name not in set_elsewhere:
                    attributes[name] = value, node
        return attributes


def read_submission(path: Path) -> Submission:
    """Read a submission, `FILE` or `FILE(samples=50)`, and check it without running it.

    Raises:
        Refusal: The file is not a submission: it cannot be read, is too large, is not UTF-8, is not valid Python, or
            lacks a constant.
        CallerError: The submission does not have such a parameter, or the parameter does not accept the value.
    """
    match, values = re.fullmatch(r"(.+)\(([^()]*)\)", str(path), re.DOTALL), ""
    if match and not path.exists():  # the file's own name may end in parentheses
        if not match[2].strip():
            remedy = "write FILE(samples=50), or leave the parentheses out"
            raise CallerError(f"'{path}' has no parameter between its parentheses; {remedy}")
        path, values = Path(match[1]), match[2]
    try:
        # reading a pipe or a device may block forever
        if path.suffix != ".py" or not stat.S_ISREG(path.stat().st_mode):
            remedy = "; rb.check and rb.evaluate judge maps in arrays" if path.suffix in ARRAY_LOADERS else ""
            raise Refusal(SubmissionFault.UNREADABLE, f"{path} is not a Python file, expected FILE.py{remedy}")
        with path.open("rb") as file:
            source = file.read(_MAX_BYTES + 1)  # a larger file is refused, so its rest is not needed
    except OSError as error:
        raise Refusal(SubmissionFault.UNREADABLE, f"cannot read {path}: {error.strerror or error}") from None
    try:
        submission = parse_submission(source)
    except Refusal as refusal:
        raise refusal.add_subject(path.name) from None
    return submission.replace_parameters(values)


def parse_submission(source: bytes) -> Submission:
    """Check the source of a submission, and return the submission; raise Refusal if a check fails."""
    if len(source) > _MAX_BYTES:
        raise Refusal(SubmissionFault.TOO_LARGE, "the file has more than 256 KiB; remove embedded data")
    constants = dict(list_assignments(_parse_source_or_refuse(_decode_source(source)).body))
    values = {name: node.value if isinstance(node, ast.Constant) else None for name, node in constants.items()}
    texts = {name: value if isinstance(value, str) else None for name, value in values.items()}
    name = texts.get("NAME")
    if not name or not _NAME.fullmatch(name):
        seen = f"NAME is {name[:60]!r}" if name else "NAME is missing or not a plain string"
        raise Refusal(SubmissionFault.NAMES, f'{seen}, {_EXPECTED_NAME}; write NAME = "my-estimator"')
    if name in ESTIMATORS or name == CLEAN:
        raise Refusal(SubmissionFault.NAMES, f"NAME {name!r} is a built-in estimator; choose another name")
    details = []
    for key, limit in _MAX_CHARACTERS.items():
        text = texts.get(key, "")
        if text is None or len(text) > limit or (key == "DESCRIPTION" and not text.strip()):
            seen = f"{key} is {'not a plain string' if text is None else f'{len(text)} characters'}"
            raise Refusal(SubmissionFault.NAMES, f'{seen}, expected 1-{limit} characters; write {key} = "…"')
        details.append(fit_on_one_line(text))
    return Submission(name, source, *details)


def write_template(name: str) -> Path:
    """Write the template to the current folder, as a submission with this name; return the path.

    Raises:
        Refusal: An estimator of roarbench has this name.
        CallerError: The name has other characters than a submission's, or the file exists.
        StoreError: The file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise CallerError(f"the name is {name[:60]!r}, {_EXPECTED_NAME}; write roarbench new-submission my-estimator")
    path = Path(f"{name.replace('-', '_')}.py")
    source = TEMPLATE.read_text("utf-8").replace('NAME = "my-estimator"', f'NAME = "{name}"')
    parse_submission(source.encode())
    write_file_refusing_existing(path, lambda temporary: temporary.write_text(source, "utf-8"))
    return path


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


def replace_nodes(source: str, texts: Mapping[ast.expr, str]) -> str:
    """Replace expressions of a source by other texts."""
    lines = source.encode().splitlines(keepends=True)  # columns of `ast` count bytes
    for part in sorted(texts, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        first, last = part.lineno - 1, part.end_lineno or part.lineno
        rest = lines[last - 1][part.end_col_offset :]
        lines[first:last] = [lines[first][: part.col_offset] + texts[part].encode() + rest]
    return b"".join(lines).decode()


def _parse_source_or_refuse(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for example about invalid escapes in strings
            return parse_source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        seen = f"{f'line {line}' if line else 'the file'} is not valid Python"
        raise Refusal(SubmissionFault.SYNTAX, f"{seen}: {getattr(error, 'msg', error)}") from None


def _find_estimator_class(tree: ast.Module) -> ast.ClassDef | None:
    """Return the class of the file that is the estimator or makes the estimator; None if there is no such class."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assigned = {name: node for name, node in list_assignments(tree.body) if name in ENTRY_POINTS}
    for name in ENTRY_POINTS:
        if name in assigned:
            node = assigned[name]  # `Mine`, `Mine(…)`, `Mine(…).explain` or `lambda model: Mine(model)`
            while isinstance(node, ast.Lambda | ast.Call | ast.Attribute):
                part = "body" if isinstance(node, ast.Lambda) else "func" if isinstance(node, ast.Call) else "value"
                node = getattr(node, part)
            return classes.get(node.id) if isinstance(node, ast.Name) else None
        if name in classes:
            return classes[name]
    return None


def list_assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
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


def make_parameter(default: Value) -> Parameter:
    """Return the parameter with this default; its values have the default's type."""
    about = f"the file sets it to {default!r}"
    if isinstance(default, bool):
        return Parameter(about, "True or False", {"true": True, "false": False}.get)
    if isinstance(default, str):
        expected = "1 to 100 letters, digits and . _ + -"
        return Parameter(about, expected, lambda text: text if _WORD.fullmatch(text) else None)
    kind = "whole number" if isinstance(default, int) else "number"
    expected = f"a {kind} from -{_MAX_MAGNITUDE:g} to {_MAX_MAGNITUDE:g}"
    return Parameter(about, expected, lambda text: _parse_number(text, default))


def _parse_number(text: str, default: int | float) -> int | float | None:
    pattern = _INTEGER if isinstance(default, int) else _FLOAT
    try:
        value = type(default)(text) if pattern.fullmatch(text) else math.nan
    except ValueError:  # for example "1.2.3"
        return None
    if not abs(value) <= _MAX_MAGNITUDE:
        return None
    # floats are rounded to the precision of names, unless they are the default; + 0.0 turns -0 into 0
    return value if isinstance(value, int) or value == default else float(f"{value:g}") + 0.0
