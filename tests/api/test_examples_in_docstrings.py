"""The examples in the docstrings of public functions run, on data of a few images."""

import doctest
import inspect
from pathlib import Path

import pytest

import roarbench as rb

WITH_EXAMPLES = {
    **{name: getattr(rb, name) for name in rb.__all__ if inspect.isfunction(getattr(rb, name))},
    "Preprocessing": rb.Preprocessing,
    "Suite.from_arrays": rb.Suite.from_arrays,
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_public_functions_run(name, inline, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path / "default"))
    described = inspect.unwrap(WITH_EXAMPLES[name])
    module = inspect.getmodule(described)
    examples = doctest.DocTestFinder(recurse=False).find(described, name, module)
    assert sum(len(example.examples) for example in examples) > 1, "no section Examples"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed = sum(runner.run(example, clear_globs=False).failed for example in examples)
    assert not failed, capsys.readouterr().out


def test_every_section_of_examples_is_run():
    sources = (path.read_text("utf-8") for path in Path(rb.__file__).parent.rglob("*.py"))
    assert sum(source.count(" Examples:\n") for source in sources) == len(WITH_EXAMPLES)
