"""The site builds without a broken link, has every page of its menu, and stops at a link that is broken."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A site of this checkout, in a folder of its own."""
    site = import_module("site_pages")
    folder = tmp_path_factory.mktemp("site")
    (folder / "zensical.toml").write_text((ROOT / "zensical.toml").read_text("utf-8"), "utf-8")
    site.stage(folder / "build" / "pages")
    return folder


def build(folder):
    return subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"], cwd=folder, capture_output=True, text=True
    )


def test_the_site_builds_and_has_its_menu_and_every_command(built):
    done = build(built)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (built / "build" / "site" / "index.html").read_text("utf-8")
    assert all(f"{name}.html" in page for name in ("how-it-works", "own-data", "commands", "protocols"))
    commands = (built / "build" / "pages" / "reference" / "commands.md").read_text("utf-8")
    assert all(f"\n## {name}\n" in commands for name in ("run", "table", "validate", "leaderboard"))


def test_a_broken_link_stops_the_build(built):
    with (built / "build" / "pages" / "LOG.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](docs/no-such-page.md)\n")
    assert build(built).returncode != 0
