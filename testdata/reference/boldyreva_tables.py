#!/usr/bin/env python3
"""Makes the tables of ope/boldyreva: the normative envelopes (with the alias tables that sample
them) as JSON, and the Go file that holds them together with constants that only speed things up.

    python3 boldyreva_tables.py           writes both files
    python3 boldyreva_tables.py --check   fails unless both files are what it would write and the
                                          envelopes lie above the laws that they are for
    python3 boldyreva_tables.py --quick   the same, with the laws of each 16th number of points

The envelopes are part of the format: a changed number is a new version of the scheme.
Needs mpmath (requirements.txt).
"""
import json
import math
import os
import sys
from fractions import Fraction

from mpmath import mp, mpf

mp.prec = 300

HERE = os.path.dirname(os.path.abspath(__file__))
GO = os.path.join(HERE, "..", "..", "ope", "boldyreva", "tables.go")
JSON = os.path.join(HERE, "..", "vectors", "boldyreva-1-tables.json")

COLUMNS, CAPACITY = 64, 1 << 25
TOTAL = COLUMNS * CAPACITY  # 2^31, the sum of all weights
BLOCKS = 46                 # blocks 0..45; column 46 is the geometric tail
MARGIN = 1 + mpf(2) ** -20  # heights exceed the normal density by this factor

# Class number -> (upper end of V in that class, bits of a cell's fraction, offset c).
CLASSES = [(1 << 8, 8, Fraction(3, 2)), (1 << 10, 8, Fraction(1)), (1 << 12, 8, Fraction(1, 2)),
           (1 << 16, 8, Fraction(1, 4)), (None, 0, Fraction(0))]
LOWEST_V = 121  # of a node with more than 192 points: 193 of 512


def weights(kappa, c):
    def height(j):
        d = max(mpf(0), j - mpf(c.numerator) / c.denominator)
        return int(mp.ceil(kappa * mp.exp(-d * d / 128) * MARGIN))
    return [height(j) for j in range(BLOCKS)] + [2 * height(BLOCKS)]


def largest_kappa(c):
    low, high = 1, TOTAL
    while low < high:
        mid = (low + high + 1) // 2
        if sum(weights(mid, c)) <= TOTAL:
            low = mid
        else:
            high = mid - 1
    return low


def alias_table(w):
    """Vose 1991 in integers: column i is i below threshold[i] and alias[i] above."""
    left = w + [0] * (COLUMNS - len(w))
    threshold, alias = [CAPACITY] * COLUMNS, list(range(COLUMNS))
    small = [i for i in range(COLUMNS) if left[i] < CAPACITY]
    large = [i for i in range(COLUMNS) if left[i] >= CAPACITY]
    while small:
        s, l = small.pop(), large[-1]
        threshold[s], alias[s] = left[s], l
        left[l] -= CAPACITY - left[s]
        if left[l] < CAPACITY:
            small.append(large.pop())
    got = [0] * COLUMNS
    for i in range(COLUMNS):
        got[i] += threshold[i]
        got[alias[i]] += CAPACITY - threshold[i]
    assert got == w + [0] * (COLUMNS - len(w))
    return threshold, alias


