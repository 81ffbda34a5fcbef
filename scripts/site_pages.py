"""Build the documentation site from all pages of the repository and reference pages generated from the code.

    python scripts/site_pages.py            # writes build/site; stops at a broken link

The pages keep their paths, so that the same links work in the repository and on the site.
"""

import argparse
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from release import list_git_files

import roarbench
from roarbench.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "pages"
_NOTEBOOK = re.compile(r"\]\(([^)#:]+)\.ipynb\)")
# pandas' style and border, which the site replaces
_FRAME = re.compile(r'<style.*?</style>| border="1" class="dataframe"', re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:]+)")


def main() -> int:
    """Write the pages to `PAGES`, build the site, and return the exit code of Zensical."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    stage_pages(PAGES)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}).returncode


def stage_pages(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for path in list_pages_and_linked_files():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            copy.with_suffix(".md").write_text(convert_notebook(path), "utf-8")
        elif path.suffix == ".md":
            copy.write_text(_NOTEBOOK.sub("](\\1.md)", path.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(path, copy)
    pages = {
        "reference/commands.md": make_commands_page(),
        "reference/python.md": make_python_page(),
        "docs/decisions/README.md": make_index_page("docs/decisions", "Decisions"),
        "studies/README.md": make_index_page("studies", "Studies"),
    }
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def list_pages_and_linked_files() -> list[Path]:
    pages = [ROOT / name for name in list_git_files(ROOT, "*.md") if not name.startswith("tests/")]
    linked = ((page.parent / target).resolve() for page in pages for target in _LINK.findall(page.read_text("utf-8")))
    return sorted({*pages, *(path for path in linked if path.is_file() and path.is_relative_to(ROOT))})


def convert_notebook(path: Path) -> str:
    """Convert a notebook to Markdown: its cells, each with its stored results."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for result in (output for output in cell.get("outputs", ()) if output["output_type"] == "execute_result"):
            data = {kind: "".join(lines).strip() for kind, lines in result["data"].items()}
            if "image/png" in data:
                parts.append(f"![picture](data:image/png;base64,{data['image/png']})")
                continue
            html = _FRAME.sub("", data.get("text/html", ""))
            parts.append(f"<div>{html}</div>" if html else f"```text\n{data['text/plain']}\n```")
    return "\n\n".join([*parts, ""])


def make_index_page(folder: str, title: str) -> str:
    pages = sorted(path for path in (ROOT / folder).rglob("*.md") if path.parent != ROOT / folder or title != "Studies")
    lines = (
        f"- [{path.read_text('utf-8').splitlines()[0].lstrip('# ')}]({path.relative_to(ROOT / folder)})"
        for path in pages
    )
    return "\n".join([f"# {title}\n", *lines, ""])


def make_commands_page() -> str:
    parts = ["# Commands\n\nExit codes: 0 success, 1 a run failed, 2 wrong input.\n"]
    for name, command in app.commands.items():
        rows = [f"| `{', '.join(one.opts)}` | {format_table_cell(one.help)} |" for one in command.params if one.help]
        table = ["| option | |", "|---|---|", *rows, ""] if rows else []
        parts += [f"## {name}\n", f"{command.help}\n", *table, f"{command.epilog}\n"]
    return "\n".join(parts)


def make_python_page() -> str:
    """Return a page with the signature and docstring of each public name of `roarbench`."""
    parts = ["# Python\n", f"{inspect.getdoc(roarbench)}\n"]
    for name in roarbench.__all__:
        item = getattr(roarbench, name)
        parts.append(f"## {name}\n\n    {name}{inspect.signature(item)}\n\n{inspect.getdoc(item)}\n")
    return "\n".join(parts)


def format_table_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
