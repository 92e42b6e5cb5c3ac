"""Arrays from indices: constructors, slices, joins, rearrangements, changed parts, scatters."""
