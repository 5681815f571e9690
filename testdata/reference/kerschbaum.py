#!/usr/bin/env python3
"""Independent implementation of the ranks and ciphertexts of "kerschbaum-ranked/1" from docs/format.md, with which the vectors
in ../vectors/kerschbaum-ranked-1.json are made.

    python3 kerschbaum.py            checks that the vectors are those that it makes
    python3 kerschbaum.py --write    writes them again; only before a version is released

A vector is an order in which values come to an empty index, one after the other, and the ciphertext that each of them gets.
"""
import bisect
import json
import os
import sys

from coins import VECTORS, AES256, check_aes, expand, splitmix64

FILE = os.path.join(VECTORS, "kerschbaum-ranked-1.json")
TOP = (1 << 192) - 1


def turn(shape, direction):
    """The shape of what is put below an element, on one of its sides. Shapes are (depth, run, alt, dir)."""
    depth, run, alt, was = shape
    if was == 0:
        return depth + 1, 1, 0, direction
    if was == direction:
        return depth + 1, run + 1, 0, direction
    return depth + 1, 1, alt + 1, direction


def place_rank(left, right):
    """The rank and the shape of what is put between two neighbours. All three are (number, shared, shape)."""
    (low, _, l), (high, _, r) = left, right
    assert l[0] != r[0] or l[0] == 0, "neighbours of equal depth"
    shape = (1, 0, 0, 0) if l[0] == r[0] else turn(l, +1) if l[0] > r[0] else turn(r, -1)
    gap = high - low
    if gap < 2:
        return low, 1, shape
    _, run, alt, direction = shape
    n, d = 2, +1
    if run >= 4:
        n, d = run - 1, direction
    elif alt >= 4:
        n, d = alt - 1, -direction
    offset = max(1, gap // n)
    return low + offset if d > 0 else high - offset, 0, shape


class Index:
    """The ranks of an index that only grows. Where labels move meanwhile, shapes stay, and so do ranks."""

    def __init__(self):
        self.values, self.elements = [], [(0, 0, (0, 0, 0, 0)), (TOP, 0, (0, 0, 0, 0))]

    def put(self, value):
        i = bisect.bisect_left(self.values, value)
        if i == len(self.values) or self.values[i] != value:
            self.values.insert(i, value)
            self.elements.insert(i + 1, place_rank(self.elements[i], self.elements[i + 1]))
        return self.elements[i + 1][:2]

    def check(self):
        """Ranks are in the order of the values, and what is shared is shared with the value below."""
        for (number, _, _), (above, shared, _) in zip(self.elements, self.elements[1:]):
            assert number == above if shared else number < above, "ranks out of order"


class Ciphers:
    def __init__(self, key):
        okm = expand(key, 64, "kerschbaum", "ranked")
        self.k1, self.k2 = AES256(okm[:32]), AES256(okm[32:])

    def ciphertext(self, value, number, shared):
        first, last = divmod(number, 1 << 64)
        tag = self.k2.encrypt(self.k1.encrypt(first) ^ (value % (1 << 64) << 64 | last))
        return number.to_bytes(24, "big") + bytes([shared]) + tag.to_bytes(16, "big")


# The orders in which values come.


def distinct(values, n):
    """The first n different values."""
    out = {}
    while len(out) < n:
        out.setdefault(next(values))
    return list(out)


def scaled(seed, lo, hi):
    """Numbers from lo to hi, drawn evenly."""
    for z in splitmix64(seed):
        yield lo + (z * (hi - lo + 1) >> 64)


def inwards(n, lowest):
    """0 to n-1 from the two ends inwards; lowest says for each step whether it is taken from the lower end."""
    low, high, out = 0, n - 1, []
    while low <= high:
        if next(lowest):
            out.append(low)
            low += 1
        else:
            out.append(high)
            high -= 1
    return out


def coins(seed):
    return (z >> 63 for z in splitmix64(seed))


def cycle(*bits):
    while True:
        yield from bits


def bursts(seed, lo, hi):
    """Ascending runs of 20 values from random places."""
    for at in scaled(seed, lo, hi - 100):
        for i in range(20):
            yield at + 3 * i


def preorder(lo, hi):
    if lo > hi:
        return []
    middle = (lo + hi + 1) // 2
    return [middle] + preorder(lo, middle - 1) + preorder(middle + 1, hi)


INT64 = -2**63, 2**63 - 1

ARRIVALS = [
    # name, domain, values
    ("one value", (7, 7), [7]),
    ("the ends first", INT64, [INT64[1], INT64[0], 0, -1, 1, INT64[1] - 1, INT64[0] + 1]),
    ("random", INT64, distinct(scaled(1, *INT64), 200)),
    ("random, some again", (-128, 127), [x for _, x in zip(range(200), scaled(2, -128, 127))]),
    ("ascending", INT64, [10 * i - 700 for i in range(150)]),
    ("descending", INT64, [700 - 10 * i for i in range(150)]),
    ("the middle first", (0, 120), preorder(0, 120)),
    ("in turn", (0, 199), inwards(200, cycle(1, 0))),
    ("two and one", (0, 199), inwards(200, cycle(1, 1, 0))),
    ("three and three", (0, 199), inwards(200, cycle(1, 1, 1, 0, 0, 0))),
    ("bursts", INT64, distinct(bursts(3, *INT64), 200)),
    ("coin flips", (0, 399), inwards(400, coins(4))),
    ("coin flips, and then random", (-1000, 999), [5 * x - 1000 for x in inwards(400, coins(5))][:260] + distinct(scaled(6, -1000, 999), 100)),
]


def make():
    key = bytes(range(32))
    ciphers, arrivals = Ciphers(key), []
    for name, (lo, hi), values in ARRIVALS:
        index = Index()
        ranks = [index.put(x) for x in values]
        index.check()
        arrivals.append({
            "Name": name, "ID": "kerschbaum-ranked/1 domain=[%d,%d]" % (lo, hi), "Min": lo, "Max": hi, "Values": values,
            "Shared": sum(shared for _, shared, _ in index.elements),
            "Ciphertexts": [ciphers.ciphertext(x, *rank).hex() for x, rank in zip(values, ranks)],
        })
    comment = "Written by testdata/reference/kerschbaum.py --write: what values get that come to an empty index, one after the other."
    return {"Comment": comment, "Scheme": "kerschbaum-ranked/1", "Key": key.hex(), "Arrivals": arrivals}


def main():
    check_aes()
    made = make()
    if "--write" in sys.argv[1:]:
        with open(FILE, "w") as f:
            json.dump(made, f, indent=1)
            f.write("\n")
    with open(FILE) as f:
        assert json.load(f) == made, "the vectors are others"
    count, shared = sum(len(a["Values"]) for a in made["Arrivals"]), sum(a["Shared"] for a in made["Arrivals"])
    assert shared > 100, "too few values share a rank"
    print("kerschbaum-ranked-1.json: %d ciphertexts agree, of %d values that share a rank" % (count, shared))


if __name__ == "__main__":
    main()
