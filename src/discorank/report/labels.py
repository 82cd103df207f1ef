"""Places for labels of points that overlap neither each other, nor the points, nor lines, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import cos, hypot, pi, sin
from typing import NamedTuple
from unicodedata import east_asian_width

import numpy as np

from ..metrics.representations import FloatArray

Point = tuple[float, float]
MARK_RADIUS = 3
NEAR = 40  # points that crowd one another
DIRECTIONS = 16
DISTANCES = (6.0, 11.0, 18.0, 27.0, 38.0)
FAR = 14.0  # from here on a line leads from the point to its label


class Box(NamedTuple):
    """A rectangle by its corners."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The area that two rectangles share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    def distance(self, x: float, y: float) -> float:
        """How far a point is from it; 0 inside."""
        across = max(self.left - x, 0.0, x - self.right)
        upright = max(self.bottom - y, 0.0, y - self.top)
        return hypot(across, upright)

    @property
    def middle(self) -> tuple[float, float]:
        """Its centre."""
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


def size_of(text: str, points: float) -> tuple[float, float]:
    """Width and height of a line of text in a sans-serif face, about.

    >>> size_of("ab", 10.0)
    (12.4, 11.5)
    """
    units = sum(1.0 if east_asian_width(letter) in "WF" else 0.62 for letter in text)
    return units * points, 1.15 * points


def placed(
    points: list[Point],
    sizes: list[tuple[float, float]],
    frame: Box,
    lines: Sequence[Box] = (),
) -> list[Box]:
    """A rectangle for the label of every point, chosen one after the other, the most crowded points first.

    Args:
        points: centres of the points.
        sizes: width and height of the labels.
        frame: where labels should stay inside.
        lines: what thin lines cover, which a label crosses rather than a mark or another label.
    """
    marks = [_mark(point) for point in points]
    num_near = [_num_near(point, points) for point in points]
    most_crowded_first = sorted(range(len(points)), key=lambda i: -num_near[i])
    boxes: dict[int, Box] = {}
    for i in most_crowded_first:
        places = product(DISTANCES, range(DIRECTIONS))
        choices = [
            _beside(points[i], sizes[i], distance, direction) for distance, direction in places
        ]
        taken = np.array([*marks, *boxes.values(), *lines])
        others = [point for j, point in enumerate(points) if j != i]
        costs = [_cost(box, points[i], others, taken, frame) for box in choices]
        boxes[i] = choices[costs.index(min(costs))]
    return [boxes[i] for i in range(len(points))]


def _mark(point: Point) -> Box:
    """What the mark of a point covers."""
    x, y = point
    return Box(x - MARK_RADIUS, y - MARK_RADIUS, x + MARK_RADIUS, y + MARK_RADIUS)


def _num_near(point: Point, points: list[Point]) -> int:
    """How many points are near a point, itself among them."""
    x, y = point
    return sum(hypot(x - other_x, y - other_y) < NEAR for other_x, other_y in points)


def _beside(point: Point, size: tuple[float, float], distance: float, direction: int) -> Box:
    """A label whose nearest edge stands `distance` away."""
    angle = 2 * pi * direction / DIRECTIONS
    x, y = point
    half_width, half_height = size[0] / 2, size[1] / 2
    middle_x = x + distance * cos(angle) + cos(angle) * half_width
    middle_y = y + distance * sin(angle) + sin(angle) * half_height
    return Box(
        middle_x - half_width,
        middle_y - half_height,
        middle_x + half_width,
        middle_y + half_height,
    )


def _cost(
    box: Box,
    point: Point,
    others: list[Point],
    taken: FloatArray,  # [number, corners]
    frame: Box,
) -> float:
    """How bad a place is: what it covers, how far it is, and for how many other points it might be taken."""
    area = (box.right - box.left) * (box.top - box.bottom)
    outside = area - box.overlap(frame)
    covered = _total_overlap(box, taken)
    distance = box.distance(*point)
    num_mistakable = sum(box.distance(x, y) < 1.3 * distance for x, y in others)
    to_the_right = box.middle[0] > point[0]
    return (
        10 * (covered + 2 * outside)
        + 25 * num_mistakable
        + 2 * distance
        + (0.0 if to_the_right else 2.0)
    )


def _total_overlap(box: Box, others: FloatArray) -> float:
    """The area that a rectangle shares with others, [number, corners]."""
    left, bottom, right, top = others.T
    widths = np.minimum(box.right, right) - np.maximum(box.left, left)
    heights = np.minimum(box.top, top) - np.maximum(box.bottom, bottom)
    return float((np.maximum(widths, 0) * np.maximum(heights, 0)).sum())
