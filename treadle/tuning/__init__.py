"""Schedules by measurement: candidates, trials, tables of timings, stored results."""
