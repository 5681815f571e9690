#!/usr/bin/env python3
"""Slow, independent implementation of "boldyreva/1" and "mope/1" from docs/format.md, which checks
the vectors in ../vectors.

    python3 boldyreva.py            every explicit vector and the short digests
    python3 boldyreva.py --quick    a part of them in some seconds
    python3 boldyreva.py --all      the long digests too (an hour or so)

Probabilities are exact fractions or mpmath numbers of 420 bits, for which mpmath is needed
(requirements.txt).
"""
import hashlib
import json
import os
import sys
from fractions import Fraction
from math import isqrt

from mpmath import exp, loggamma, mp, mpf

from coins import MASK64, VECTORS, Coins, check_aes, expand, splitmix64

mp.prec = 420  # ln Gamma(2^127) has 134 bits before the point


class Undecided(Exception):
    pass


def below(bound, digits, length, more):
    """Whether the real number that starts with the binary digits is below a Fraction or mpf."""
    if isinstance(bound, Fraction):
        while True:
            if Fraction(digits + 1, 1 << length) <= bound:
                return True
            if Fraction(digits, 1 << length) >= bound:
                return False
            digits, length = digits << 64 | next(more), length + 64
    difference = mpf(digits) / mpf(2) ** length - bound
    if abs(difference) < mpf(2) ** -(length - 4) * 8:
        raise Undecided("these digits do not decide, and never should have to")
    return difference < 0


def extension(block, proposal):
    n = 0
    while True:
        yield from block(proposal << 16 | (0x8001 + n))
        n += 1


with open(os.path.join(VECTORS, "boldyreva-1-tables.json")) as table_file:
    ENVELOPES = json.load(table_file)


def points_below(block, k, m):
    """The number of m points, 1 < m < 2^k, in the lower half of a range of k bits."""
    if m > 1 << (k - 1):
        return (1 << (k - 1)) - points_below(block, k, (1 << k) - m)
    return by_bits(block, k, m) if m <= 192 else by_histogram(block, k, m)


def by_bits(block, k, m):
    proposal = 0
    while True:
        v, coins = block(proposal << 16)
        if m > 64:
            b1, b2 = block(proposal << 16 | 1)
            coins = (coins << 64 | b1) << 64 | b2
            coins >>= 192 - m
        else:
            coins >>= 64 - m
        x = bin(coins).count("1")
        # Hypergeometric over binomial probability, relative to its largest value.
        h, c, odd = (abs(2 * x - m) - m % 2) // 2, (1 << (k - 1)) - (m + 1) // 2, m % 2
        p = Fraction(1)
        for i in range(1, h + 1):
            p *= Fraction(c - i + 1, c + odd + i)
        if below(p, v, 64, extension(block, proposal)):
            return x
        proposal += 1


def envelope_of(v):
    for limit, env in zip((1 << 8, 1 << 10, 1 << 12, 1 << 16), ENVELOPES):
        if v < limit:
            return env
    return ENVELOPES[4]


