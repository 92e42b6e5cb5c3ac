"""Reorder the FFMAs of a cubin's inner loops so that they read the register file without conflicts.

Hopper's register file has two banks (even and odd registers), each giving one
32-lane operand a clock.  An FFMA has three operands and issues once a clock, so
one operand has to come from the reuse cache (what the last FFMA read in the same
slot, kept by the .reuse flag) and the other two from different banks.  ptxas
chooses registers that allow this, but its list scheduler breaks the chains: one
FFMA in ten waits a clock.  Measured time follows this count to about 1 %.

The pass works on basic blocks with many FFMAs.  Every other instruction keeps
its place, its wait masks and its barriers (they belong to the place, not to the
instruction); FFMAs are dealt anew to the remaining places, such that
- one that reads a loaded register stays behind the waits that stood between the
  load and it, and before the next instruction that overwrites the register;
- dependent FFMAs keep their order and at least the four clocks of the pipe.
Registers, addresses and all other instructions stay as ptxas wrote them.

    python sass_order.py in.cubin out.cubin
"""
import random
import struct
import sys

FFMA = 0x223          # FFMA with three registers, low nine bits 0x023 and form 2
BRA = 0x947
LATENCY = 4
RZ = 255


def sections(blob):
    shoff, = struct.unpack_from('<Q', blob, 0x28)
    entsize, num, strndx = struct.unpack_from('<HHH', blob, 0x3A)
    heads = [struct.unpack_from('<IIQQQQIIQQ', blob, shoff + i * entsize) for i in range(num)]
    names = heads[strndx]
    for h in heads:
        start = names[4] + h[0]
        yield blob[start:blob.index(b'\0', start)].decode(), h[4], h[5]


class Ins:
    __slots__ = ('lo', 'hi', 'op', 'd', 'a', 'b', 'c', 'ctrl', 'plain')

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi
        self.op = lo & 0xFFF
        self.d, self.a, self.b, self.c = lo >> 16 & 255, lo >> 24 & 255, lo >> 32 & 255, hi & 255
        self.ctrl = hi >> 41 & 0x1FFFFF
        # an unpredicated FFMA of four registers that sets no barrier
        self.plain = self.op == FFMA and lo >> 12 & 15 == 7 and self.ctrl >> 5 & 63 == 63

    stall = property(lambda s: s.ctrl & 15)
    wait = property(lambda s: s.ctrl >> 11 & 63)

    def touched(self):
        """Registers another instruction may read or write: all its fields, each as a quad, to be safe."""
        if self.op & 0x1FF in UNIFORM:
            return set(), set()
        quad = lambda r: () if r == RZ else range(r, min(r + 4, 255))
        if self.op & 0x1FF == 0x184:  # LDS: [R + UR + immediate]
            return set(quad(self.d)), {self.a}
        return set(quad(self.d)), {x for r in (self.a, self.b, self.c) for x in quad(r)}


# operations on uniform registers and predicates only (low nine bits)
UNIFORM = {0x082, 0x08C, 0x090, 0x091, 0x092, 0x087, 0x08E, 0x099, 0x1C3, 0x147, 0x148, 0x1A7, 0x118, 0x11A, 0x11C}


def is_branch(x):
    return x.op & 0x1FF in (0x147, 0x14D, 0x144, 0x149, 0x150, 0x14A, 0x145, 0x146, 0x141, 0x14C, 0x148)


def target(x, at):
    """Byte address a relative branch goes to."""
    off = (x.lo >> 34 | x.hi << 30) & (1 << 48) - 1
    if off >> 47:
        off -= 1 << 48
    return at + 16 + 4 * off


