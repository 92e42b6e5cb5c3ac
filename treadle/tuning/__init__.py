"""Schedules by measurement: candidates, trials, tables of timings, and what is remembered."""
