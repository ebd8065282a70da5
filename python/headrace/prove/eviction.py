"""How dirty the pages are that leave a cache of another size.

A calibration learns one share of dirty pages among those evicted. It is not the same in another cache, because pages differ: a leaf of a secondary index is changed by nearly every
touch, one of rows by one in eight. A larger cache keeps the few index leaves, and what leaves it is cleaner; a smaller one loses them too.

    T: transactions a page stays untouched before it is evicted (least recently used): sum of pages x (1 - exp(-touches x T)) = pages of the cache
       (Che, Tung, Wang: Hierarchical Web Caching Systems, 2002)
    A class loses pages x touches x exp(-touches x T) of them a transaction. What InnoDB evicts was mostly touched once: a page touched again after a second
    (innodb_old_blocks_time) goes to the young end. So it is dirty as often as one touch changes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.optimize import brentq

# Untouched for so many transactions: for ever.
LONGEST_TX = 1e12


def dirtier(popularity: Sequence[dict], changed: Sequence[float], pages: float, other_pages: float) -> float:
    """Dirty share of evicted pages in a cache of `other_pages` over that in one of `pages`; 1 where one of them holds everything, or nothing is changed."""
    shares = [_dirty_share(popularity, changed, size) for size in (pages, other_pages)]
    return 1.0 if None in shares or 0.0 in shares else shares[1] / shares[0]


def _dirty_share(popularity: Sequence[dict], changed: Sequence[float], pages: float) -> float | None:
    """Of the pages a settled cache evicts; None where it evicts none."""
    classes = [(item["pages"], item["touches_per_tx"]) for item in popularity]

    def held(log_tx: float) -> float:
        return sum(count * -math.expm1(-touches * math.exp(log_tx)) for count, touches in classes) - pages

    if held(math.log(LONGEST_TX)) <= 0.0:
        return None
    stays_tx = math.exp(brentq(held, math.log(1e-6), math.log(LONGEST_TX)))
    evicted = written = 0.0
    for (count, touches), change in zip(classes, changed, strict=True):
        leaves = count * touches * math.exp(-touches * stays_tx)
        evicted += leaves
        written += leaves * change
    return written / evicted if evicted > 0.0 else None
