#!/usr/bin/env python3
"""Slow, independent implementation of "wozniak/1" from docs/format.md, which checks the vectors in
../vectors/wozniak-1.json.

    python3 wozniak.py            every explicit vector and the short digests
    python3 wozniak.py --quick    a part of them in some seconds
    python3 wozniak.py --all      the long digests too (some minutes)

It holds the bounds of domain and range themselves, as the papers have them, where the Go code holds
differences.
"""
import hashlib
import json
import os
import sys

from coins import VECTORS, Coins, check_aes, splitmix64


def blocks(block, counter):
    """The blocks from a counter on, as numbers of 128 bits."""
    while True:
        hi, lo = block(counter)
        yield hi << 64 | lo
        counter += 1


def uniform(n, digits, length, more):
    """floor(U n) for the U in [0, 1) with these binary digits, which go on with the blocks more."""
    while digits * n >> length != ((digits + 1) * n - 1) >> length:
        digits, length = digits << 128 | next(more), length + 128
    return digits * n >> length


class Scheme:
    def __init__(self, key, conf):
        self.dmin, self.dmax, self.bits = conf["Min"], conf["Max"], conf["Range"]
        self.id = "wozniak/1 domain=[%d,%d] range=%d" % (self.dmin, self.dmax, self.bits)
        self.coins = Coins(key, "wozniak", self.id, "tree")
        subrange = Coins(key, "wozniak", self.id, "subrange")
        label = iter(range(5))

        def between(lo, hi):
            return lo + uniform(hi - lo + 1, 0, 0, blocks(subrange.at(0, 0, next(label)), 0))

        top, span = (1 << self.bits) - 1, self.dmax - self.dmin
        if between(0, 1) == 0:
            rmin = between(0, top - span)
            rmax = between(rmin + span, top)
        else:
            rmax = between(span, top)
            rmin = between(0, rmax - span)
        self.cmin = between(rmin, rmax - span)
        self.cmax = between(self.cmin + span, rmax) if span > 0 else self.cmin
        self.samples = {}

    def sample(self, dmin, dmax, cmin, cmax):
        """The pair that is decided first of those with these bounds."""
        if (dmin, dmax) not in self.samples:
            low, last = dmin - self.dmin, dmax - dmin
            if last < 1 << 32:
                k, block = 32, self.coins.at(1, low >> 32, (low & 0xFFFFFFFF) << 32 | last)
            else:
                k, block = 64, self.coins.at(0, low, last)
            more = blocks(block, 0)
            first = next(more)
            p = dmin + uniform(last + 1, first >> 128 - k, k, blocks(block, 1 << 62))
            rest = first & (1 << 128 - k) - 1
            lowest, highest = cmin + (p - dmin), cmax - (dmax - p)
            self.samples[dmin, dmax] = p, lowest + uniform(highest - lowest + 1, rest, 128 - k, more)
        return self.samples[dmin, dmax]

    def encrypt(self, x):
        pair = {self.dmin: self.cmin, self.dmax: self.cmax}
        dmin, dmax, cmin, cmax = self.dmin + 1, self.dmax - 1, self.cmin + 1, self.cmax - 1
        while x not in pair:
            p, c = self.sample(dmin, dmax, cmin, cmax)
            pair[p] = c
            if x < p:
                dmax, cmax = p - 1, c - 1
            else:
                dmin, cmin = p + 1, c + 1
        return pair[x].to_bytes((self.bits + 7) // 8, "big")


def main():
    check_aes()
    quick = "--quick" in sys.argv[1:]
    longest = 1 << 62 if "--all" in sys.argv[1:] else 1000
    with open(os.path.join(VECTORS, "wozniak-1.json")) as f:
        vectors = json.load(f)
    assert vectors["Scheme"] == "wozniak/1"
    key = bytes.fromhex(vectors["Key"])
    encryptions = digests = 0
    for n, conf in enumerate(vectors["Configurations"]):
        scheme = Scheme(key, conf)
        assert scheme.id == conf["ID"], conf["ID"]
        assert [str(scheme.cmin), str(scheme.cmax)] == conf["Ends"], conf["ID"]
        for case in conf["Cases"][n % 4::4] if quick else conf["Cases"]:
            assert scheme.encrypt(case["X"]).hex() == case["C"], (conf["ID"], case)
            encryptions += 1
        for digest in conf["Digests"]:
            if digest["Count"] > (100 if quick else longest) or quick and n % 3:
                continue
            h, outputs = hashlib.sha256(), splitmix64(digest["Seed"])
            for _ in range(digest["Count"]):
                x = scheme.dmin + (next(outputs) * (scheme.dmax - scheme.dmin + 1) >> 64)
                h.update(scheme.encrypt(x))
            assert h.hexdigest() == digest["SHA256"], (conf["ID"], digest)
            digests += 1
    assert encryptions > 0 and digests > 0, "no vectors"
    print("wozniak-1.json: %d encryptions, %d digests agree" % (encryptions, digests))


if __name__ == "__main__":
    main()
