"""Percentiles and ratios. A ratio is formed within a pair of measurements that stand side by side in
time; the median of the pairs is the figure, and its quartiles say how steady it is."""

import math
import statistics


def percentile(samples, percent):
    """The smallest sample that at least `percent` of all do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def ratio_of(pairs):
    """Median and quartiles of above / below, from pairs (above, below)."""
    ratios = [above / below for above, below in pairs]
    if len(ratios) < 2:
        return ratios[0], ratios[0], ratios[0]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return median, low, high


class Row:
    """One row of the budget table: what was measured, against which goal."""

    def __init__(self, what, goal, limit, at_least=False):
        self.what, self.goal, self.limit, self.at_least = what, goal, limit, at_least
        self.value = self.spread = None
        self.note, self.samples = "", {}

    def measured(self, value, spread=None, note="", **samples):
        """Takes the figure, its spread as (low, high), and the raw samples behind it."""
        self.value, self.spread, self.note, self.samples = value, spread, note, samples
        return self

    def missing(self, why):
        """Says why there is no figure."""
        self.note = why
        return self

    def verdict(self):
        """`met`, `missed`, or `not measured`."""
        if self.value is None:
            return "not measured"
        met = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "met" if met else "missed"
