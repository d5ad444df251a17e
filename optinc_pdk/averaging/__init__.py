"""The task of a chip: words, symbols, their ideal average, and the score of what came out."""

from optinc_pdk.averaging.assignments import assign_random, assign_worst
from optinc_pdk.averaging.score import Score, decide, error_counts, score
from optinc_pdk.averaging.task import Averaging

__all__ = ["Averaging", "Score", "assign_random", "assign_worst", "decide", "error_counts", "score"]
