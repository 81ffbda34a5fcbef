"""Every command line in README and docs is read by the program, and runs if it needs no file and no time of the reader.

A command line stands in a code block or between backquotes. Capitals, `my-…`, dots and files of a reader's own mark an
example: it only has to parse.
"""

import re
import shlex

import pytest
from click.exceptions import MissingParameter, NoArgsIsHelpError

from roarbench.cli.main import app
from tests.helpers.processes import ROOT

PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "submissions/README.md", "results/README.md")
COMMANDS = app.commands
READING = {"table", "compare", "diagnose", "status", "runs", "claims", "suites", "estimators"}
PUBLISHED = {"quick", "quick@6", "quick-matched"}
EXAMPLE = re.compile(r"[A-Z]{3,}|\bNAME\b|\bDIR\b|\bKEY\b|my[-_.]|…|1a2b3c4d")


def list_documented_commands():
    """Return a dict from command lines to the pages that have them; comments and later commands of a line are cut."""
    pages = [*(ROOT / page for page in PAGES), *ROOT.glob("docs/*.md"), *ROOT.glob("studies/*/*.md")]
    found = {}
    for page in pages:
        for text in re.findall(r"(?m)^    (roarbench .*)|`(roarbench [^`]*)`", page.read_text("utf-8")):
            line = re.split(r" {2,}|; | > | # ", "".join(text))[0].strip()
            found.setdefault(line, page.relative_to(ROOT))
    epilogs = [re.findall("`(.*?)`", command.epilog or "") for command in COMMANDS.values()]
    return found | {example: "--help" for examples in epilogs for example in examples}


DOCUMENTED = list_documented_commands()


def parse(line):
    """Return a command's name and options; raise a click exception if the program does not take the line."""
    words = shlex.split(line)[1:]
    if words[0].startswith("--"):
        return "", {}
    command = COMMANDS[words.pop(0)]
    while hasattr(command, "commands") and words:
        command = command.commands[words.pop(0)]
    try:
        return command.name, command.make_context(command.name, words).params
    except (MissingParameter, NoArgsIsHelpError):  # part of a command, within a sentence
        return command.name, command.make_context(command.name, words, resilient_parsing=True).params


@pytest.mark.parametrize("line", sorted(DOCUMENTED))
def test_documented_command_line_is_accepted(line):
    name, _ = parse(line)
    assert name in COMMANDS or name in {"", "check", "comment"}, DOCUMENTED[line]


def is_run(line):
    """Return whether a command line reads published results, and nothing in it stands for a value of the reader."""
    name, options = parse(line)
    has_suite = options.get("suite") in PUBLISHED or name in {"suites", "estimators"} and not EXAMPLE.search(line)
    unread = options.get("fill") or options.get("reference") or ".toml" in line
    return name in READING and has_suite and not EXAMPLE.search(line) and not unread


RUN = sorted({re.sub(" --store \\S+", "", line) for line in DOCUMENTED if is_run(line)})


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    from tests.helpers.command_line import command

    folder = tmp_path_factory.mktemp("published")
    for path in ("quick/8", "quick/6", "quick-matched/3"):
        assert command("import", ROOT / "results" / path / "roarbench.parquet", "--store", folder) == 0
    return folder


@pytest.mark.slow
def test_documented_commands_on_published_results_run(published, call):
    assert len(RUN) > 12
    for line in RUN:
        words = shlex.split(line)[1:]
        stored = () if words[0] in {"suites", "estimators"} else ("--store", published)
        answer = call(*words, *stored)
        assert answer.code == 0, f"{line} ({DOCUMENTED.get(line)}): {answer.err}"


def test_every_published_file_of_results_can_be_opened():
    """Files of studies, too, of which one had an old schema of the database, and two a removed protocol."""
    from roarbench.store.export_and_import import ExportedFile

    assert [*ROOT.glob("studies/**/*.sqlite")] == []
    files = sorted(ROOT.glob("studies/**/*.parquet"))
    # rows of estimators that only an older version has, which the study's page names
    older = {
        ROOT / "studies" / "protocols" / f"{name}.parquet" for name in ("planted", "quick-class", "quick-exchanged")
    }
    assert "`adf7a12d`" in (ROOT / "studies" / "protocols" / "README.md").read_text() and older < {*files}
    for path in sorted({*files} - older):
        assert next(iter(ExportedFile(path).read_results())).total > 0, path
