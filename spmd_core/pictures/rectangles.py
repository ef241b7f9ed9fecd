"""Rectangles as large as their weights, as a treemap has them."""

from collections.abc import Iterator, Sequence

Place = tuple[float, float, float, float]  # x, y, width, height


def rectangles(weights: Sequence[float], place: Place, aspect: float) -> Iterator[Place]:
    """Returns a rectangle for each weight, in order: halves of nearly equal weight, split across the
    longer side, until one is left.

    Args:
        weights: positive, the largest first.
        place: where they go.
        aspect: height by width of the picture, whose sides are 1 in `place`.
    """
    if len(weights) <= 1:
        yield from (place for _ in weights)
        return
    total, first, count = sum(weights), 0.0, 0
    while count < len(weights) - 1 and (first + weights[count] / 2 <= total / 2 or not count):
        first += weights[count]
        count += 1
    x, y, width, height = place
    share = first / total
    if width >= height * aspect:
        parts = (x, y, width * share, height), (x + width * share, y, width * (1 - share), height)
    else:
        parts = (x, y, width, height * share), (x, y + height * share, width, height * (1 - share))
    yield from rectangles(weights[:count], parts[0], aspect)
    yield from rectangles(weights[count:], parts[1], aspect)
