"""What the slow references of the stateless schemes share: AES, key derivation and coins, from
docs/format.md, and the generator that vectors choose plaintexts with. Needs nothing but Python.
"""
import hashlib
import hmac
import os

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors")
MASK64 = (1 << 64) - 1


# AES-256 (FIPS 197), encryption only.

def _sbox():
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= (p << 1) ^ (0x11B if p & 0x80 else 0)  # p times 3
        p &= 0xFF
        q ^= q << 1                                  # q over 3
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        r = 0
        for i in range(5):
            r ^= (q << i | q >> (8 - i)) & 0xFF
        box[p] = r ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


SBOX = _sbox()
DOUBLE = [(x << 1 ^ (0x11B if x & 0x80 else 0)) & 0xFF for x in range(256)]
# One table for SubBytes and MixColumns together: the column that byte row 0 contributes.
COLUMN = [DOUBLE[s] << 24 | s << 16 | s << 8 | (DOUBLE[s] ^ s) for s in SBOX]


class AES256:
    def __init__(self, key):
        w = [int.from_bytes(key[i:i + 4], "big") for i in range(0, 32, 4)]
        rcon = 1
        for i in range(8, 60):
            t = w[-1]
            if i % 8 == 0:
                t = (t << 8 | t >> 24) & 0xFFFFFFFF
            if i % 4 == 0:
                t = int.from_bytes(bytes(SBOX[b] for b in t.to_bytes(4, "big")), "big")
            if i % 8 == 0:
                t ^= rcon << 24
                rcon = DOUBLE[rcon]
            w.append(w[i - 8] ^ t)
        self.keys = w

    def encrypt(self, block):
        """128-bit integer to 128-bit integer."""
        k = self.keys
        s = [(block >> 96 - 32 * i & 0xFFFFFFFF) ^ k[i] for i in range(4)]
        for r in range(4, 56, 4):
            s = [self._mix(s, i) ^ k[r + i] for i in range(4)]
        out = 0
        for i in range(4):
            word = 0
            for row in range(4):
                word = word << 8 | SBOX[s[(i + row) % 4] >> 24 - 8 * row & 0xFF]
            out = out << 32 | word ^ k[56 + i]
        return out

    @staticmethod
    def _mix(s, i):
        a, b = COLUMN[s[i] >> 24], COLUMN[s[(i + 1) % 4] >> 16 & 0xFF]
        c, d = COLUMN[s[(i + 2) % 4] >> 8 & 0xFF], COLUMN[s[(i + 3) % 4] & 0xFF]
        return (a ^ (b >> 8 | (b & 0xFF) << 24) ^ (c >> 16 | (c & 0xFFFF) << 16)
                ^ (d >> 24 | (d & 0xFFFFFF) << 8))


def check_aes():
    key = bytes(range(32))
    got = AES256(key).encrypt(0x00112233445566778899AABBCCDDEEFF)
    assert got == 0x8EA2B7CA516745BFEAFC49904B496089, "AES differs from FIPS 197, appendix C.3"


def expand(key, n, *labels):
    """ope.Key.Expand: HKDF-SHA256 without salt."""
    info = b"rangecrypt/key/1"
    for label in labels:
        raw = label if isinstance(label, bytes) else label.encode()
        info += len(raw).to_bytes(4, "big") + raw
    prk = hmac.new(bytes(32), key, hashlib.sha256).digest()
    out, t, i = b"", b"", 1
    while len(out) < n:
        t = hmac.new(prk, t + info + bytes([i]), hashlib.sha256).digest()
        out += t
        i += 1
    return out[:n]


class Coins:
    def __init__(self, key, *labels):
        okm = expand(key, 64, *labels)
        self.k1, self.k2, self.masks = AES256(okm[:32]), AES256(okm[32:]), {}

    def at(self, tag, u, v):
        """The function from counters to the two words of a block."""
        if (tag, u) not in self.masks:
            self.masks[tag, u] = self.k1.encrypt(tag << 120 | u)
        mask = self.masks[tag, u]
        memo = {}

        def block(counter):
            if counter not in memo:
                memo[counter] = divmod(self.k2.encrypt(mask ^ (v << 64 | counter)), 1 << 64)
            return memo[counter]
        return block

    def uniform(self, top):
        block, keep, n = self.at(0, 0, 0), (1 << top.bit_length()) - 1, 0
        while True:
            for word in block(n):
                if word & keep <= top:
                    return word & keep
            n += 1


def splitmix64(state):
    while True:
        state = state + 0x9E3779B97F4A7C15 & MASK64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
        yield z ^ z >> 31
