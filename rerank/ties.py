"""When two numbers count as equal, so that the order in which a sum was taken decides nothing.

The tie rule of the project: everything within 1e-9 (relative) of the best counts as best, and the lowest index wins.
Wherever only the verdict "as good as" is needed, this one limit holds: for utilities of candidates and translations,
for what choosers reach, and for draws of a test against the observed difference. Standardised scores and their
agreement with people are about 1 in size, so there it is an absolute limit.

Where ties themselves are counted, as by Kendall's tau and pairwise accuracy, the limit is narrower. There a tie is an
outcome that changes the coefficient, and two scores that a metric tells apart must not become one, however close they
are; only the rounding of sums may be dropped, by which the same scores, added in another order, differ.
"""

from __future__ import annotations

TIE = 1e-9  # relative: as good as the best
ROUNDING = 1e-12  # relative: sums of scores that only rounding tells apart
