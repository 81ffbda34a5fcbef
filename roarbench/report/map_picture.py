"""Draw maps beside the images that they explain, for `roarbench validate`."""

from pathlib import Path

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from roarbench.common.errors import CallerError
from roarbench.common.files import is_picture_of
from roarbench.common.text import fit_on_one_line
from roarbench.compute.ranking import draw_tie_order, rank
from roarbench.report.curve_panels import COLOURS, FONT_POINTS, INK, TITLE_POINTS, save_figure, use_own_settings

_COLUMNS = 4  # images drawn
_REMOVED = 0.1  # fraction of pixels marked as most important
_MARK = {"Software": "roarbench validate"}  # metadata of these pictures; other files are never overwritten
_WIDTH, _HEIGHT = 6.6, 5.35  # inches
_ROWS = ("test image", "map", f"removed first:\n{_REMOVED:.0%} of pixels")


def write_map_picture(title: str, images: NDArray[np.floating], importance: NDArray[np.floating], path: Path) -> None:
    """Draw some images and their maps into a PNG file.

    Args:
        title: Name of the estimator.
        images: Float (n, c, h, w), in any scale, c = 1 or 3.
        importance: Float (n, h, w); larger values mean more important pixels.
        path: The file, which may be an earlier picture.

    Raises:
        CallerError: The path belongs to a file of another origin.
        StoreError: The file cannot be written.
    """
    if path.exists() and not is_picture_of(path, _MARK["Software"]):
        raise CallerError(f"{path} already exists and is no picture of `roarbench validate`; move or rename it")
    save_figure(draw_maps(title, images, importance), path, _MARK)


@use_own_settings()
def draw_maps(title: str, images: NDArray[np.floating], importance: NDArray[np.floating]) -> Figure:
    """Draw a column for each of the first images: the image, its map, and its most important pixels."""
    shown = min(_COLUMNS, len(images))
    removed = mark_removed(importance[:shown])
    figure = Figure(figsize=(_WIDTH, _HEIGHT))
    panels = figure.subplots(3, shown, squeeze=False)
    figure.subplots_adjust(left=0.17, right=0.985, top=0.915, bottom=0.15, wspace=0.06, hspace=0.06)
    figure.suptitle(
        fit_on_one_line(title, 70), x=0.17, y=0.97, ha="left", fontsize=TITLE_POINTS, color=INK, parse_math=False
    )
    for column in range(shown):
        picture, values = _scale_to_unit(images[column]).transpose(1, 2, 0), _scale_to_unit(importance[column])
        grey = picture.mean(2)
        panels[0][column].imshow(picture if picture.shape[2] == 3 else grey, cmap="gray", vmin=0, vmax=1)
        drawn = panels[1][column].imshow(values, cmap="cividis", vmin=0, vmax=1)
        panels[2][column].imshow(0.35 + 0.65 * grey, cmap="gray", vmin=0, vmax=1)
        panels[2][column].imshow(
            np.ma.masked_equal(removed[column], False), cmap=ListedColormap([COLOURS[5]]), interpolation="nearest"
        )
    for name, row in zip(_ROWS, panels, strict=True):
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8, fontsize=FONT_POINTS + 0.5, color=INK)
        for axes in row:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_color("#bbbbbb")
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.37, 0.105, 0.415, 0.022)), orientation="horizontal", ticks=[])
    bar.outline.set_visible(False)
    ends = (("least important", 0.36, "right"), ("most important", 0.795, "left"))
    for text, x, side in ends:
        figure.text(x, 0.116, text, ha=side, va="center", fontsize=FONT_POINTS, color=INK)
    note = (
        "Each map has its own scale. The images are synthetic and the network's weights random,\n"
        "so a good map need not show the disc."
    )
    figure.text(0.17, 0.015, note, fontsize=FONT_POINTS, color="#555555")
    return figure


def mark_removed(importance: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Mark a tenth of each map's pixels, (n, h, w), in the order in which a run removes them."""
    flat = importance.reshape(len(importance), -1).astype(np.float32)
    first = rank(flat, draw_tie_order(np.arange(len(flat)), flat.shape[1]))[:, : round(_REMOVED * flat.shape[1])]
    marked = np.zeros(flat.shape, bool)
    np.put_along_axis(marked, first, True, axis=1)
    return marked.reshape(importance.shape)


def _scale_to_unit(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Scale values to [0, 1]; equal values become 0."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
