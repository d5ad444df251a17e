"""What a chip can be built for: a network that averages words, or a matrix; one interface for the pipeline."""

from optinc_pdk.chip_tasks.averaging_task import AveragingTask
from optinc_pdk.chip_tasks.chip_task import ChipTask, SizeEstimate, Stages
from optinc_pdk.chip_tasks.matrix_task import MatrixTask

__all__ = ["AveragingTask", "ChipTask", "MatrixTask", "SizeEstimate", "Stages"]