def envelopes():
    out = []
    for _, fraction, c in CLASSES:
        kappa = largest_kappa(c)
        w = weights(kappa, c)
        w[0] += TOTAL - sum(w)
        threshold, alias = alias_table(w)
        out.append(dict(fraction=fraction, offset=str(c), kappa=kappa,
                        height=w[:BLOCKS] + [w[BLOCKS] // 2], threshold=threshold, alias=alias))
    return out


def width(v, fraction):
    """The width of a block in cells: the same integers as the Go code."""
    s = (v.bit_length() - 9) & ~1
    i = v >> s if s >= 0 else v << -s
    root = math.isqrt(((i + 1) << 32) - 1) + 1  # ceil(2^16 sqrt(i+1))
    return (root << (s // 2 + 1) >> (13 if fraction else 21)) + 1


PARTS = 8


def quick_rows(env, parts=1):
    """Lower bounds of the acceptance probability of each part of block j, in units of 2^-32, for all V of a row.

    Part p has the cells r = floor(u width / 2^64) with u below (p+1) 2^64 / parts, so that r + 1 is at most
    (p+1) width / parts and less than one more cell, which the last part does not need."""
    rows = []
    for n, low in enumerate([LOWEST_V, 1 << 8, 1 << 10, 1 << 12, 1 << 16, 1 << 20, 1 << 28]):
        e = env[min(n, 4)]
        vp = mpf(low) - 2                                  # V' > V - 2
        s = mp.sqrt(mpf(low) * (1 + mpf(1) / 256) + mpf(2) ** -10)  # S^2 <= V (1 + 1/256)
        omega = s / 16 + (1 if e["fraction"] == 0 else mpf(1) / 256)
        extra = 0 if e["fraction"] == 0 else 16 / mp.sqrt(low)   # the cell at a block's end
        cell = 16 / mp.sqrt(low) / 2 ** e["fraction"]
        row = []
        for j, p in [(j, p) for j in range(BLOCKS) for p in range(1, parts + 1)]:
            end = j + mpf(p) / parts + extra + (0 if p == parts else cell)
            g = 2 * (end * omega) ** 2 / vp                # >= D^2 / 2V'
            t = 2 * g / vp                                 # >= D^2 / A^2
            if t > mpf(1) / 16:
                row.append(0)
                continue
            bound = mp.exp(-g * (1 + t / 6 / (1 - t)) - mpf(2) ** -20) * e["kappa"] / e["height"][j]
            row.append(int(bound * 2 ** 32 * (1 - mpf(2) ** -20)))
        rows.append(row)
    return rows


def go_list(values, per_line):
    lines = []
    for i in range(0, len(values), per_line):
        lines.append("\t\t\t" + ", ".join(str(v) for v in values[i:i + per_line]) + ",\n")
    return "".join(lines)


def go_source(env):
    out = ["// Code generated by testdata/reference/boldyreva_tables.py; DO NOT EDIT.\n\npackage boldyreva\n\n"]
    out.append("// envelopes are the classes of the histogram branch. They decide ciphertexts.\n")
    out.append("var envelopes = [...]envelope{\n")
    for e in env:
        out.append("\t{\n\t\tkappa: %d,\n\t\tfraction: %d,\n" % (e["kappa"], e["fraction"]))
        columns = [t << 6 | a for t, a in zip(e["threshold"], e["alias"])]
        logs = [int(mp.nint(mp.log(mpf(h) / e["kappa"]) * 2 ** 56)) for h in e["height"]]
        out.append("\t\tcolumn: [64]uint32{\n" + go_list(columns, 8) + "\t\t},\n")
        out.append("\t\theight: [47]uint32{\n" + go_list(e["height"], 8) + "\t\t},\n")
        out.append("\t\tlnHeight: [47]int64{\n" + go_list(logs, 4) + "\t\t},\n\t},\n")
    out.append("}\n\n// quick[row][j] <= 2^32 times the lowest acceptance probability of block j.\n")
    out.append("var quick = [...][%d]uint32{\n" % BLOCKS)
    for row in quick_rows(env):
        out.append("\t\t{\n" + go_list(row, 8) + "\t\t},\n")
    out.append("}\n\n// quickParts[row][%d*j+p] <= 2^32 times the lowest acceptance probability of part p of block j.\n" % PARTS)
    out.append("var quickParts = [...][%d]uint32{\n" % (BLOCKS * PARTS))
    for row in quick_rows(env, PARTS):
        out.append("\t\t{\n" + go_list(row, 8) + "\t\t},\n")
    psi = [int(mp.nint(mpf(2) ** 64 / (k * (2 * k - 1)))) for k in range(2, 18)]
    fact = [int(mp.nint(mpf(2) ** 63 / mp.factorial(k))) for k in range(21)]
    exps = [int(mp.nint(mpf(2) ** 32 * mp.exp(-mpf(i) / 64))) for i in range(256)]
    out.append("}\n\n// psiTerms[i] = 2^64 / (k(2k-1)) for k = i+2.\nvar psiTerms = [...]uint64{\n" + go_list(psi, 4))
    out.append("}\n\n// inverseFactorials[k] = 2^63 / k!.\nvar inverseFactorials = [...]uint64{\n" + go_list(fact, 4))
    out.append("}\n\n// expSteps[i] = 2^32 exp(-i/64).\nvar expSteps = [...]uint64{\n" + go_list(exps, 8))
    roots = [math.isqrt(((i + 1) << 32) - 1) + 1 for i in range(256, 1024)]
    out.append("}\n\n// roots[i-256] = ceil(2^16 sqrt(i+1)). They decide ciphertexts.\nvar roots = [...]uint32{\n" + go_list(roots, 8))
    out.append("}\n\n// ln2 is the natural logarithm of 2 in units of 2^-56.\n")
    out.append("const ln2 = %d\n" % int(mp.nint(mp.log(2) * 2 ** 56)))
    return "".join(out)


def minus_log_g(a, d):
    """-ln g_A(D) in double precision, good to 1e-11 for what is asked of it here."""
    if a < 1e5:
        return (math.lgamma((a + 1 + d) / 2) + math.lgamma((a + 1 - d) / 2)) - 2 * math.lgamma((a + 1) / 2)
    q, t = d * d / a, d * d / a / a
    return q / 2 * (1 + t / 6 + t * t / 15 + t ** 3 / 28) - t / (6 * a * (1 - t))


def check_envelopes(env, step):
    """kappa f(D) 2^i / height <= 1 at the lowest D of every block: every M up to 4096 (or each step-th) with the ranges
    from the densest on, and a ladder of larger ones. Where A >= 194, -ln f(D) >= D^2/2V' - 2^-25, so
    that for larger M the construction with its margin of 2^-20 is the proof."""
    worst, n = 0.0, 0
    ladder = [(1 << b) + o for b in range(12, 64) for o in (1, (1 << b) // 3, (1 << b) - 1)]
    for m in list(range(193, 4097, step)) + ladder[::step]:
        dense = max(9, (m - 1).bit_length() + 1)
        for k in sorted({min(k, 128) for k in list(range(dense, dense + 6)) + [dense + 9, 64, 128] if k >= dense}):
            big_n = 1 << k
            v = m + 1 - (m * m >> k)
            cls = next(i for i, c in enumerate(CLASSES) if c[0] is None or v < c[0])
            e = env[cls]
            w = width(v, e["fraction"])
            true_v = (m + 1) * (big_n - m + 1) / (big_n + 2)
            assert v >= LOWEST_V
            for j in list(range(BLOCKS + 1)) + [50, 60, 80, 109]:
                d = 2 * (j * w >> e["fraction"]) + (m & 1)
                if d > m:
                    break
                if m < 1 << 20:
                    x = minus_log_g(m + 1, d) + minus_log_g(big_n - m + 1, d)
                else:
                    x = d * d / (2 * true_v)
                height = e["height"][min(j, BLOCKS)] / 2.0 ** max(0, j - BLOCKS)
                ratio = math.exp(-x) * e["kappa"] / height
                worst, n = max(worst, ratio), n + 1
                assert ratio <= 1, (m, k, j, ratio)
    print("envelopes: %d blocks checked, highest ratio %.9f" % (n, worst))


def main():
    env = envelopes()
    files = {GO: go_source(env), JSON: json.dumps(env, indent=1) + "\n"}
    if "--check" in sys.argv[1:] or "--quick" in sys.argv[1:]:
        for name, text in files.items():
            have = open(name).read()
            if "".join(have.split()) != "".join(text.split()):  # gofmt moves blanks
                sys.exit(name + " differs from what this program makes")
        check_envelopes(env, 16 if "--quick" in sys.argv[1:] else 1)
        return
    for name, text in files.items():
        with open(name, "w") as f:
            f.write(text)
    for e in env:
        area = sum(e["height"][:BLOCKS]) + 2 * e["height"][BLOCKS]
        print("offset %s kappa %d acceptance about %.3f" % (e["offset"], e["kappa"], 8 * mp.sqrt(mp.pi / 2) * e["kappa"] / area))


if __name__ == "__main__":
    main()
