"""Studies of schedules: what an order, a residency or a hint is worth, and for which programs."""
