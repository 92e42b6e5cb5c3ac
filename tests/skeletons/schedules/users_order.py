"""A user's module with a ten-line order."""

from treadle.skeletons.schedules import Order, where


class Snake(Order):
    """Bands of `height` rows, every other one from right to left."""

    height: int = 1

    def coordinates(self, i, shape):
        row, col = i // shape[1], i % shape[1]
        return row, where(row // self.height % 2 == 1, shape[1] - 1 - col, col)
