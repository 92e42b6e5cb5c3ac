"""The model of time, based on the access analysis (`skeletons/access`).

walk             a schedule as boxes of outputs, in visiting order
device           the ceilings of a device, measured or shipped
coverage         how the lowerings cover a domain under a schedule: units, threads, outputs a thread
time             the time of a kernel under a schedule: bytes per level, issue slots, wavefronts
set_conflicts    conflicts between the accesses in flight of a CPU core, in its first cache
folds            the time of a fold on a GPU: its bytes, and how many blocks request them
gpu              costs on a GPU: instructions, wavefronts, lifetimes of blocks
choose           the schedule with the least predicted time
auto_folds       the same for folds; why scans and permutes rarely have a choice
short_rows       what `explain()` says of folds that are computed as loops of their readers
report           choices explained in numbers; predictions as data
"""

from ..access.maps import AccessClass, KernelMaps, Map, access_classes, kernel_maps

__all__ = ["AccessClass", "KernelMaps", "Map", "access_classes", "kernel_maps"]
