"""Count what the FFMA pipe has to share with, in the SASS of a cubin.

    python sass_stats.py kernel.cubin [--op FFMA|IGMMA] [--nvdisasm PATH] [--dump]

For each kernel, the loop densest in FFMAs (or another operation) is taken and reported:
instructions, FFMAs, LDS/STS/others, and two static estimates of the issue
cycles of one warp's pass through the loop: the sum of the stall counts that
ptxas wrote into the control words, and the register-bank model (two banks,
one 32-lane read a clock each; an operand held by the reuse cache costs no
read).  A loop whose bank model says 1.00 reads conflict-free.
"""
import argparse
import re
import shutil
import subprocess

LINE = re.compile(r'/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;?\s*/\* 0x([0-9a-f]{16}) \*/')
HEX2 = re.compile(r'^\s*/\* 0x([0-9a-f]{16}) \*/')


def kernels(cubin, nvdisasm):
    text = subprocess.run([nvdisasm, '-hex', '-c', cubin], capture_output=True, text=True, check=True, encoding="utf-8").stdout
    out, name, pending, labels = {}, None, None, {}
    for line in text.splitlines():
        m = re.match(r'\.text\.(\S+?):', line.strip())
        if m:
            name, labels = m.group(1), {}
            out[name] = ([], labels)
            continue
        if name is None:
            continue
        m = re.match(r'^(\.L_\S+?):', line.strip())
        if m:
            labels[m.group(1)] = len(out[name][0])
            continue
        m = LINE.search(line)
        if m:
            pending = m
            continue
        m = HEX2.match(line)
        if m and pending:
            hi = int(m.group(1), 16)
            ctrl = hi >> 41
            out[name][0].append({
                'addr': int(pending.group(1), 16), 'text': pending.group(2),
                'stall': ctrl & 15, 'yield': (ctrl >> 4) & 1, 'wr': (ctrl >> 5) & 7,
                'rd': (ctrl >> 8) & 7, 'wait': (ctrl >> 11) & 63})
            pending = None
    return out


def op(text):
    t = re.sub(r'^@!?U?P\w+\s+', '', text)
    return t.split()[0] if t else ''


def sources(text):
    """Register operands by slot (a, b, c), with their reuse flags; the destination left out."""
    t = re.sub(r'^@!?U?P\w+\s+', '', text)
    parts = t.split(None, 1)
    if len(parts) < 2:
        return []
    ops = [o.strip() for o in parts[1].split(',')]
    res = []
    for o in ops[1:4]:
        m = re.match(r'^-?\|?R(\d+)(\.reuse)?', o)
        res.append((int(m.group(1)), bool(m.group(2))) if m else None)
    return res


def analyse(ins, labels, wanted='FFMA', least=100):
    index = {i['addr']: n for n, i in enumerate(ins)}
    best = None
    for n, i in enumerate(ins):
        if op(i['text']).startswith('BRA'):
            m = re.search(r'`\((\.L_\S+?)\)', i['text'])
            if m and m.group(1) in labels:
                t = labels[m.group(1)]
            else:
                m = re.search(r'0x([0-9a-f]+)', i['text'])
                t = index.get(int(m.group(1), 16)) if m else None
            if t is not None and t <= n:
                f = sum(op(x['text']).split('.')[0] == wanted for x in ins[t:n + 1])
                size = n - t
                if f >= least and (best is None or f / size > best[0] / best[3]):
                    best = (f, t, n, size)
    if best is None:
        return None
    body = ins[best[1]:best[2] + 1]
    hist, cache = {}, {}
    stall = bank = noreuse = conflict = 0
    for i in body:
        o = op(i['text'])
        base = o.split('.')[0] if not o.startswith(('LDS', 'STS', 'LDG')) else '.'.join(o.split('.')[:1])
        hist[base] = hist.get(base, 0) + 1
        stall += max(1, i['stall'])
        if o in ('FFMA', 'FADD', 'FMUL'):
            reads, used = [0, 0], 0
            s = sources(i['text'])
            for slot, r in enumerate(s):
                if r is None:
                    continue
                if cache.get(slot) == r[0]:
                    used += 1
                else:
                    reads[r[0] % 2] += 1
                cache[slot] = r[0] if r[1] else None
            cost = max(1, *reads)
            bank += cost
            if o == wanted:
                noreuse += used == 0
                conflict += cost > 1
        else:
            bank += 1
            for slot, r in enumerate(sources(i['text'])):
                if r is not None:
                    cache[slot] = None
    return best, body, hist, stall, bank, noreuse, conflict


def main():
    p = argparse.ArgumentParser()
    p.add_argument('cubin', nargs='+')
    p.add_argument('--nvdisasm', default=shutil.which('nvdisasm') or 'nvdisasm')
    p.add_argument('--op', default='FFMA', help='the operation that counts')
    p.add_argument('--dump', action='store_true')
    a = p.parse_args()
    for c in a.cubin:
        for name, (ins, labels) in kernels(c, a.nvdisasm).items():
            r = analyse(ins, labels, a.op, 100 if a.op == 'FFMA' else 4)
            if r is None:
                continue
            best, body, hist, stall, bank, noreuse, conflict = r
            f = best[0]
            print(f'{c}: {name[:60]}')
            print(f'  loop {len(body)} instr, {f} {a.op} ({100 * f / len(body):.1f} %), stall-sum/{a.op} {stall / f:.3f}'
                  + (f', bank-model/FFMA {bank / f:.3f}, no-reuse {noreuse}, conflicts {conflict}' if a.op == 'FFMA' else ''))
            print('  ' + ' '.join(f'{k}:{v}' for k, v in sorted(hist.items(), key=lambda kv: -kv[1])))
            if a.dump:
                for i in body:
                    print(f"   {i['addr']:06x} s{i['stall']:2d} {'Y' if not i['yield'] else '-'} w{i['wr']} r{i['rd']} m{i['wait']:02x}  {i['text']}")


if __name__ == '__main__':
    main()
