"""The model of time, fed by the access analysis (`skeletons/access`).

walk             a schedule as boxes of outputs, in order
device           what a device can do at most, measured or shipped
coverage         what the lowerings make of a schedule: units, threads, outputs of a thread
time             bytes per level, issue slots, wavefronts: the time of a kernel under a schedule
set_conflicts    how what a CPU's core has under way meets in the sets of its first cache
folds            the same for a fold on a GPU: bytes, and how many blocks ask for them
gpu              instructions, wavefronts, blocks that come and go
choose           the schedule with the least predicted time
auto_folds       the same for folds; why scans and permutes mostly have no choice
short_rows       what `explain()` says of folds that are loops
report           the reasons in numbers; predictions as data
"""

from ..access.maps import AccessClass, KernelMaps, Map, access_classes, kernel_maps

__all__ = ["AccessClass", "KernelMaps", "Map", "access_classes", "kernel_maps"]
