"""Forks, Ctrl-C at any instant, and exceptions in functions of the user: what follows goes on."""

from __future__ import annotations

import pytest

from .processes import run

FORK = """
def child(k):
    pid = os.fork()
    if pid == 0:
        try:
            check(program(k), k)      # traced and compiled here
            check(before, 2)          # compiled before
            os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
    return pid

def ended(pid, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"

before = program(2)
check(before, 2)
"""
FORKS = """
statuses = [ended(child(100 + k)) for k in range({rounds})]
check(program(7), 7)
assert statuses == [0] * {rounds}, statuses
"""
FORKS_BESIDE_THREADS = """
stop, errors = threading.Event(), []

def compiling(first):
    k = first
    try:
        while not stop.is_set():
            check(program(k), k)
            k += 10
    except Exception as error:
        errors.append(error)

threads = [threading.Thread(target=compiling, args=(1000 + t,)) for t in range(3)]
for thread in threads:
    thread.start()
statuses = []
for k in range({rounds}):
    time.sleep(random.uniform(0, 0.3))
    statuses.append(ended(child(100 + k), 20))
    if "hung" in statuses and {rounds} < 10:
        break
stop.set()
for thread in threads:
    thread.join()
assert not errors, errors
assert set(statuses) == {{0}}, statuses
"""


@pytest.mark.long
def test_fork(tmp_path):
    run(FORK + FORKS.format(rounds=2), tmp_path / "cache")


def test_fork_while_threads_compile(tmp_path):
    run(FORK + FORKS_BESIDE_THREADS.format(rounds=2), tmp_path / "cache")


@pytest.mark.long
def test_fork_often_while_threads_compile(tmp_path):
    run(FORK + FORKS_BESIDE_THREADS.format(rounds=30), tmp_path / "cache", seconds=900)


#: Raises KeyboardInterrupt at the n-th call of any function, Python's or C's, as Ctrl-C may.  Not
#: before a lock is released: Python notices no signal between the end of a `with` and `__exit__`.
INTERRUPT = """
class Interrupt:
    def __init__(self, n):
        self.n, self.count = n, 0
    def __call__(self, frame, event, argument):
        name = getattr(argument, "__name__", "")
        if event == "call" or event == "c_call" and name not in ("__exit__", "release"):
            self.count += 1
            if self.count == self.n:
                sys.setprofile(None)
                raise KeyboardInterrupt

def interrupted(n, k):
    counter = Interrupt(n)
    sys.setprofile(counter)
    try:
        check(program(k), k)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return counter.count

rng = random.Random({seed})
check(program(0), 0)
total = interrupted(-1, 1)
kept = program(1)
end = time.monotonic() + {seconds}
k = 2
while time.monotonic() < end:
    n = rng.randrange(1, total)
    interrupted(n, k)
    try:
        check(kept, 1)
        check(program(k), k)
    except Exception as error:
        raise AssertionError(f"after an interruption at call {{n}} of {{total}}") from error
    k += 1
print(k - 2, "interruptions")
"""


def test_interrupted_anywhere(tmp_path):
    run(INTERRUPT.format(seed=0, seconds=2), tmp_path / "cache")


@pytest.mark.long
def test_interrupted_anywhere_often(tmp_path):
    run(INTERRUPT.format(seed=None, seconds=180), tmp_path / "cache", seconds=400)


#: SIGINT at random times.
SIGNALS = """
signal.signal(signal.SIGINT, signal.default_int_handler)
stop = threading.Event()
kept = program(1)
check(kept, 1)

def sending():
    while not stop.wait(random.uniform(0.001, 0.15)):
        os.kill(os.getpid(), signal.SIGINT)

sender = threading.Thread(target=sending)
caught, k, end = 0, 2, time.monotonic() + {seconds}
sender.start()
while time.monotonic() < end:
    try:
        while time.monotonic() < end:
            k += 1
            check(program(k % 50), k % 50)
            check(kept, 1, A)
    except KeyboardInterrupt:
        caught += 1
while True:
    try:
        stop.set()
        sender.join()
        break
    except KeyboardInterrupt:
        pass
for k in range(50):
    check(program(k), k)
check(kept, 1)
assert caught
"""


@pytest.mark.long
def test_signals_at_random_instants(tmp_path):
    run(SIGNALS.format(seconds=60), tmp_path / "cache", seconds=300)


#: Functions of the user that raise at their n-th call while a program is traced.
RAISING = """
class Own(Exception):
    pass

class Raising:
    def __init__(self, n):
        self.left = n
    def __call__(self, value):
        self.left -= 1
        if self.left == 0:
            raise Own
        return value

def build(r):
    a = td.use(A[:64])
    b = td.map(lambda x: r(x) * 2, a)
    c = td.stencil(lambda w: r(w[-1]) + r(w[1]), b, boundary=td.function(lambda i: r(i) * 1.0))
    d = td.scanl1(lambda x, y: r(x) + y, c)
    e = td.permute(lambda n, o: r(n) + o, np.zeros(64), lambda i: r(63 - i), d)
    f = td.iterate(3, lambda s: r(s) + e, e)
    g = td.generate(5, lambda i: td.loop(3, lambda k, s: r(s) + f[i + k],
                                         td.cond(i > 1, r(f[i]), 0.0)))
    h = td.while_loop(lambda s: r(td.the(td.sum(s))) < 1e9, lambda s: r(s * 2), g)
    return td.fold(lambda x, y: r(x) + y, 0.0, td.filter(lambda x: r(x) > 3, h)[0])

def traced(n, backend):
    r = Raising(n)
    return td.jit(lambda: build(r), backend=backend)(), r.left

want, left = traced(10**6, "reference")
calls = 10**6 - left
rng = random.Random(0)
for n in rng.sample(range(1, calls + 1), min({count}, calls)):
    try:
        traced(n, "native")
        raise AssertionError(f"call {{n}} of {{calls}} raised and nothing happened")
    except Own:
        pass
    assert traced(10**6, "native")[0] == want
"""


def test_exceptions_in_functions(tmp_path):
    run(RAISING.format(count=8), tmp_path / "cache")


@pytest.mark.long
def test_exceptions_in_functions_everywhere(tmp_path):
    run(RAISING.format(count=10_000), tmp_path / "cache", seconds=600)


#: Threads that trace, compile and call at once, switching every 10 µs.
RACE = """
sys.setswitchinterval(1e-5)
errors, end = [], time.monotonic() + {seconds}
gate = threading.Barrier(16)

def tracing(t):
    gate.wait()
    try:
        while time.monotonic() < end:
            td.map(lambda x: x * 3 + 1, A), td.sum(td.use(A) * 2), td.stencil(lambda w: w[1], A)
            td.generate((3, 4), lambda i, j: i * 5 + j)
    except BaseException as error:
        errors.append(error)

def running(t):
    gate.wait()
    rng = random.Random(t)
    try:
        while time.monotonic() < end:
            k = rng.randrange({programs})
            check(program(k, rng.choice(("native", "native", "reference"))), k)
            check(shared, 3)
    except BaseException as error:
        errors.append(error)

shared = program(3)
threads = [threading.Thread(target=(tracing, running)[t % 2], args=(t,)) for t in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, [repr(e) for e in errors[:5]]
"""


@pytest.mark.long
def test_threads(tmp_path):
    run(RACE.format(seconds=3, programs=5), tmp_path / "cache")


@pytest.mark.long
def test_threads_for_long(tmp_path):
    run(RACE.format(seconds=90, programs=400), tmp_path / "cache", seconds=600)
