"""Options that several commands or records share, and the decorator that makes commands of records."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from roarbench.api.suites import find_default_store
from roarbench.datasets.catalogue import DATASETS
from roarbench.enums import FILLS, Unit
from roarbench.estimators.catalogue import ESTIMATORS, split_names
from roarbench.plan.suites import SUITES


def complete_estimators(context: typer.Context, incomplete: str) -> list[str]:
    """Return the list with its last id completed, by ids of the named suite, then all; in parentheses by parameters."""
    *before, last = split_names(incomplete)
    suite = SUITES.get(context.params.get("suite") or "")
    known = tuple(dict.fromkeys((*(suite.estimators if suite else ()), *ESTIMATORS)))
    if "(" in last:
        known = tuple(f"{name}({key}=" for name in known if name in ESTIMATORS for key in ESTIMATORS[name].parameters)
    return [",".join([*before, name]) for name in known if name.startswith(last) and name not in before]


def declare_option(help: str, metavar: str = "", shown: str = "", flags: str = "", **more: Any) -> Any:
    """Declare an option: what its help says of it, of its value and of its default; flags that are not its name."""
    return typer.Option(*flags.split(), help=help, metavar=metavar or None, show_default=shown or True, **more)


def declare_argument(help: str, metavar: str = "", shown: str = "") -> Any:
    """Declare a word without a flag."""
    return typer.Argument(help=help, metavar=metavar or None, show_default=shown or True)


STORE = find_default_store()
_MOST_IMAGES = max(max(record.train_images, record.test_images) for record in DATASETS.values())
_MOST_WORKERS = 4096  # of any machine; `run` takes no more than this one can feed

TableFormat = Literal["text", "json", "csv", "markdown", "latex"]
ReportFormat = Literal["text", "json"]
Report = Annotated[ReportFormat, typer.Option()]
SuiteName = Annotated[
    str,
    declare_option(
        "A suite (`roarbench suites` lists them), or your own TOML file.", "NAME|FILE", autocompletion=lambda: [*SUITES]
    ),
]
StoreDir = Annotated[
    Path,
    declare_option(
        "Folder of images, references, rankings and results.", "DIR", "the user's data folder", envvar="ROARBENCH_STORE"
    ),
]
Db = Annotated[str, declare_option("Database of results; by default an SQLite file in the store.", "URL")]
Limit = Annotated[
    int | None,
    declare_option("Use only this many images of each split.", "N", flags="--max-images", min=1, max=_MOST_IMAGES),
]
Data = Annotated[Path | None, declare_option("Read images from this folder, in the hub's layout.", "DIR")]
Rows = Annotated[
    list[str] | None,
    declare_option("Only these, separated by commas.", "A,B", "all", autocompletion=complete_estimators),
]
Fill = Annotated[
    str,
    declare_option(
        "Replace removed features by this, such as linear (ROAD's) or black.",
        "NAME",
        "the suite's own",
        autocompletion=lambda: [*FILLS],
    ),
]
UnitName = Annotated[Unit | None, declare_option("Remove features of this kind.", shown="the suite's own")]
Trust = Annotated[
    bool,
    declare_option("Run submissions without the sandbox; their rows are never verified.", flags="--trust-submission"),
]
TrustNetwork = Annotated[
    str,
    declare_option(
        "Run the imported network file with this hash, with your rights.",
        "HASH",
        "only files that your own suites name",
    ),
]
Workers = Annotated[
    int | None,
    declare_option("Number of processes; by default one per GPU, else per core.", "N", min=1, max=_MOST_WORKERS),
]


def make_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as a command: for a parameter that is a record, the command has the record's fields as options.

    The options stand in the order of the parameters; where a record stands, in that of its fields.
    """
    given = signature(function).parameters
    records: dict[str, Any] = {name: each.annotation for name, each in given.items() if is_dataclass(each.annotation)}
    own = {name: signature(record).parameters for name, record in records.items()}
    options: list[Parameter] = []
    for name, each in given.items():
        options += own[name].values() if name in own else [each]
    parameters = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]

    @wraps(function)
    def called(**values: Any) -> None:
        made = {name: record(**{word: values.pop(word) for word in own[name]}) for name, record in records.items()}
        function(**values, **made)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
