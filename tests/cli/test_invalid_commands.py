"""Messages of invalid commands; each prints one line and changes no file."""

import shlex
from pathlib import Path

import pytest

from tests.helpers.command_line import SMALL, read_files, read_refusal

AT = " ".join(SMALL)
RUN = "roarbench run --suite planted --store none --max-images 8"
NO_STORE = f"no results store at none/results.sqlite; `{RUN}` creates one"
BAD = [  # commands as they are typed, with a part of the message
    (f"run {AT} --protocol ROAR", "no protocol 'ROAR'; did you mean 'roar'? known: kar, lerf"),
    (f"table {AT} --protocol augmented", "protocol 'augmented' was removed; its stored rows are kept, and commit"),
    ("table --suite quick-full@1", "suite 'quick-full@1' was removed; its stored rows are kept, and commit 33fdbc1c"),
    ("run --suite folder/mine", "there is no file 'folder/mine'; `roarbench new-suite` writes one"),
    (f"run {AT} --estimators grda", "no estimator 'grda'; did you mean 'grad'? (list: roarbench estimators)"),
    ("run --suite planted --max-images 2001", "--max-images 2001 is more than the 2,000 images of the larger split of"),
    (f"run {AT} --workers 4096", "--workers is 4096, expected 1 to "),
    (f"run {AT} --seeds 1001", "Invalid value for '--seeds': 1001 is not in the range 1<=x<=1000. (roarbench run"),
    (
        f"run {AT} --max-images x",
        "Invalid value for '--max-images': 'x' is not a valid integer. (roarbench run --help)",
    ),
    (f"table {AT} --unit voxel", "Invalid value for '--unit': 'voxel' is not one of 'scalar', 'pixel'."),
    (f"table {AT} --formt json", "No such option '--formt'. Did you mean '--format'? (roarbench table --help)"),
    (f"run {AT} --address auto", "--address names a Ray cluster; add --engine ray"),
    (f"run {AT} --reference ''", "the value after --reference is empty; write a value, or leave the option"),
    (f"table {AT} --store \udcff", "'?' is not valid utf-8; rename the file"),
    (f"run {AT} --reference 'two\nlines\x1b[2J'", "--reference two lines [2J is not a file"),
    (f"run {AT} --data .", "planted is generated and not read from files; leave --data out"),
    ("plan --suite imagenette64 --data .", "expected parquet files in the layout of"),
    (f"table {AT} --protocol morf", "suite 'planted' has no morf with unit scalar; it has: roar (scalar)"),
    (f"table {AT} --estimators ' , '", "--estimators ' , ' has no ids; write ids separated by commas"),
    ("table --suite cifar10 --protocol kar --estimators ig~blurred", "has no kar results of ig~blurred"),
    (f"table {AT} --db junk", "the database URL cannot be read; write sqlite:///PATH or postgresql://"),
    (
        f"table {AT} --db mysql://me:secret@host/name",
        "databases of type 'mysql' are not supported; write sqlite:///PATH",
    ),
    (f"table {AT} --store {'x' * 5000}", f"{'x' * 100}"),
    ("compare grad random", "Missing option '--suite'. (roarbench compare --help)"),
    (f"tabel {AT}", "No such command 'tabel'. Did you mean 'table'? (roarbench --help)"),
    (f"runs grad {AT}", "grad is looked up in all suites; leave out --suite planted, or grad to list all runs"),
    ("runs", "write the KEY of a run, or --suite NAME to list the runs of a suite"),
    ("runs 1a --estimators grad", "--estimators grad needs --suite; leave out 1a, or this option"),
    (f"runs {AT} --archive bad", "--archive takes a reason, in a few words, and the run or row: `runs KEY --archive"),
    (f"plot {AT} -o x.gif", "cannot draw 'x.gif': a picture is .png, .svg or .pdf; write x.png"),
    (f"plot {AT} -o /nowhere/x.png", "cannot write /nowhere/x.png: there is no folder /nowhere; create"),
    ("export x.xlsx", "cannot write 'x.xlsx': an export is .parquet, which `roarbench import` reads; write x.parquet"),
    (f"retry {AT} --store none", NO_STORE),
    ("table --suite photos --store none", "no built-in suite 'photos', and no results store at none/results.sqlite"),
    ("table --suite quikc --store none", "no suite 'quikc'; did you mean 'quick'? (list: roarbench suites)"),
    ("runs truth --archive bad --store none", "no results store at none/results.sqlite; `roarbench "),
    (
        f"status {AT} --store {__file__}",
        "test_invalid_commands.py is a file; --store names a folder, --db sqlite:///FILE a",
    ),
    ("import none.parquet --store none", "there is no none.parquet; name a file of `roarbench export`, or a"),
    (
        "submit grad --suite planted --results none --about me",
        "no runs of grad in planted v1 on all images, and those of --max-images cannot be submitted; `roarbench run --",
    ),
    ("results check none", "there is no none/index.json; name a folder of published results, such as results"),
    (f"results check {__file__}", "test_invalid_commands.py is a file; name a folder of published results"),
]


@pytest.fixture(scope="module")
def unchanged(made):
    """Yield the finished store, and check that the tests have not changed it."""
    before = read_files(made)
    yield made
    assert read_files(made) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.tml", "there is no file 'a.tml'; `roarbench new-suite` writes one, `roarbench suites` lists all suites"),
        ("note.toml", "there is no file 'note.toml'; `roarbench new-suite FOLDER` writes one"),
        ("note.txt", "'note.txt' is not a suite; the name of a suite file ends in .toml"),
    ],
)
def test_suite_option_reads_file_names_as_paths(call, tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    Path("note.txt").touch()
    assert call("plan", "--suite", name) == (2, "", f"roarbench: {message}\n")


@pytest.mark.parametrize("asked, message", BAD, ids=[asked[:90] for asked, _ in BAD])
def test_invalid_command_prints_one_line_without_changes(call, unchanged, asked, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROARBENCH_STORE", str(unchanged))
    line = read_refusal(call, *shlex.split(asked))
    assert line.startswith("roarbench: ") and message in line
    assert len(line.splitlines()) == 1 and len(line) <= 1000 and "secret" not in line
    assert list(tmp_path.iterdir()) == []
