"""Draw docs/architecture.svg: the packages in their layers, and the paths of one image and of one cell through them.

    python scripts/draw_architecture.py

The layers come from the import contract in pyproject.toml, the descriptions and paths from docs/architecture.md.
"""

import argparse
import re
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PAGE, OUT = ROOT / "docs" / "architecture.md", ROOT / "docs" / "architecture.svg"
_BOXES, _PANEL, _STEP = 540, 306, 24  # widths in pixels: package boxes, a path's panel, a step
# heights in pixels: a layer, the gap between layers, the margin, the headings
_LINE, _GAP, _MARGIN, _TOP = 50, 6, 16, 34
_INK, _FAINT, _ROOM, _BAND = "#1f2430", "#5b6475", "#ffffff", "#eef1f6"
_COLOURS = {"image": "#0b6e4f", "cell": "#7a28d0"}
_LETTER = 6.4  # average width of a small letter, pixels


def read_packages() -> dict[str, str]:
    """Read the description of each package, by full name, in the order of the page."""
    return dict(re.findall(r"^\| `([\w.]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))


def read_path_steps(subject: str) -> list[tuple[str, str]]:
    """Read the steps of one image or one cell from the page: the module, and a description of the step."""
    section = PAGE.read_text().partition(f"## The path of one {subject}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w.]+)`: (.+)$", section, re.MULTILINE)


def read_layers() -> list[list[str]]:
    """Read the full names of the packages of each layer, top layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (own,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["roarbench"])
    inner = [[f"roarbench.{package}" for package in re.findall(r"\w+", layer)] for layer in own]
    return [inner[0], ["leaderboard"], ["toy"], *inner[1:]]


def draw_svg() -> str:
    width = 2 * _MARGIN + _BOXES + 2 * _PANEL
    height = _TOP + len(read_layers()) * (_LINE + _GAP) + _MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans, sans-serif" role="img">',
        "<title>Layers of the source, with the path of one image and of one cell through them</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, layer in enumerate(read_layers()):
        lines += _draw_layer(layer, _TOP + number * (_LINE + _GAP), width)
    for number, subject in enumerate(_COLOURS):
        lines += _draw_path(subject, _MARGIN + _BOXES + number * _PANEL)
    return "\n".join([*lines, "</svg>", ""])


def _draw_layer(layer: list[str], top: int, width: int) -> list[str]:
    """Draw a band over the whole width, with the boxes of the layer's packages on the left."""
    band = f'<rect x="{_MARGIN}" y="{top}" width="{width - 2 * _MARGIN}" height="{_LINE}" rx="5" fill="{_BAND}"/>'
    box = (_BOXES - 4 - _GAP * (len(layer) - 1)) / len(layer)
    boxes = [_draw_package(name, _MARGIN + number * (box + _GAP), top, box) for number, name in enumerate(layer)]
    return [band, *(line for lines in boxes for line in lines)]


def _draw_package(package: str, left: float, top: int, width: float) -> list[str]:
    name, lines = package.removeprefix("roarbench."), wrap(read_packages()[package], int((width - 16) / _LETTER))
    frame = f'x="{left:.0f}" y="{top}" width="{width:.0f}" height="{_LINE}" rx="5" fill="{_ROOM}" stroke="#9aa3b2"'
    first = top + (19 if len(lines) < 2 else 16)
    return [
        f"<rect {frame}/>",
        _draw_text(left + 8, first, name, 13, 'font-weight="bold"'),
        *(_draw_text(left + 8, first + 15 + 13 * number, line, 11) for number, line in enumerate(lines)),
    ]


def _draw_path(subject: str, left: int) -> list[str]:
    """Draw a path: a numbered dot for each step in the layer of its module, from left to right, joined by a line."""
    levels = {package: number for number, layer in enumerate(read_layers()) for package in layer}
    colour, points, dots = _COLOURS[subject], [], []
    for number, (module, description) in enumerate(read_path_steps(subject)):
        x, level = left + 22 + number * _STEP, levels[".".join(module.split(".")[:2])]
        y = _TOP + level * (_LINE + _GAP) + _LINE // 2
        points.append(f"{x},{y}")
        title = f"<title>{escape(f'{module}: {description}')}</title>"
        dots += [
            f'<circle cx="{x}" cy="{y}" r="11" fill="{colour}">{title}</circle>',
            _draw_text(x, y + 4, str(number + 1), 11, 'font-weight="bold" fill="#ffffff" text-anchor="middle"'),
        ]
    return [
        _draw_text(left + 11, 22, f"the path of one {subject}", 13, f'font-weight="bold" fill="{colour}"'),
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2" stroke-opacity="0.5"/>',
        *dots,
    ]


def _draw_text(x: float, y: float, text: str, size: int, style: str = f'fill="{_FAINT}"') -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" {style}>{escape(text)}</text>'


def main() -> None:
    description = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-o", "--output", type=Path, default=OUT, help="file to write (default: %(default)s)")
    parser.parse_args().output.write_text(draw_svg())


if __name__ == "__main__":
    main()
