"""Releases: sdist and wheel, changelog, citation and site."""

import hashlib
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest
import release

ROOT = Path(__file__).parents[1]
# of https://www.apache.org/licenses/LICENSE-2.0.txt
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
DATA = (".parquet", ".png", ".safetensors", ".webp")


@pytest.mark.process
def test_wheel_has_every_file_of_packages(tmp_path):
    """Data files are built empty, because to pack their 90 MB twice takes nine seconds."""
    files, root = release.list_git_files(ROOT), tmp_path / "root"
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"" if Path(name).suffix in DATA else (ROOT / name).read_bytes())
    wheel = release.build_packages(root, files, tmp_path / "work", tmp_path / "dist")
    release.check_wheel_contents(wheel, files)
    assert {path.suffix for path in (tmp_path / "dist").iterdir()} == {".whl", ".gz"}
    with ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith("licenses/LICENSE"))
        assert hashlib.sha256(file.read(name)).hexdigest() == APACHE
    with pytest.raises(release.ReleaseError, match=r"the wheel lacks roarbench/forgotten\.csv; see package-data"):
        release.check_wheel_contents(wheel, [*files, "roarbench/forgotten.csv", "docs/of-no-package.csv"])
    with pytest.raises(release.ReleaseError, match=r"the wheel lacks results/networks/forgotten\.safetensors;"):
        release.check_wheel_contents(wheel, [*files, "results/networks/forgotten.safetensors", "results/README.md"])
    with pytest.raises(release.ReleaseError, match=r"git does not track, toy/linear\.py;"):
        release.check_wheel_contents(wheel, [name for name in files if name != "toy/linear.py"])


def write_versions(folder, citation, heading):
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (folder / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {citation}\n")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 0.0.9 - 2020-01-01\n")
    return folder


def test_tag_text_is_changelog_section_and_release_has_one_version_and_date(tmp_path):
    root = write_versions(tmp_path, "1.2.3\ndate-released: 2026-11-20", "1.2.3 - 2026-11-20\n\n### Added\n\n- A.")
    (tmp_path / "wheel").write_bytes(b"")
    empty = hashlib.sha256(b"").hexdigest()
    text = release.write_tag_text(root, "1.2.3", [tmp_path / "wheel"])
    assert text == f"roarbench 1.2.3, 2026-11-20\n\nAdded\n\n- A.\n\n{empty}  wheel\n"
    for citation, heading, said in (
        ("1.2.2", "1.2.3 - 2026-11-20", "CITATION.cff has version 1.2.2, pyproject.toml 1.2.3"),
        ("1.2.3", "Of old", "CHANGELOG.md has version 0.0.9, pyproject.toml 1.2.3"),
        ("1.2.3", "1.2.3 - Unreleased", "CHANGELOG.md says '1.2.3 - Unreleased'; write the date"),
        ("1.2.3", "1.2.3 - 2026-11-20", "CITATION.cff has date-released none, CHANGELOG.md 2026-11-20"),
        ("1.2.3\ndate-released: 2026-11-19", "1.2.3 - 2026-11-20", "CITATION.cff has date-released 2026-11-19"),
    ):
        root = write_versions(tmp_path, citation, heading)
        with pytest.raises(release.ReleaseError, match=re.escape(said)):
            release.write_tag_text(root, release.read_common_version(root), [])


@pytest.mark.slow
@pytest.mark.process
def test_site_build_has_all_commands_and_stops_at_broken_link(tmp_path):
    """The site is built from this checkout, in a separate folder."""
    (tmp_path / "zensical.toml").write_bytes((ROOT / "zensical.toml").read_bytes())
    pages = tmp_path / "build" / "pages"
    import_module("site_pages").stage_pages(pages)
    build = [Path(sys.executable).with_name("zensical"), "build", "--strict"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "build" / "site" / "index.html").read_text("utf-8")
    assert all(f"{name}.html" in page for name in ("how-it-works", "commands"))
    commands = (pages / "reference" / "commands.md").read_text("utf-8")
    assert "\n## validate\n" in commands
    with (pages / "LOG.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](docs/no-such-page.md)\n")
    assert subprocess.run(build, cwd=tmp_path, capture_output=True).returncode != 0