def block_width(v, fraction):
    s = (v.bit_length() - 9) // 2 * 2
    i = v >> s if s >= 0 else v << -s
    root = isqrt((i + 1 << 32) - 1) + 1
    scaled = Fraction(root) * Fraction(2) ** (s // 2)          # 2^16 times above sqrt(v)
    return int(scaled / 2 ** 16 * Fraction(1 << fraction, 16)) + 1


def ln_g(a, d):
    return 2 * loggamma(mpf(a + 1) / 2) - loggamma(mpf(a + 1 + d) / 2) - loggamma(mpf(a + 1 - d) / 2)


def by_histogram(block, k, m):
    big_n, v = 1 << k, m + 1 - (m * m >> k)
    env = envelope_of(v)
    width = block_width(v, env["fraction"])
    proposal = -1
    while True:
        proposal += 1
        a, u = block(proposal << 16)
        r, low = divmod(u * width, 1 << 64)
        if low < (1 << 64) % width:
            continue
        j = a >> 58
        if a >> 32 & (1 << 25) - 1 >= env["threshold"][j]:
            j = env["alias"][j]
        e0, g = block(proposal << 16 | 0x8000)
        tail = 0
        if j == 46:
            if g == 0:
                continue
            tail = 64 - g.bit_length()
        e = (j + tail) * width + r >> env["fraction"]
        x = (m + 1) // 2 + e if not a >> 57 & 1 else (m + 1) // 2 - 1 - e
        d = abs(2 * x - m)
        if d > m:
            continue
        p = exp(ln_g(m + 1, d) + ln_g(big_n - m + 1, d)) * env["kappa"] * 2 ** tail / env["height"][j]
        assert p < 1, "the envelope is not above the law"
        if below(p, (a & 0xFFFFFFFF) << 64 | e0, 96, None):
            return x


def cells_of(block, k, m):
    """The cells, ascending, of m <= 8 points of a range of k >= 8 bits."""
    depth, proposal = min(k, 16), 0
    size = 1 << (k - depth)
    while True:
        hi, lo = block(proposal << 16)
        places = sorted(((hi << 64 | lo) >> 112 - 16 * i & 0xFFFF) >> 16 - depth for i in range(m))
        p, ties = Fraction(1), 0
        for i in range(1, m):
            ties = ties + 1 if places[i] == places[i - 1] else 0
            p *= 1 - Fraction(ties, size)
        more = extension(block, proposal)
        if p == 1 or p > 0 and below(p, 0, 0, more):
            return places
        proposal += 1


class Scheme:
    def __init__(self, key, conf, modular):
        self.min, self.m, self.bits = conf["Min"], conf["Max"] - conf["Min"] + 1, conf["Range"]
        self.id = "%s domain=[%d,%d] range=%d" % ("mope/1" if modular else "boldyreva/1", conf["Min"], conf["Max"], self.bits)
        self.coins = Coins(key, "boldyreva", self.id, "coins")
        self.shift = Coins(key, "boldyreva", self.id, "shift").uniform(self.m - 1) if modular else 0
        self.nodes = {}

    def block(self, base, k):
        mid = base + (1 << (k - 1))
        if k > 64:
            return self.coins.at(1, 0, mid >> 64)
        return self.coins.at(0, base >> 64, mid & MASK64)

    def node(self, f, base, k, m):
        if (base, k) not in self.nodes:
            self.nodes[base, k] = f(self.block(base, k), k, m)
        return self.nodes[base, k]

    def encrypt(self, x):
        rank = (x - self.min + self.shift) % self.m
        base, k, m = 0, self.bits, self.m
        while m > 1:
            if m == 1 << k:
                return self.encode(base + rank)
            if m <= 8 and k >= 8:
                cells = self.node(cells_of, base, k, m)
                cell = cells[rank]
                rank -= sum(c < cell for c in cells)
                m = cells.count(cell)
                k -= min(k, 16)
                base += cell << k
                continue
            lower = self.node(points_below, base, k, m)
            k -= 1
            if rank < lower:
                m = lower
            else:
                rank, m, base = rank - lower, m - lower, base + (1 << k)
        if k > 0:
            hi, lo = self.block(base, k)(1 << 63)
            base += (hi << 64 | lo) & ((1 << k) - 1)
        return self.encode(base)

    def encode(self, number):
        return number.to_bytes((self.bits + 7) // 8, "big")


def check_file(name, quick, longest):
    with open(os.path.join(VECTORS, name)) as f:
        vectors = json.load(f)
    key = bytes.fromhex(vectors["Key"])
    done = dict(encryptions=0, digests=0, nodes=0)
    for n, conf in enumerate(vectors["Configurations"]):
        scheme = Scheme(key, conf, vectors["Scheme"] == "mope/1")
        assert scheme.id == conf["ID"], conf["ID"]
        assert str(scheme.shift) == conf.get("Shift", "0"), conf["ID"]
        for case in conf["Cases"][n % 4::4] if quick else conf["Cases"]:
            assert scheme.encrypt(case["X"]).hex() == case["C"], (conf["ID"], case)
            done["encryptions"] += 1
        for digest in conf["Digests"]:
            if quick or digest["Count"] > longest:
                continue
            h, outputs = hashlib.sha256(), splitmix64(digest["Seed"])
            for _ in range(digest["Count"]):
                h.update(scheme.encrypt(scheme.min + (next(outputs) * scheme.m >> 64)))
            assert h.hexdigest() == digest["SHA256"], (conf["ID"], digest)
            done["digests"] += 1
    nodes = Coins(key, "boldyreva", "vectors", "nodes")
    for f, kind, result, read in ((points_below, "Samples", "Lower", int), (cells_of, "Scatters", "Cells", list)):
        for s in vectors[kind] or []:
            labels = list(zip(s["V"], s[result]))
            for v, want in labels[-1:] if quick else labels:
                got = f(nodes.at(0, s["Bits"], v), s["Bits"], int(s["Points"]))
                assert got == read(want), (kind, s, v)
                done["nodes"] += 1
    assert done["encryptions"] > 0, "no vectors in " + name
    print(name + ": " + ", ".join("%d %s" % (n, what) for what, n in done.items()) + " agree")


def check_text(name, quick):
    """Text in pieces of eight bytes, each under a key of those before it."""
    with open(os.path.join(VECTORS, name)) as f:
        vectors = json.load(f)
    key, schemes, done = bytes.fromhex(vectors["Key"]), {}, 0
    for n, conf in enumerate(vectors["Configurations"]):
        assert conf["ID"] == "boldyreva-text/1 bytes=%d" % conf["Bytes"], conf["ID"]
        for case in conf["Cases"][n % 20::20] if quick else conf["Cases"]:
            x, c = bytes.fromhex(case["X"])[:conf["Bytes"]].ljust(conf["Bytes"], b"\0"), b""
            for i in range(0, len(x), 8):
                if (conf["ID"], x[:i]) not in schemes:
                    own = expand(key, 32, conf["ID"], x[:i])
                    schemes[conf["ID"], x[:i]] = Scheme(own, {"Min": -1 << 63, "Max": (1 << 63) - 1, "Range": 128}, False)
                c += schemes[conf["ID"], x[:i]].encrypt(int.from_bytes(x[i:i + 8], "big") - (1 << 63))
            assert c.hex() == case["C"], (conf["ID"], case)
            done += 1
    assert done > 0, "no vectors in " + name
    print("%s: %d encryptions agree" % (name, done))


def main():
    check_aes()
    quick = "--quick" in sys.argv[1:]
    longest = 1 << 62 if "--all" in sys.argv[1:] else 1000
    for name in ("boldyreva-1.json", "mope-1.json"):
        check_file(name, quick, longest)
    check_text("boldyreva-text-1.json", quick)


if __name__ == "__main__":
    main()
