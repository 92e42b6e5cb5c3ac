"""From Python values and functions to scalars and arrays: conversion, tracing, operators."""