def blocks(ins):
    cuts = {0, len(ins)}
    for i, x in enumerate(ins):
        if is_branch(x):
            cuts.add(i + 1)
            if x.op & 0x1FF == 0x147:
                t = target(x, i * 16)
                if t % 16 == 0 and 0 <= t // 16 <= len(ins):
                    cuts.add(t // 16)
    cuts = sorted(cuts)
    return list(zip(cuts, cuts[1:]))


def order_cost(seq):
    keep, total = (None, None, None), 0
    for x in seq:
        total += clocks(x, keep)
        re = x.ctrl >> 17
        keep = (x.a if re & 1 else None, x.b if re & 2 else None, x.c if re & 4 else None)
    return total


def clocks(x, keep):
    """Clocks to read x's operands when keep[slot] sits in the reuse cache."""
    even = odd = 0
    if x.a != keep[0]:
        if x.a & 1: odd += 1
        else: even += 1
    if x.b != keep[1] and x.b != x.a:
        if x.b & 1: odd += 1
        else: even += 1
    if x.c != keep[2] and x.c != x.a and x.c != x.b and x.c != RZ:
        if x.c & 1: odd += 1
        else: even += 1
    return max(1, even, odd)


class Block:
    def __init__(self, ins):
        self.ins = ins
        self.f = [i for i, x in enumerate(ins) if x.plain]
        n = len(ins)
        lastload, nextwrite = {}, {}
        lo, hi = {}, {}
        waits = [i for i, x in enumerate(ins) if x.wait]
        # earliest place: behind every wait that stood between the load of an operand and the FFMA
        writers = {}
        prev_wait = -1
        for i, x in enumerate(ins):
            if x.wait:
                prev_wait = i
            if x.plain:
                e = 0
                for r in (x.a, x.b, x.c):
                    s = writers.get(r, -1)
                    # last wait in (s, i]; operands loaded before the block count from its start
                    if prev_wait > s:
                        e = max(e, self.first_needed(waits, s, i))
                    if s >= 0:
                        e = max(e, s + 1)
                s = writers.get(x.d, -1)
                if s >= 0:
                    e = max(e, s + 1)
                lo[i] = e
            else:
                for r in x.touched()[0]:
                    writers[r] = i
        # latest place: before the next instruction that writes an operand or touches the result
        nextw, nextr = {}, {}
        for i in range(n - 1, -1, -1):
            x = ins[i]
            if x.plain:
                h = n - 1
                for r in (x.a, x.b, x.c, x.d):
                    h = min(h, nextw.get(r, n) - 1)
                h = min(h, nextr.get(x.d, n + LATENCY) - LATENCY)
                hi[i] = max(h, i)
            else:
                w, r = x.touched()
                for q in w:
                    nextw[q] = i
                for q in r:
                    nextr[q] = i
        self.lo, self.hi = lo, hi
        # dependences among the FFMAs
        self.succ = {i: [] for i in self.f}
        self.npred = {i: 0 for i in self.f}
        lastw, readers = {}, {}
        for i in self.f:
            x = ins[i]
            deps = {}
            for r in (x.a, x.b, x.c):
                if r in lastw:
                    deps[lastw[r]] = LATENCY
            if x.d in lastw:
                deps.setdefault(lastw[x.d], 1)
            for j in readers.get(x.d, ()):
                if j != i:
                    deps.setdefault(j, 1)
            for j, l in deps.items():
                self.succ[j].append((i, l))
                self.npred[i] += 1
            for r in (x.a, x.b, x.c):
                readers.setdefault(r, []).append(i)
            lastw[x.d] = i
            readers[x.d] = [i] if x.d in (x.a, x.b, x.c) else []
        for i in reversed(self.f):
            for j, l in self.succ[i]:
                self.hi[i] = min(self.hi[i], self.hi[j] - l)
            self.hi[i] = max(self.hi[i], i)

    @staticmethod
    def first_needed(waits, s, i):
        """The last waiting place in (s, i]."""
        import bisect
        k = bisect.bisect_right(waits, i) - 1
        return waits[k] if k >= 0 and waits[k] > s else 0

    def solve(self, rng):
        """One randomised greedy pass; the new sequence of FFMA indices, or None."""
        ins, places = self.ins, self.f
        npred = dict(self.npred)
        at = {}                       # earliest place from dependences
        pool_a, pool_b, pool = {}, {}, {}
        waiting = sorted((i for i in self.f if npred[i] == 0), key=lambda i: self.lo[i], reverse=True)
        later = []                    # released by dependences, not yet open
        deadline = sorted(self.f, key=lambda i: self.hi[i])
        done = set()
        dl = 0
        keep = (None, None, None)
        out, total = [], 0
        index = {p: k for k, p in enumerate(places)}
        # places left up to each deadline, to know when an FFMA must go
        for k, p in enumerate(places):
            while waiting and self.lo[waiting[-1]] <= p:
                i = waiting.pop()
                later.append(i)
            if later:
                rest = []
                for i in later:
                    if self.lo[i] <= p and at.get(i, 0) <= p:
                        x = ins[i]
                        pool[i] = None
                        pool_a.setdefault(x.a, set()).add(i)
                        pool_b.setdefault(x.b, set()).add(i)
                    else:
                        rest.append(i)
                later = rest
            if not pool:
                return None
            # urgent ones: the first unplaced deadlines, if they leave no slack
            while dl < len(deadline) and deadline[dl] in done:
                dl += 1
            forced = None
            cnt = 0
            for q in range(dl, min(dl + 160, len(deadline))):
                i = deadline[q]
                if i in done:
                    continue
                cnt += 1
                room = self.room(index, self.hi[i], k)
                if cnt >= room:
                    forced = [deadline[z] for z in range(dl, q + 1) if deadline[z] in pool]
                    break
            cand = None
            best = None
            sets = (forced,) if forced else (pool_a.get(keep[0], ()), pool_b.get(keep[1], ()), pool)
            for level, s in enumerate(sets):
                for i in s:
                    x = ins[i]
                    c = clocks(x, keep)
                    if c > 1 and level < 2 and not forced:
                        continue
                    ra, rb = len(pool_a[x.a]), len(pool_b[x.b])
                    if x.a == keep[0]:
                        key = (c, 0, -rb, rng.random())
                    elif x.b == keep[1]:
                        key = (c, 1, -ra, rng.random())
                    else:
                        key = (c, 2, -ra, rng.random())
                    if best is None or key < best:
                        best, cand = key, i
                if cand is not None:
                    break
            if cand is None:
                return None
            x = ins[cand]
            total += best[0]
            keep = (x.a, x.b, None)
            out.append(cand)
            done.add(cand)
            del pool[cand]
            pool_a[x.a].discard(cand)
            pool_b[x.b].discard(cand)
            for j, l in self.succ[cand]:
                npred[j] -= 1
                at[j] = max(at.get(j, 0), p + l)
                if npred[j] == 0:
                    later.append(j)
            if p > self.hi[cand]:
                return None
        return total, out

    def room(self, index, h, k):
        """FFMA places from the k-th up to place h."""
        import bisect
        return bisect.bisect_right(self.f, h) - k

    def emit(self, order):
        ins, out = self.ins, [(x.lo, x.hi) for x in self.ins]
        for n, (p, i) in enumerate(zip(self.f, order)):
            x, old = ins[i], ins[p]
            reuse = 0
            if n + 1 < len(order):
                y = ins[order[n + 1]]
                reuse = (x.a == y.a and x.d != x.a) | (x.b == y.b and x.d != x.b) << 1
            # place p keeps its waits; the stall is one clock except at the block's edges
            stall = max(old.stall, 1)
            ctrl = stall | (old.ctrl & 0x10) | 63 << 5 | old.wait << 11 | reuse << 17
            out[p] = (x.lo, x.hi & ~(0x1FFFFF << 41) | ctrl << 41)
        return out


def reorder(blob, tries=12, log=None, minimum=64, seed=0):
    blob = bytearray(blob)
    rng = random.Random(seed)
    for name, off, size in list(sections(blob)):
        if not name.startswith('.text.'):
            continue
        ins = [Ins(*struct.unpack_from('<QQ', blob, off + i * 16)) for i in range(size // 16)]
        for s, e in blocks(ins):
            if sum(x.plain for x in ins[s:e]) < minimum:
                continue
            b = Block(ins[s:e])
            before = order_cost([ins[s + i] for i in b.f])
            best = None
            for _ in range(tries):
                r = b.solve(rng)
                if r and (best is None or r[0] < best[0]):
                    best = r
            if log:
                print(f'{name} block {s:5d}-{e:5d}: {len(b.f)} FFMAs, {before} -> {best[0] if best else None} clocks of operand reads', file=log)
            if best and best[0] < before:
                for i, w in enumerate(b.emit(best[1])):
                    struct.pack_into('<QQ', blob, off + (s + i) * 16, *w)
    return bytes(blob)


if __name__ == '__main__':
    with open(sys.argv[1], 'rb') as f:
        data = reorder(f.read(), log=sys.stderr)
    with open(sys.argv[2], 'wb') as f:
        f.write(data)
