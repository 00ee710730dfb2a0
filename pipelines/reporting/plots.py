"""Plots as SVG that stands in the page: no script, no request, colours that follow the page's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Number = float | int | None
COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)")
_LABELS = 6


def lines(
    labels: Sequence[str],
    series: Mapping[str, Sequence[Number]],
    *,
    unit: Callable[[Any], str] | None = None,
) -> str:
    """A line for each series over the same labels; `unit` writes the numbers of the axis."""
    return _svg(_pygal().Line, labels, series, dots_size=2, value_formatter=unit or short)


def bars(labels: Sequence[str], series: Mapping[str, Sequence[Number]]) -> str:
    """Stacked bars, with a colour for each series."""
    return _svg(_pygal().StackedBar, labels, series, value_formatter=short)


def _pygal() -> Any:
    """The library, without the finder of plugins that it adds to all of Python's imports: the
    finder lacks what Python 3.12 requires, and no plugins are used here."""
    import pygal

    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]
    return pygal


def _svg(
    kind: Any, labels: Sequence[str], series: Mapping[str, Sequence[Number]], **options: Any
) -> str:
    style = _pygal().style.Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--ink)",
        foreground_strong="var(--ink)",
        foreground_subtle="var(--faint)",
        guide_stroke_color="var(--line)",
        major_guide_stroke_color="var(--line)",
        colors=COLOURS,
        opacity=".9",
        font_family="inherit",
        label_font_size=12,
        major_label_font_size=12,
        legend_font_size=13,
        stroke_width="2",
    )
    chart = kind(
        style=style,
        js=[],
        width=640,
        height=260,
        margin=8,
        margin_right=36,
        spacing=6,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(series),
        truncate_label=-1,
        truncate_legend=-1,
        max_scale=6,
        show_minor_x_labels=False,
        disable_xml_declaration=True,
        **options,
    )
    every = max(1, -(-len(labels) // _LABELS))
    chart.x_labels = list(labels)
    chart.x_labels_major = list(labels[::every])
    for name, values in series.items():
        chart.add(name, list(values))
    return _still(chart.render_tree())


def _still(tree: Any) -> str:
    """The SVG as text, without scripts and comments. The texts that pygal writes for its script, to
    be shown under the pointer, become titles, which browsers show by themselves."""
    from xml.etree import ElementTree

    for parent in list(tree.iter()):
        noted = {}
        for child in list(parent):
            name = "" if child.tag is ElementTree.Comment else str(child.tag).rpartition("}")[2]
            if name == "desc":
                noted[child.get("class")] = child.text
            # The title of the whole is the library's name, which would be shown wherever one
            # points.
            if name in ("", "desc", "script") or (parent is tree and name == "title"):
                parent.remove(child)
        if "value" in noted:
            title = ElementTree.SubElement(parent, "title")
            title.text = f"{noted.get('x_label') or ''}: {noted['value']}".removeprefix(": ")
        if parent is not tree:
            # It is the same in every plot of a page.
            parent.attrib.pop("id", None)
    return ElementTree.tostring(tree, encoding="unicode")


def short(value: Any) -> str:
    """A number as on an axis: 1.5k, 2M."""
    if value is None:
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
