"""The access analysis, and the model of time that it feeds.

maps        index maps of a kernel, with the extents in them; access classes
footprint   cache lines and sectors that outputs touch; M_loads and M_cache, counted
sets        which sets of a cache a footprint falls into, and how large a cache it needs
walk        a schedule as boxes of outputs, in order
device      what a device can do at most, measured or shipped
forms       what the lowerings make of a schedule: units, threads, outputs of a thread
model       bytes per level, issue slots, wavefronts: the time of a kernel under a schedule
meeting     how what a CPU's core has under way meets in the sets of its first cache
folds       the same for a fold on a GPU: bytes, and how many blocks ask for them
gpu         instructions, wavefronts, blocks that come and go
choose      the schedule with the least predicted time
report      the reasons in numbers; predictions as data
"""

from .maps import AccessClass, KernelMaps, Map, access_classes, kernel_maps

__all__ = ["AccessClass", "KernelMaps", "Map", "access_classes", "kernel_maps"]
