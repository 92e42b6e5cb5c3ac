"""Copies by threads, over a bus that is only pretended: it moves bytes as late as it may."""

from __future__ import annotations

import ctypes
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("cupy", reason="CuPy is not installed")

from treadle.backend.cuda.device import copies

CHUNK, SEGMENT = 64, 192


class Stream:
    """Work is done when somebody waits for an event behind it."""

    known: ClassVar[dict[int, Stream]] = {}

    def __init__(self, non_blocking=True):
        self.ptr = id(self)
        self.todo, self.done, self.lock = [], 0, threading.RLock()
        Stream.known[self.ptr] = self

    def run(self, count):
        with self.lock:
            while self.done < count:
                self.todo[self.done]()
                self.done += 1


class Event:
    known: ClassVar[dict[int, Event]] = {}
    stream = None

    def __init__(self, disable_timing=True):
        self.ptr = id(self)
        Event.known[self.ptr] = self

    def record(self, stream):
        self.stream, self.count = stream, len(stream.todo)

    def synchronize(self):
        if self.stream is not None:
            self.stream.run(self.count)


class Bus:
    """The driver's functions that copies use; `fails`: the status of copies."""

    def __init__(self):
        self.fails, self.sizes, self.kept = 0, [], []

    def sync(self, event):
        Event.known[event].synchronize()
        return 0

    def wait(self, stream, event, flags):
        Stream.known[stream].todo.append(Event.known[event].synchronize)
        return 0

    def copy(self, target, source, size, stream):
        if self.fails:
            return self.fails
        self.sizes.append(size)
        Stream.known[stream].todo.append(lambda: ctypes.memmove(target, source, size))
        return 0

    def record(self, event, stream):
        Event.known[event].record(Stream.known[stream])
        return 0

    def addresses(self):
        def address(function, *types):
            self.kept.append(ctypes.CFUNCTYPE(ctypes.c_int, *types)(function))
            return ctypes.cast(self.kept[-1], ctypes.c_void_p).value

        number, pointer, status = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
        copy = address(self.copy, number, number, number, pointer)
        return {
            "cuEventSynchronize": address(self.sync, pointer),
            "cuStreamWaitEvent": address(self.wait, pointer, pointer, status),
            "cuMemcpyHtoDAsync_v2": copy,
            "cuMemcpyDtoHAsync_v2": copy,
            "cuEventRecord": address(self.record, pointer, pointer),
            "usleep": ctypes.cast(ctypes.CDLL(None).usleep, pointer).value,
        }


@pytest.fixture
def bus(monkeypatch):
    def pinned(size):
        held = (ctypes.c_char * size)()
        return SimpleNamespace(ptr=ctypes.addressof(held), held=held)

    Stream.known.clear()
    made = Bus()
    addresses = made.addresses()
    cuda = SimpleNamespace(alloc_pinned_memory=pinned, Stream=Stream, Event=Event)
    monkeypatch.setattr(copies, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(copies, "_driver", lambda: addresses)
    runtime = SimpleNamespace(setDevice=lambda ordinal: None, free=lambda address: None)
    monkeypatch.setattr(copies, "runtime", runtime)
    for name, value in (("CHUNK", CHUNK), ("SEGMENT", SEGMENT), ("WORKERS", 3), ("TABLE", 8)):
        monkeypatch.setattr(copies, name, value)
    return made


def test_structures_are_those_of_c():
    text = re.sub(r"//.*", "", Path(copies.__file__).with_name("bus.c").read_text("utf-8"))
    found = {
        name: re.findall(r"(\w+)(?:\[\w+\])?;", body)
        for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", text, re.M | re.S)
    }
    made = {
        "counter": copies._Counter,
        "segment": copies._Segment,
        "lane": copies._Lane,
        "buffer": copies._Buffer,
        "worker": copies._WorkerState,
    }
    assert found == {name: [f for f, _ in s._fields_] for name, s in made.items()}
    assert ctypes.sizeof(copies._Lane) == 8 * (5 * 8 + 9)
    assert ctypes.sizeof(copies._WorkerState) == 8 * (2 + 2 * 5)


def bytes_of(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def mark(stream):
    event = Event()
    event.record(stream)
    return event


@pytest.mark.parametrize("size", [1, CHUNK, SEGMENT, SEGMENT + 1, 20 * SEGMENT + 65])
def test_all_bytes_arrive_both_ways(bus, size):
    copier, stream = copies.Copier(0), Stream()
    given, there, back = bytes_of(size), np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    copier.upload(there.ctypes.data, given.ctypes.data, size, mark(stream))
    np.testing.assert_array_equal(there, given)
    copier.download(back.ctypes.data, there.ctypes.data, size, mark(stream))
    np.testing.assert_array_equal(back, given)
    assert max(bus.sizes) <= CHUNK and sum(bus.sizes) == 2 * size


def test_a_copy_waits_for_what_it_is_to_come_after(bus):
    copier, stream = copies.Copier(0), Stream()
    there, back = np.zeros(1000, np.uint8), np.zeros(1000, np.uint8)
    stream.todo.append(lambda: there.fill(7))  # a kernel
    copier.download(back.ctypes.data, there.ctypes.data, 1000, mark(stream))
    assert (back == 7).all()


def test_copies_both_ways_are_under_way(bus):
    copier, stream = copies.Copier(0), Stream()
    given = [bytes_of(3000, seed) for seed in range(4)]
    there, back = ([np.zeros(3000, np.uint8) for _ in given] for _ in range(2))
    with copier.lanes() as lanes:
        up = [
            lanes._up.copy(t.ctypes.data, g.ctypes.data, 3000, mark(stream))
            for t, g in zip(there, given, strict=True)
        ]
        down = []
        for k, transfer in enumerate(up):
            transfer.finish()
            down.append(
                lanes._down.copy(back[k].ctypes.data, there[k].ctypes.data, 3000, mark(stream))
            )
        for transfer in down:
            transfer.finish()
            assert not transfer.kept_alive  # memory of one piece is that of a later one
    for b, g in zip(back, given, strict=True):
        np.testing.assert_array_equal(b, g)


def test_what_the_driver_says_is_raised_and_the_next_copy_is_made(bus):
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
    copier, stream = copies.Copier(0), Stream()
    a, b = bytes_of(1000), np.zeros(1000, np.uint8)
    bus.fails = 700
    with pytest.raises(Exception, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        copier.upload(b.ctypes.data, a.ctypes.data, 1000, mark(stream))
    bus.fails = 0
    copier.upload(b.ctypes.data, a.ctypes.data, 1000, mark(stream))
    np.testing.assert_array_equal(a, b)


def test_an_error_between_copies_leaves_nothing_under_way(bus):
    copier, stream = copies.Copier(0), Stream()
    a, b = bytes_of(5000), np.zeros(5000, np.uint8)
    with pytest.raises(KeyError), copier.lanes() as lanes:
        lanes._up.copy(b.ctypes.data, a.ctypes.data, 400, mark(stream))
        raise KeyError
    assert all(s.done == len(s.todo) for s in Stream.known.values())
    copier.upload(b.ctypes.data, a.ctypes.data, 5000, mark(stream))
    np.testing.assert_array_equal(a, b)


def test_a_thread_that_cannot_begin_is_an_error(bus):
    def lost(ordinal):
        raise RuntimeError("cudaErrorInvalidDevice")

    copies.runtime.setDevice = lost
    a = bytes_of(1000)
    with pytest.raises(RuntimeError, match="InvalidDevice"):
        copies.Copier(0).upload(a.ctypes.data, a.ctypes.data, 1000, mark(Stream()))
