"""Quality over latency as an SVG, written by hand: a point a model, time on a logarithmic axis."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tfm_cli.bench.measure import Figures

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 48, 84  # margins
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by colour-blind readers too
_LETTER = 6.6  # width of a letter of a label, about


def picture(figures: Sequence[Figures], machine: str) -> str:
    """The SVG. Up is better, left is faster; points of one family have one colour."""
    times, scores = [each.milliseconds for each in figures], [each.bleu for each in figures]
    low, high = _span([math.log10(max(time, 1e-3)) for time in times], 0.15)
    bottom, top = _span(scores, 1.0)
    bottom = max(bottom, 0.0)

    def x(milliseconds: float) -> float:
        return LEFT + (math.log10(max(milliseconds, 1e-3)) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(bleu: float) -> float:
        return HEIGHT - BOTTOM - (bleu - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, "BLEU over the time of one sentence", size=15),
        _text(
            WIDTH / 2, HEIGHT - 44, "milliseconds a sentence, batches of one, median (left is faster)", anchor="middle"
        ),
        _text(LEFT, HEIGHT - 14, machine, size=9, colour="#666"),
        _text(LEFT - 40, TOP - 10, "BLEU"),
    ]
    for tick in _decades(low, high):
        parts.append(_line(x(tick), TOP, x(tick), HEIGHT - BOTTOM))
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 18, f"{tick:g}", anchor="middle"))
    for score in _round_numbers(bottom, top):
        parts.append(_line(LEFT, y(score), WIDTH - RIGHT, y(score)))
        parts.append(_text(LEFT - 8, y(score) + 4, f"{score:g}", anchor="end"))
    families = list(dict.fromkeys(each.family for each in figures))
    taken: list[tuple[float, float, float]] = []  # left, right and height of each label
    for each in figures:
        colour, here = COLOURS[families.index(each.family) % len(COLOURS)], (x(each.milliseconds), y(each.bleu))
        width = _LETTER * len(each.name)
        is_left = here[0] + 10 + width > WIDTH
        begin = here[0] - 10 - width if is_left else here[0] + 10
        level = here[1] + 4
        while any(begin < right and left < begin + width and abs(level - at) < 13 for left, right, at in taken):
            level += 13
        taken.append((begin, begin + width, level))
        parts.append(f'<circle cx="{here[0]:.1f}" cy="{here[1]:.1f}" r="5" fill="{colour}"/>')
        anchor = "end" if is_left else "start"
        parts.append(_text(here[0] + (-10 if is_left else 10), level, each.name, anchor=anchor, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _span(values: Sequence[float], least: float) -> tuple[float, float]:
    """A range around values with some room, ``least`` on either side at the least."""
    room = max(0.12 * (max(values) - min(values)), least)
    return min(values) - room, max(values) + room


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two powers of ten."""
    ticks = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def _round_numbers(low: float, high: float) -> list[float]:
    step = next(step for step in (0.5, 1, 2, 5, 10, 20, 50) if (high - low) / step <= 8 or step == 50)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, size: int = 12, anchor: str = "start", colour: str = "#222") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
