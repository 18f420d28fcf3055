"""Ratios of medians with bootstrap intervals (rule M7)."""

import random
import statistics

RESAMPLES, SEED, LEVEL = 10_000, 20_260_101, 0.95


def median(values):
    return statistics.median(values)


def ratio_interval(ours, theirs, resamples=RESAMPLES, seed=SEED):
    """(low, ratio, high): median(ours) / median(theirs) and its 95 % interval.

    Both sides are resampled on their own: runs alternate, but are not pairs of one event. None when a side has
    no runs, or its median is zero.
    """
    if not ours or not theirs or median(theirs) == 0:
        return None
    chance = random.Random(seed)
    ratios = []
    for _ in range(resamples):
        top = median(chance.choices(ours, k=len(ours)))
        bottom = median(chance.choices(theirs, k=len(theirs)))
        if bottom:
            ratios.append(top / bottom)
    ratios.sort()
    cut = int(len(ratios) * (1 - LEVEL) / 2)
    return ratios[cut], median(ours) / median(theirs), ratios[-1 - cut]


def claim_holds(interval, at_most=None, at_least=None):
    """Whether the bad end of the interval meets the target."""
    low, _, high = interval
    if at_most is not None:
        return high <= at_most
    return low >= at_least


def is_regression(interval, lower_is_better=True, allowed=0.10):
    """Whether even the good end misses the side compared with by more than `allowed`."""
    low, _, high = interval
    return low > 1 + allowed if lower_is_better else high < 1 - allowed


def slope(points):
    """Least squares over (x, y): (slope, intercept, r squared)."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    sxx = sum((x - mean_x) ** 2 for x, _ in points)
    syy = sum((y - mean_y) ** 2 for _, y in points)
    sxy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    rise = sxy / sxx
    return rise, mean_y - rise * mean_x, 1.0 if syy == 0 else sxy * sxy / (sxx * syy)


def theil_sen(points):
    """Median of the slopes of all pairs: what a leak looks like through noise."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0])
              for i, a in enumerate(points) for b in points[i + 1:] if b[0] != a[0]]
    return median(slopes)
