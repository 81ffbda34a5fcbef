"""Tables for LaTeX with the `booktabs` package."""

import re
from collections.abc import Iterable, Mapping

_LETTERS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "≈": r"$\approx$",
    "Δ": r"$\Delta$",
    "†": r"\textdagger{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
_SIGNED = re.compile(r"(?<![\w.-])[+-]\d+(\.\d+)?")  # a number with its sign, not the end of a name or of 2-4
_COMMAND = re.compile(r"`([^`]*)`")


def format_latex_table(headings: Mapping[str, str], lines: Iterable[Iterable[str]], caption: str) -> str:
    """Return a `table` with top, middle and bottom rules; each heading comes with `l` or `r`, the side it keeps to.

    Text is plain, but what stands between backticks in the caption is set as code.
    """
    rows = [" & ".join(_numbers(escape(cell)) for cell in line) + r" \\" for line in (headings, *lines)]
    words = _COMMAND.sub(r"\\texttt{\1}", escape(caption))
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{''.join(headings.values())}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{words}}}",
            r"\end{table}",
        ]
    )


def escape(text: str) -> str:
    """Return text that LaTeX sets as it is written."""
    apart = text.replace("--", "-\0-")  # two hyphens of an option are no dash
    return "".join(_LETTERS.get(letter, letter) for letter in apart).replace("\0", "{}")


def _numbers(cell: str) -> str:
    """Set signed numbers as mathematics: a hyphen is shorter than a minus."""
    return _SIGNED.sub(r"$\g<0>$", cell)
