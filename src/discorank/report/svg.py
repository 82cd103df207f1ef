"""A figure as SVG inside a page: no styles, no unused names, and colours that the page's stylesheet decides.

Figures are drawn in stand-in colours (`COLOURS`); each becomes ``var(--plot-NAME)``, so that one figure is readable on
a light and on a dark page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from warnings import catch_warnings, filterwarnings
from xml.etree import ElementTree

from ..metrics.optional_packages import imported


def template_package() -> Any:
    """jinja2; raises ModelLoadError where it is missing."""
    return imported("jinja2", "report")


def plot_package() -> Any:
    """matplotlib with its figures, without a screen; raises ModelLoadError where it is missing."""
    for part in ("colors", "figure", "ticker"):
        imported(f"matplotlib.{part}", "report")
    return imported("matplotlib", "report")


FONT_POINTS = 10.0  # of all text: 11 px where a figure is narrowest
NARROW_POINTS = 318.0  # the width of a figure that any page has room for
MIN_SCALE = 1.11  # pixels per point
GRADES = tuple(f"{side}{n}" for side in ("better", "worse") for n in (1, 2, 3))
NAMES = ("ink", "muted", "grid", "mark", "span", "soft", "neutral", "own", "name", *GRADES)
# a colour of its own for every name, #010010 and on
COLOURS: Mapping[str, str] = {name: f"#0100{n + 16:02x}" for n, name in enumerate(NAMES)}
_STAND_INS = {colour: f"var(--plot-{name})" for name, colour in COLOURS.items()}
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a $ in a name is a $
    "axes.unicode_minus": True,
    "font.size": FONT_POINTS,
    "axes.titlesize": FONT_POINTS,
    "axes.labelsize": FONT_POINTS,
    "xtick.labelsize": FONT_POINTS,
    "ytick.labelsize": FONT_POINTS,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["muted"],
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
}
_UNNAMED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DECIMALS = re.compile(r"(-?\d+\.\d\d)\d+")
_REFERENCE = re.compile(r"#([A-Za-z][\w.-]*)")
_DROPPED = frozenset({"font-family", "font"})


@contextmanager
def drawing(name: str) -> Iterator[Any]:
    """matplotlib with the settings of a figure whose names inside the SVG derive from `name`."""
    package = plot_package()
    with package.rc_context(), catch_warnings():
        package.rcdefaults()  # whatever the user's own settings are
        package.rcParams.update({**_SETTINGS, "svg.hashsalt": name})
        filterwarnings("ignore", message=r"(?s).*[Gg]lyph")  # the page's reader has other fonts
        yield package


def label(text: str, longest: int = 26) -> str:
    """A name as it can stand in a figure: one line, no control characters, not too long.

    >>> label("a\\nb"), label("a" * 40)
    ('a b', 'aaaaaaaaaaaaaaaaaaaaaaaaa…')
    """
    plain = _UNNAMED.sub(" ", text)
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def inline(figure: Any, about: str) -> str:
    """The SVG element of a figure; `about` is read out in its place."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())  # noqa: S314  written one line above
    references: set[str] = set()
    for element in root.iter():
        for value in element.attrib.values():
            references.update(_REFERENCE.findall(value))
    for element in list(root.iter()):
        for child in list(element):
            if child.tag.endswith(("metadata", "style")):
                element.remove(child)
        _clean(element, references)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    points_wide = 72 * figure.get_figwidth()
    if points_wide > NARROW_POINTS:
        # shrunk to the page its text would be too small: it keeps its size, and scrolls
        root.attrib["width"] = f"{MIN_SCALE * points_wide:.0f}"
    root.attrib.update({"role": "img", "aria-label": _UNNAMED.sub(" ", about)})
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, references: set[str]) -> None:
    """One element without namespaces and unused names, with attributes for its style."""
    element.tag = element.tag.rpartition("}")[2]
    attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    style = attributes.pop("style", "")
    if attributes.get("id") not in references:
        attributes.pop("id", None)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    element.attrib.clear()
    for name, value in attributes.items():
        element.attrib[name] = value if name == "id" else _short(value)
    element.attrib.update(_style_attributes(style))


def _style_attributes(style: str) -> dict[str, str]:
    """The declarations of a style as attributes, stand-in colours replaced by variables of the page."""
    attributes = {}
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip(), value.strip()
        if name and name not in _DROPPED:
            attributes[name] = _STAND_INS.get(value, value)
    return attributes


def _short(value: str) -> str:
    """Numbers with two decimals, space for line breaks."""
    return _DECIMALS.sub(r"\1", " ".join(value.split()))
