"""The performance model, and the choices of `Auto()`.  It builds on the access analysis
(`skeletons/access`).

device      the ceilings of a device, measured or shipped coverage    how the lowerings cover a
domain under a schedule: units in an order, threads, outputs
            per thread
time        the time of a kernel under a schedule: bytes per level, issue slots, wavefronts,
            conflicts in a CPU core's L1
gpu         costs on a GPU: instructions, wavefronts, lifetimes of blocks choose      the schedule
with the least predicted time folds       the time of a fold on a GPU, and the choice; why scans and
permutes rarely have one report      choices and short folds explained in numbers; predictions as
data
"""
