"""LaTeX tables: text stays text, and LaTeX takes them."""

import shutil
import subprocess

import pytest

from roarbench.report.latex import escaped, latex_table

HOSTILE = r"50%_\input{x}$&#~^<a|b> -- – `` 'q' ↓"


def test_letters_that_mean_something_to_latex_are_escaped():
    assert escaped(r"50%_\input{x}$&#~^") == (
        r"50\%\_\textbackslash{}input\{x\}\$\&\#\textasciitilde{}\textasciicircum{}"
    )
    assert escaped("<a|b>") == r"\textless{}a\textbar{}b\textgreater{}"
    assert escaped("--limit – 3") == "-{}-limit -- 3"


def test_numbers_have_a_minus_and_names_their_hyphens():
    made = latex_table({"a": "l"}, [["x-2@1a-3 4-6 -1.5 [-2.0, +3]"]], "").splitlines()
    (line,) = [line for line in made if line.startswith("x-2")]
    assert line == r"x-2@1a-3 4-6 $-1.5$ [$-2.0$, $+3$] \\"


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX here")
def test_latex_takes_it(tmp_path):
    table = latex_table({"a": "r", HOSTILE: "l"}, [["-1.0", HOSTILE], ["–", "b"]], f"{HOSTILE} `--store 'x_y'`.")
    page = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{table}\end{{document}}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    assert made.returncode == 0, made.stdout[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 1000
