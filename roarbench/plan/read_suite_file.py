"""Read a user's suite from a TOML file (docs/own-data.md). Nothing here imports torch.

Reading a suite does not execute the Python file that defines its network. Before commands that compute for hours,
`execution.network_trials` executes that file, builds the network and tries it.
"""

import re
from pathlib import Path

from roarbench.common.errors import CallerError, make_missing_suite_file_error
from roarbench.plan.data_section import read_data_section
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_record import set_content_version
from roarbench.plan.suite_sections import read_suite_sections
from roarbench.plan.suites import SUITES
from roarbench.plan.toml_table import parse_toml

_LONGEST = 40  # maximum characters of a name
NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{_LONGEST - 1}}}")


def read_suite(path: Path) -> SuiteSpec:
    """Read a suite's file; raise CallerError, which names the file and its section, if the file is invalid."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # editors on Windows put a byte order mark first
    except FileNotFoundError:
        raise make_missing_suite_file_error(path, "`roarbench new-suite FOLDER` writes one") from None
    except OSError as error:
        raise CallerError(f"cannot read {path}: {error.strerror}; `roarbench new-suite FOLDER` writes one") from None
    except UnicodeDecodeError as error:
        raise CallerError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    return parse_suite(text, path)


def parse_suite(text: str, path: Path) -> SuiteSpec:
    """Parse the text of the suite's file at this path; raise CallerError if it is invalid."""
    top = parse_toml(text, path)
    name = top.read_text("name")
    if not NAME.fullmatch(name):
        seen = f"name is '{name}', expected 1 to 40 lowercase letters, digits, hyphens"
        raise top.make_error(f'{seen}; write name = "{make_suite_name(name)}"')
    if name in SUITES:
        raise top.make_error(f"name is '{name}', which is a suite of roarbench; write another name")
    if "version" in top:
        raise top.make_error("has a version, which only roarbench's own suites have; leave it out")
    dataset = read_data_section(top.read_section("data"), path.parent, name)
    suite = read_suite_sections(top, dataset, path.parent)
    with top.add_location_to_errors():
        return set_content_version(suite)


def make_suite_name(text: str) -> str:
    """Return a valid suite name that resembles a string."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "mine"
