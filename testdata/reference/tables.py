#!/usr/bin/env python3
"""Independent reader of encrypted tables, from docs/format.md. It needs nothing but Python 3.8; with mpmath
(requirements.txt) it also holds the row keys of pages to the keys of the pages, whatever the scheme is.

    python3 tables.py DUMP.json

The dump holds the master key and every family, row and cell of a database (the form of
../vectors/table-1.json). All sealed values are opened, hashes in row keys and posting keys are
computed again, ciphertexts are held to the order of their plaintexts, every posting to its row, every copy in a posting, too,
and the indexes of stateful schemes to the values of the rows; where these have ranks, so are the ciphertexts. What the tables hold is printed as JSON: {"tables": {table:
[{column: value as text}]}, "tenants": {table: {tenant: [row]}}, "orphans": {table: number of rows of tenants that are gone},
"dangling": {table: number of postings that point to nothing}, "elsewhere": {table: [value as text, of each cell of "elsewhere" in
the dump, which are of tables that the application keeps]}}, rows in the order of their keys. Any deviation from the format is
an error.

Rows that have expired are left out: by "now" of the dump, in seconds since 1970, or else by the machine's clock.

Of a table whose rows are in pages, the row keys are computed from the parts with boldyreva.py and wozniak.py. The ciphertexts of
other tables are the business of these alone, and which rank a value gets is that of kerschbaum.py.
"""
import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
import math
import struct
import sys
import time
from decimal import Decimal

import wozniak
from coins import AES256, Coins
from coins import expand as expand_labels

try:
    import boldyreva
except ImportError:  # there is no mpmath
    boldyreva = None

# Cryptography: HKDF (RFC 5869), ChaCha20-Poly1305 (RFC 8439), HChaCha20 (draft-irtf-cfrg-xchacha-03).


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def hkdf(secret, info, n):
    prk, out, block, i = mac(bytes(32), secret), b"", b"", 1
    while len(out) < n:
        block = mac(prk, block + info + bytes([i]))
        out, i = out + block, i + 1
    return out[:n]


def rotate(x, n):
    return (x << n | x >> (32 - n)) & 0xFFFFFFFF


def rounds(state):
    s = list(state)
    columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for _ in range(10):
        for a, b, c, d in columns + diagonals:
            for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                s[x] = (s[x] + s[y]) & 0xFFFFFFFF
                s[z] = rotate(s[z] ^ s[x], n)
    return s


CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")


def hchacha20(key, nonce16):
    s = rounds(CONSTANTS + struct.unpack("<8I", key) + struct.unpack("<4I", nonce16))
    return struct.pack("<8I", *s[:4], *s[12:])


def chacha20(key, counter, nonce12, n):
    out = b""
    while len(out) < n:
        state = CONSTANTS + struct.unpack("<8I", key) + (counter,) + struct.unpack("<3I", nonce12)
        out += struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(rounds(state), state)))
        counter += 1
    return out[:n]


def poly1305(key, message):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for i in range(0, len(message), 16):
        total = (total + int.from_bytes(message[i:i + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def xchacha20poly1305_open(key, nonce24, ciphertext, ad):
    key, nonce = hchacha20(key, nonce24[:16]), bytes(4) + nonce24[16:]
    body, tag = ciphertext[:-16], ciphertext[-16:]
    pad = lambda b: b + bytes(-len(b) % 16)
    message = pad(ad) + pad(body) + struct.pack("<QQ", len(ad), len(body))
    check(hmac.compare_digest(poly1305(chacha20(key, 0, nonce, 32), message), tag), "a tag is wrong")
    return bytes(a ^ b for a, b in zip(body, chacha20(key, 1, nonce, len(body))))


def check(ok, what):
    if not ok:
        raise ValueError(what)


# Keys and sealed values.


def place(*parts):
    return b"".join(struct.pack(">I", len(p)) + p for p in parts)


def expand(key, n, *labels):
    info = b"rangecrypt/key/1"
    for label in labels:
        info += struct.pack(">I", len(label)) + label.encode()
    return hkdf(key, info, n)


def derive(key, *labels):
    return expand(key, 32, *labels)


def unseal(key, sealed, where, of_row=False):
    """Returns the plaintext and the write id. Cells of rows have a policy version."""
    check(len(sealed) >= 77 and sealed[0] == 2, "not a sealed value")
    check(sealed[1:17] == hkdf(key, b"rangecrypt/seal/2 id", 16), "sealed under another key")
    header, nonce = sealed[17:37], sealed[37:61]
    check((header[:4] != bytes(4)) == of_row, "a policy version that should or should not be 0")
    cipher_key = hkdf(key, b"rangecrypt/seal/2 key", 32)
    return xchacha20poly1305_open(cipher_key, nonce, sealed[61:], where + header), header[4:]


def unseal_any(keys, sealed, where):
    """unseal a cell of a row with that of the keys whose id it carries."""
    ids = [hkdf(key, b"rangecrypt/seal/2 id", 16) for key in keys]
    return unseal(keys[ids.index(sealed[1:17])], sealed, where, of_row=True)


def policy_version(cell):
    return struct.unpack(">I", cell[1:5] if cell[0] == 1 else cell[17:21])[0]


def open_plain(cell):
    check(len(cell) >= 21 and cell[0] == 1 and cell[1:5] != bytes(4), "not a plain cell")
    return cell[21:], cell[5:21]


# Types: canonical bytes, order codes, and texts.

INT64 = (-2**63, 2**63 - 1)
FLOAT_MAX = {4: 0x7F800000, 8: 0x7FF0000000000000}


class Type:
    def __init__(self, name):
        base, _, limits = name.partition(" within=")
        self.base, self.name = base, base.split("/")[0]
        self.size = {"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4,
                     "date": 4, "ipv4": 4, "ipv6": 16, "uuid": 16, "string": 0, "bytes": 0}.get(self.name, 8)
        self.unsigned = self.name in ("uint8", "uint16", "uint32", "bool", "ipv4")
        self.text_order = int(base.partition("/2 order=")[2] or 0)
        self.exact = self.name not in ("string", "bytes", "ipv6", "uuid")
        bits = 8 * self.size
        if limits:
            self.domain = tuple(int(x) for x in limits.strip("[]").split(","))
        elif self.name == "bool":
            self.domain = (0, 1)
        elif self.name.startswith("float"):
            self.domain = (-FLOAT_MAX[self.size], FLOAT_MAX[self.size])
        elif base == "time/1 unit=s":
            self.domain = (-2**63, 2**63 - 1 - 62_135_596_800)
        elif self.unsigned:
            self.domain = (0, 2**bits - 1)
        elif self.exact and self.size < 8:
            self.domain = (-2**(bits - 1), 2**(bits - 1) - 1)
        else:
            self.domain = INT64

    def canonical(self, exact):
        """The bytes that equal values share, of those that a cell has."""
        if self.name.startswith("float") and exact == bytes(self.size):  # the negative zero
            return b"\x80" + exact[1:]
        return exact

    def code(self, exact):
        """The order code of a value, or all bytes of a text that are in order."""
        canonical = self.canonical(exact)
        if self.base.startswith("string/3 prefixed/1 "):
            return self.after_beginning(canonical)
        if self.text_order:
            return int.from_bytes(canonical[:self.text_order].ljust(self.text_order, b"\0"), "big")
        if self.name == "ipv6" or not self.exact:
            return int.from_bytes((canonical + bytes(8))[:8], "big") - 2**63
        u = int.from_bytes(canonical, "big")
        return u if self.unsigned else u - 2**(8 * self.size - 1)

    def after_beginning(self, value):
        """The code of text after one of the beginnings that the type names."""
        beginnings = [bytes.fromhex(h) for h in self.base.split()[2:]]
        starts = {b""}
        for p in beginnings:
            starts.add(p)
            if p.rstrip(b"\xff"):
                low = p.rstrip(b"\xff")
                starts.add(low[:-1] + bytes([low[-1] + 1]))
        starts = sorted(starts)
        s = max(i for i, start in enumerate(starts) if start <= value)
        inside = [p for p in beginnings if starts[s].startswith(p)]
        rest = value[len(max(inside, key=len, default=b"")):][:8].ljust(8, b"\0")
        k = (len(starts) - 1).bit_length()
        return (s << (64 - k)) + (int.from_bytes(rest, "big") >> k) - 2**63

    def text(self, canonical):
        check(self.size in (0, len(canonical)), "a value of the wrong length")
        if self.name == "string":
            return canonical.decode()
        if self.name in ("bytes", "uuid"):
            return canonical.hex()
        if self.name in ("ipv4", "ipv6"):
            return str(ipaddress.ip_address(canonical))
        if self.name.startswith("float"):  # of IEEE 754: any bits
            sign = 1 << (8 * self.size - 1)
            u = int.from_bytes(canonical, "big")
            return "%0*x" % (2 * self.size, u - sign if u >= sign else sign if u == 0 else 2 * sign - u)
        code = self.code(canonical)
        check(self.domain[0] <= code <= self.domain[1], "a value outside of its domain")
        if self.name == "bool":
            return ["false", "true"][code]
        if self.name == "uint64":
            return str(code + 2**63)
        if self.name == "date":
            return (datetime.date(1970, 1, 1) + datetime.timedelta(days=code)).isoformat()
        if self.name == "time":
            return "%d %s" % (code, self.base.split("=")[1])
        if self.name == "decimal":
            return str(Decimal(code).scaleb(-int(self.base.split("=")[1])))
        return str(code)


def sortable(typ, canonical):
    return canonical if typ.size else canonical.replace(b"\0", b"\0\xff") + b"\0\1"


def cut_sortable(typ, b):
    if typ.size:
        return b[:typ.size], b[typ.size:]
    out = b""
    while True:
        i = b.index(b"\0")
        out, follow, b = out + b[:i], b[i + 1], b[i + 2:]
        if follow == 1:
            return out, b
        check(follow == 0xFF, "a wrong escape")
        out += b"\0"


def cut_number(b):
    n, shift, i = 0, 0, 0
    while True:
        n |= (b[i] & 0x7F) << shift
        i, shift = i + 1, shift + 7
        if b[i - 1] < 0x80:
            return n, b[i:]


def cut_sized(b):
    n, b = cut_number(b)
    check(n <= len(b), "cut short")
    return b[:n], b[n:]


# Tables.


class Keys:
    """The keys of a table: what is wrapped in its entry, and what is derived for it."""

    def __init__(self, database_id, database_key, table_id):
        table_key = derive(database_key, "table", table_id)
        self.table, self.database_id, self.database_key = table_id, database_id, database_key
        self.wrapping = derive(table_key, "wrap")

    def unwrap(self, purpose, column, wrapped):
        where = place(b"key", bytes.fromhex(self.table), column, purpose)
        key = unseal(self.wrapping, base64.b64decode(wrapped, validate=True), where)[0]
        check(len(key) == 32, "a key of the wrong length")
        return key

    def secret(self, purpose, n, secure_type):
        return expand(derive(self.database_key, "secure type"), n, purpose, *secure_type)


class TenantKeys(Keys):
    """The keys of a table for a tenant, in the place of the table's own."""

    def __init__(self, keys, tenant):
        self.table, self.database_id, self.database_key = keys.table, keys.database_id, keys.database_key
        self.wrapping, self.first = keys.wrapping, tenant.keys[0]
        self.token, self.tenant = tenant.token(keys.table), tenant

    def secret(self, purpose, n, secure_type):
        return expand(derive(self.first, "secure type"), n, purpose, *secure_type)

    def search(self, owner):
        return derive(self.first, "search", owner["table"], owner["column"])

    def unit(self, owner):
        return owner["column"] + expand(self.first, 16, "unit", owner["table"]).hex()

    def all(self, purpose, column):
        return [derive(key, purpose, self.table, column.hex()) for key in self.tenant.keys]


class ElsewhereKeys(Keys):
    """The keys of a table whose rows the application keeps."""

    def unwrap(self, purpose, column, wrapped):
        return super().unwrap(purpose + b" elsewhere", column, wrapped)


class Tenant:
    def __init__(self, meta, database_key):
        self.name, self.id, self.policies, self.since = meta["name"], meta["id"], meta.get("policies", {}), meta["since"]
        self.database_key, wrapping = database_key, derive(database_key, "tenants", "wrap")
        where = place(b"tenant key", bytes.fromhex(self.id))
        self.keys = [unseal(wrapping, base64.b64decode(w, validate=True), where)[0] for w in meta["keys"]]

    def token(self, table):
        return expand(derive(derive(self.database_key, "table", table), "tenants"), 16, self.id)


class Field:
    def __init__(self, meta, keys):
        of_tenant = isinstance(keys, TenantKeys)
        self.id, self.name, self.since = bytes.fromhex(meta["id"]), meta["name"], meta["since"]
        self.encryption, self.scheme = meta["encryption"], meta.get("scheme", "")
        self.number = meta.get("number", 0)  # in pages
        self.type = Type(meta["type"])
        self.cell_keys = [keys.unwrap(b"cell", self.id, w) for w in meta.get("cell_keys", [])]
        if of_tenant:
            self.cell_keys = keys.all("cell", self.id)
        self.lead = self.id + (keys.token if of_tenant else b"")  # of postings
        self.by_policy = of_tenant and self.encryption in ("plain", "randomised")
        secure_type = [meta["type"], self.encryption, self.scheme]
        confidentiality = meta.get("confidentiality", "")
        check(confidentiality in ("", "multicolumn", "database"), "an unknown confidentiality")
        if confidentiality == "database":
            key = keys.secret("search", 32, secure_type)
            self.state = "i" + keys.database_id, keys.secret("unit", 8, secure_type).hex()
        elif self.encryption in ("ordered", "hashed", "deterministic"):
            key = keys.unwrap(b"search", self.id, meta["search_key"])
            owner = meta.get("share", {"table": keys.table, "column": meta["id"]})
            check((confidentiality == "multicolumn") == ("share" in meta), "a key shared with none")
            self.state = "i" + owner["table"], owner["column"]
            if of_tenant:
                key, self.state = keys.search(owner), ("i" + owner["table"], keys.unit(owner))
        else:
            key, self.state = bytes(32), None
        if meta.get("unit", 0) > 0:
            family, unit = self.state
            self.state = family, "%s-%08x" % (unit[:31], meta["unit"])
        self.token_key = derive(key, "token")
        self.clear = self.encryption in ("plain", "tie") or self.scheme in ("plaintext", "plaintext-indexed")
        self.mutable = self.scheme in ("kerschbaum", "kerschbaum-published", "plaintext-indexed")
        self.ranked = self.scheme == "kerschbaum-ranked"
        check(not self.ranked or confidentiality == "" and not {"share", "unit", "filling"} & set(meta), "a column with ranks whose index is not its own")
        self.stateful = self.mutable or self.ranked or self.scheme == "wozniak-indexed"
        self.order_key = derive(key, "order")
        self.searched = self.encryption in ("ordered", "deterministic")
        self.covering = meta.get("covering", False)
        self.copied = meta.get("copied")  # ids of the columns that copies have, or None
        check(self.copied is None or self.covering, "columns to copy of a column that does not cover")
        check(not self.covering or self.searched and self.scheme != "wozniak-indexed", "a column that cannot cover")
        self.served = meta.get("server_index", False)  # the database has an index of it
        check(not self.served or self.searched and not self.covering and not self.stateful, "a column that cannot have a server index")
        self.posted = self.searched and not self.served
        if self.served:
            self.lead = keys.token[:4] if of_tenant else b""
        self.pairs = []  # (ciphertext, order code)
        self.units = {}  # of its index
        self.machine = None  # what computes its ciphertexts
        if self.encryption == "ordered":
            b = (self.type.domain[1] - self.type.domain[0]).bit_length()
            self.plain_size = max(1, (b + 7) // 8)
            if self.type.text_order:
                check(self.scheme == "boldyreva", "an unknown scheme of text")
                self.size = 2 * self.type.text_order
            elif self.mutable:
                self.size = 16
            elif self.ranked:
                self.size = RANK + 16
                okm = expand(self.order_key, 64, "kerschbaum", "ranked")
                self.k1, self.k2 = AES256(okm[:32]), AES256(okm[32:])
            elif self.scheme == "plaintext":
                self.size = self.plain_size
            elif self.scheme in ("wozniak", "wozniak-indexed"):
                self.size = (max(3 * b, b + 64) + 7) // 8
                self.range = max(3 * b, b + 64)
            else:
                check(self.scheme in ("boldyreva", "mope"), "an unknown scheme")
                self.size = min(128, 8 * math.ceil(max(2 * b, b + 8) / 8)) // 8
        self.carried = self.size if self.encryption == "ordered" else 16  # bytes of a posting, if the column has some

    def token(self, exact):
        return mac(self.token_key, self.type.canonical(exact))[:16]

    def code_token(self, code):
        """What postings of a column with a mutable scheme carry."""
        bits = struct.pack(">q", code)
        if self.clear:
            spread = code * 0x9E3779B97F4A7C15 % 2**64
            return struct.pack(">Q", spread ^ spread >> 32) + bits
        return mac(self.token_key, bits)[:16]

    def ciphertext(self, ct, canonical):
        """Checks a ciphertext as far as it can be without the scheme."""
        check(len(ct) == self.size, "a ciphertext of the wrong length")
        code = self.type.code(canonical)
        if self.mutable:
            check(ct == self.code_token(code), "the token of a code is wrong")
        if self.scheme == "plaintext":
            check(ct == (code - self.type.domain[0]).to_bytes(self.size, "big"), "not the plaintext")
        self.pairs.append((ct, code))

    def key_bytes(self, exact):
        """Returns what a value has in a row key, and whether that is only in the order of it."""
        canonical = self.type.canonical(exact)
        if self.encryption == "hashed":
            return self.token(exact), False
        if self.encryption != "ordered":
            return sortable(self.type, canonical), False
        ct, stands_in = self.encrypt(canonical)
        if not stands_in:
            self.ciphertext(ct, exact)
        return ct + (b"" if self.type.exact else self.token(exact)), stands_in

    def encrypt(self, canonical):
        """Returns the ciphertext of a value or, where that takes mpmath and there is none, bytes in the order of the ciphertexts, and
        whether it is such bytes."""
        low, high = self.type.domain
        code, conf = self.type.code(canonical), {"Min": low, "Max": high, "Range": 8 * self.size}
        if self.scheme == "plaintext":
            return (code - low).to_bytes(self.size, "big"), False
        if self.scheme == "wozniak":
            self.machine = self.machine or wozniak.Scheme(self.order_key, dict(conf, Range=self.range))
            return self.machine.encrypt(code), False
        if self.type.text_order:
            n = self.type.text_order
            text = canonical[:n].ljust(n, b"\0")
            if boldyreva is None:
                return text, True
            self.machine = self.machine or {}
            ct, identifier = b"", "boldyreva-text/1 bytes=%d" % n
            for i in range(0, n, 8):
                if text[:i] not in self.machine:
                    own = expand_labels(self.order_key, 32, identifier, text[:i])
                    self.machine[text[:i]] = boldyreva.Scheme(own, {"Min": -2**63, "Max": 2**63 - 1, "Range": 128}, False)
                ct += self.machine[text[:i]].encrypt(int.from_bytes(text[i:i + 8], "big") - 2**63)
            return ct, False
        if boldyreva is None:
            shift = 0
            if self.scheme == "mope":
                identifier = "mope/1 domain=[%d,%d] range=%d" % (low, high, conf["Range"])
                shift = Coins(self.order_key, "boldyreva", identifier, "shift").uniform(high - low)
            return ((code - low + shift) % (high - low + 1)).to_bytes(self.size, "big"), True
        self.machine = self.machine or boldyreva.Scheme(self.order_key, conf, self.scheme == "mope")
        return self.machine.encrypt(code), False

    def of_rank(self, rank, code):
        """The ciphertext of a code with a rank."""
        mask = self.k1.encrypt(int.from_bytes(rank[:16], "big"))
        tag = self.k2.encrypt(mask ^ (code % 2**64 << 64 | int.from_bytes(rank[16:24], "big")))
        return rank + tag.to_bytes(16, "big")

    def check_ranks(self, index):
        """Checks the ciphertexts of rows, and the ranks of an index: codes with ranks."""
        ranks = {code: rank for rank, code in index}
        for ct, code in set(self.pairs):
            check(code in ranks, "a value of a row is not in the index")
            check(ct[:RANK] == ranks[code], "a row has another rank than the index")
            check(ct == self.of_rank(ranks[code], code), "a tag is wrong")
        below = bytes(24)  # the low end
        for rank, _ in index:
            check(rank[24] < 2 and rank[:24] < b"\xff" * 24, "not a rank")
            check(rank[:24] == below if rank[24] else rank[:24] > below, "ranks are not in order")
            below = rank[:24]

    def check_order(self):
        pairs = sorted(set(self.pairs))
        if self.mutable or self.ranked:
            return  # what stands for a value is held to the index
        check(len({c for c, _ in pairs}) == len({p for _, p in pairs}) == len(pairs), "ciphertexts are no function")
        falls = sum(a > b for (_, a), (_, b) in zip(pairs, pairs[1:]))
        if self.scheme == "mope":
            check(falls <= 1 and (falls == 0 or pairs[-1][1] < pairs[0][1]), "ciphertexts are not in rotated order")
        else:
            check(falls == 0, "ciphertexts are not in order")


# Indexes of stateful schemes.

RANK = 25  # bytes of a rank


def open_record(key, unit, record_key, sealed, before=b""):
    """Returns the content of a record; before is what of a header stands before it."""
    check(len(sealed) >= 41 and sealed[0] == 1, "not a record")
    ad = b"\1" + bytes([len(unit)]) + unit + record_key + before
    return xchacha20poly1305_open(expand(key, 32, "index", "record"), sealed[1:25], sealed[25:], ad)


def open_header(key, unit, record_key, sealed, identifier):
    check(sealed[:1] in (b"\1", b"\2") and sealed[1:17] == expand(key, 16, "index", "key id"), "a header under another key")
    named = struct.pack(">H", len(identifier)) + identifier.encode()
    if sealed[0] == 1:
        n = 17 + len(named)
        check(sealed[17:n] == named, "a header of another scheme")
        return open_record(key, unit, record_key, sealed[n:], sealed[:n])
    named += bytes(-len(named) % 128)
    content = open_record(key, unit, record_key, sealed[17:], sealed[:17])
    check(content[:len(named)] == named, "a header of another scheme")
    return content[len(named):]


class Unit:
    def __init__(self, cells):
        meta = cells.get(b"", b"\1" + bytes(9))
        check(len(meta) == 10 and meta[0] == 1, "another format of a unit")
        self.state, self.generation = meta[1], struct.unpack(">Q", meta[2:])[0]
        check(len(cells.get(b"\0", bytes(16))) == 16, "a nonce of the wrong length")
        self.records = []
        for qualifier, value in sorted(cells.items()):
            if qualifier not in (b"", b"\0"):
                check(qualifier[0] == 1 and value[0] == 1, "not a record")
                self.records.append((qualifier[1:], value[1:]))


def read_index(field, units):
    """Checks the units of a field and returns its index: the codes by their keys, in order."""
    domain = "[%d,%d]" % field.type.domain
    if field.scheme == "plaintext-indexed":
        check(list(units) == [b""] and units[b""].state == 1, "a plain index is one unit")
        return [(k, int.from_bytes(k, "big") + field.type.domain[0]) for k, v in units[b""].records if v == b""]
    name = field.state[1].encode()
    if field.scheme == "wozniak-indexed":
        key, identifier = derive(field.order_key, "wozniak-indexed"), "wozniak-indexed/1 domain=%s range=%d keep=targets" % (domain, field.range)
        units = dict(units)
        pairs = read_drawn(key, name, identifier, (field.range + 7) // 8, units, b"", None)
        check(not units, "a unit that no other leads to")
        pairs = [(k, field.type.domain[0] + x) for k, x in pairs]
        check((pairs[0][1], pairs[-1][1]) == field.type.domain, "the ends are not those of the domain")
        return pairs
    size = 21 + (RANK if field.ranked else 0)  # of an element
    key, identifier = derive(field.order_key, "kerschbaum", "record"), "%s/1 domain=%s" % (field.scheme, domain)
    if field.scheme == "kerschbaum-published":
        identifier += " lambda=2"
    shards = {}
    for suffix, unit in units.items():
        check(len(suffix) == 24 and suffix[:1] == b"/" and suffix[7:8] == b"/", "a unit of another name")
        shards.setdefault(int(suffix[1:7], 16), {})[int(suffix[8:], 16)] = suffix, unit
    suffix, root = shards[0].pop(0, (b"", None))
    check(root is None or root.generation in shards[0], "the root is wrong")
    for k, v in root.records if root else []:
        content = open_record(key, name + suffix, k, v)
        check(len(k) == 4 and len(content) == 32 and int.from_bytes(k, "big") in shards, "a wrong entry of the directory")
        check(struct.unpack(">Q", content[24:])[0] == root.generation, "a shard of another epoch")
    check(not field.ranked or all(list(s) == [1] for s in shards.values()), "an index with ranks has one epoch")
    elements, part, frozen = read_shard(key, name, identifier, shards.pop(0), size)
    check(part is None or part["top"], "shard 0 lacks the top")
    while part and part["left"]:
        below, left, more = read_shard(key, name, identifier, shards.pop(part["left"]), size)
        check(left and not left["top"], "a left neighbour that has the top")
        edge = lambda e: e[:24] + e[37:]  # without its shape
        if edge(left["high"]) != edge(part["low"]):
            check(frozen and edge(left["high"]) == edge(part["given"]), "the edges of neighbours differ")
            below = below + frozen
        elements, part, frozen = below + elements, left, more
    check(not shards or all(not read_shard(key, name, identifier, s, size)[0] for s in shards.values()), "a shard that no other leads to has values")
    check(elements == sorted(elements) and [x for _, x, _ in elements] == sorted({x for _, x, _ in elements}), "values out of order")
    return [(rank if field.ranked else label, x) for label, x, rank in elements]


def read_drawn(key, name, identifier, size, units, suffix, before):
    """Takes a unit of drawn ciphertexts of a size out of the units, and those of its parts. Returns its pairs, (ciphertext, offset), in order. If it
    was not opened, they are those that the divided unit has, which are given."""
    unit = units.pop(suffix, None)
    records = unit.records if unit else []
    closed = size + 1  # length of the directory's key
    pairs = [(k, struct.unpack(">Q", open_record(key, name + suffix, k, v))[0]) for k, v in records if len(k) == size]
    others = {k: v for k, v in records if len(k) != size}
    check(pairs == sorted(pairs) and [x for _, x in pairs] == sorted({x for _, x in pairs}), "values out of order")
    if before and (unit is None or unit.state == 0):
        check(not others and set(pairs) <= set(before), "a unit that was not opened has what is not copied")
        return before
    divided = (unit.state, unit.generation) == (2, 1)
    check(divided or (unit.state, unit.generation) == (1, 0), "a unit that is neither open nor divided")
    content = open_header(key, name + suffix, b"\0", others.pop(b"\0"), identifier)
    check(content == struct.pack(">Q", len(pairs)) + pairs[0][0] + pairs[-1][0], "a header that does not count")
    check(before is None or (pairs[0], pairs[-1]) == (before[0], before[-1]) and set(before) <= set(pairs), "not all was copied")
    if not divided:
        check(not others, "an open unit with a directory")
        return pairs
    directory = open_record(key, name + suffix, bytes(closed), others.pop(bytes(closed)))
    each = 24 + size
    check(0 < len(directory) <= 64 * each and len(directory) % each == 0, "a directory of the wrong length")
    parts = []
    for at in range(0, len(directory), each):
        x, low, count, part = struct.unpack(">Q%dsQQ" % size, directory[at:at + each])
        parts.append((pairs.index((low, x)), count, part))
    check(parts[0][0] == 0, "values below all parts")
    listings = {k[closed:]: open_record(key, name, k, v) for k, v in others.items()}
    check(suffix == b"" or not listings, "listings that are not in the root")
    check(all(k[:closed] == bytes(closed) and len(k) == closed + 8 for k in others), "a record of an unknown kind")
    if suffix == b"":
        for part, listed in listings.items():
            opened = units.get(b"/" + part.hex().encode())
            check(opened and opened.state != 0, "a unit is listed, and was not opened")
            own = dict(opened.records).get(bytes(closed))
            check(not listed or own and listed == open_record(key, name + b"/" + part.hex().encode(), bytes(closed), own), "a listing that is not the directory")
    found = []
    for (low, count, part), high in zip(parts, [p[0] for p in parts[1:]] + [len(pairs) - 1]):
        check(count == high - low + 1 and count > 1, "a part that does not count")
        found = found[:-1] + read_drawn(key, name, identifier, size, units, b"/%016x" % part, pairs[low:high + 1])
    return found


def read_part(content, size):
    """Returns what a unit's record says of the part of the index that it has, whose elements have a size."""
    edge = 16 + size
    check(len(content) == 3 * edge + 49, "a part of the wrong length")
    low, high, given = (content[i * edge:(i + 1) * edge] for i in range(3))
    top, left, n, _, _, gone, came = struct.unpack(">BII16sQQQ", content[3 * edge:])
    return {"low": low, "high": high, "given": given, "top": top == 1, "left": left, "n": n, "gone": gone, "came": came}


def read_shard(key, name, identifier, epochs, size):
    """Checks the units of a shard, whose elements have a size. Returns its elements, (label, code, rank or nothing), its part,
    and what it is about to hand over."""
    last = max(epochs)
    elements, frozen, least, part = [], [], 0, None
    current = last  # but while a pass fills the last one
    if epochs[last][1].state == 0:
        current = last - 1
        check(current in epochs and epochs[current][1].state == 2, "an epoch is filled, and its predecessor is not sealed")
    for epoch, (suffix, unit) in epochs.items():
        states = {last: (0, 1, 2, 4), last - 1: (2, 3)}.get(epoch, (3,))
        check(unit.state in states, "an epoch that is neither one of the last nor retired")
        (zero, header), *records = unit.records if unit.state else [(None, None)] + unit.records
        check(unit.state == 0 or zero == bytes(16) and len(open_header(key, name + suffix, zero, header, identifier)) == 16, "no header")
        for k, v in records:
            content = open_record(key, name + suffix, k, v)
            if k == bytes(16) + b"r":
                part = read_part(content, size)
            elif len(k) > 16:
                kind = k[16:17]
                check(k[:16] == b"\xff" * 16 and kind in (b"g", b"p", b"m", b"n", b"w"), "a record of an unknown kind")
                if kind in (b"m", b"n"):
                    check(len(content) == 8, "a number of values of the wrong length")
                    least = max(least, struct.unpack(">Q", content)[0]) if kind == b"n" and epoch == current else least
                elif kind == b"w":
                    check(len(content) == 32 and content[:16] < content[16:], "no two labels")
                    check(0 < struct.unpack(">Q", k[17:])[0] <= unit.generation, "moves of a generation that is to come")
                else:
                    check(len(content) % 40 == 0, "moves of the wrong length")
            else:
                check(unit.state != 3 and len(content) == size, "an element that should not be there")
                if epoch == current:
                    (frozen if part and k < part["low"][:16] else elements).append((k, struct.unpack(">q", content[:8])[0], content[21:]))
        check((unit.state == 4) == (part is not None), "a divided unit without a part, or a part without one")
    if part:
        check(len(frozen) == part["n"], "a wrong number of frozen elements")
        check(part["top"] or all(k < part["high"][:16] for k, _, _ in elements), "an element beyond the high edge")
        lowest = struct.unpack(">q", part["low"][16:24])[0], part["low"][37:]  # its label may have moved since
        check(part["low"][:16] == bytes(16) and not any(lowest[1]) or not elements or elements[0][1:] == lowest, "the low edge is not the lowest element")
        least = max(least, part["came"])
    check(len(elements) + (part["gone"] if part else 0) >= least, "values are gone")
    return elements, part, frozen


def tree(key, entries):
    """Returns the nodes of the tree over entries, given by their MACs, and its digest."""
    nodes, level, listed = {}, 2, {}
    for q, entry_mac in entries.items():
        listed.setdefault(b"\0\2" + bytes([q[1] >> 2, q[2] >> 2]), {})[q] = entry_mac
    while listed:
        values = {q: b"".join(k + m for k, m in sorted(children.items())) for q, children in listed.items()}
        nodes.update(values)
        above, level = {}, level - 1
        for q, value in values.items():
            node_mac = mac(key, place(b"node", q, value))[:16]
            if level < 0:
                return nodes, int.from_bytes(node_mac, "big")
            above.setdefault(bytes([0, level]) + q[2:-1], {})[q[-1:]] = node_mac
        listed = above
    return nodes, 0


class Table:
    """A table or, with TenantKeys, what of it is a tenant's."""

    def __init__(self, meta, keys):
        self.token, self.tenants = b"", meta.get("tenants", False)
        self.id, self.name, self.spread = bytes.fromhex(meta["id"]), meta["name"], meta["spread_bits"]
        self.parts = [Field(f, keys) for f in meta["key"]]
        self.columns = [Field(f, keys) for f in meta["columns"]]
        self.former, self.dropped = [], [bytes.fromhex(i) for i in meta.get("dropped", [])]
        for column, f in zip(self.columns, meta["columns"]):
            for was in f.get("former", []):
                self.former.append(Field(dict(was, name=column.name), keys))
        self.by_id = {c.id: c for c in self.columns + self.former}
        check(len(self.by_id) == len(self.columns + self.former), "two columns of one id")
        self.conditional = meta.get("conditional", False)
        self.row_keys = [keys.unwrap(b"row", bytes(4), w) for w in meta["row_keys"]]
        if isinstance(keys, TenantKeys):
            self.row_keys, self.token = keys.all("row", bytes(4)), keys.token
        self.clear = meta.get("clear", False)
        self.policy = 0  # the version that the tenant's policy came with
        if isinstance(keys, TenantKeys) and meta["id"] in keys.tenant.policies:
            self.policy = keys.tenant.policies[meta["id"]]["since"]
        check(not self.clear or all(f.clear for f in self.parts + self.columns), "a clear table with a sealed column")
        layout, *more = meta["layout"].split(", ")
        ways = [way for way in ("rows are only added", "rows have copies", "copies have some columns", "rows expire", "the database has indexes",
                             "earlier keys are apart") if way in more]
        check(layout in ("packed", "cell per column", "paged") and sorted(more) == sorted(ways), "an unknown layout")
        check((layout == "paged") == isinstance(self, Paged), "a table of pages that is read as another")
        self.packed, self.adding, self.expiring = layout == "packed", "rows are only added" in ways, "rows expire" in ways
        check(not self.adding or self.parts[-1].encryption == "tie" and not self.conditional, "rows that could be replaced")
        self.copying = self.adding or "rows have copies" in ways
        check("rows have copies" not in ways or self.conditional, "copies of rows that are replaced unseen")
        check(self.copying or not any(c.covering for c in self.columns), "copies of rows that are replaced unseen")
        live = {c.id.hex() for c in self.columns}
        check(all(c.copied is None or "copies have some columns" in ways and live.issuperset(c.copied) for c in self.columns + self.former),
              "columns to copy that are not there")
        check("the database has indexes" in ways and not self.conditional and not self.adding or not any(c.served for c in self.columns + self.former),
              "indexes of rows that are not put blindly")
        self.indexes = {}  # values by the names of indexes, by row
        check(meta.get("ttl", 0) >= 0 and (self.expiring or "ttl" not in meta), "a TTL of rows that do not expire")
        self.expired = set()  # what the postings of expired rows end with
        self.data, self.postings = "t" + meta["id"], "x" + meta["id"]
        self.expected = set()  # postings
        self.converting = set()  # an id and, behind it, a row that has the value under a former id, and its write
        self.held = {}  # rows by their keys and write ids

    def spec(self):
        first = self.parts[0]
        prefix = {"hashed": 16, "plain": first.type.size}.get(first.encryption, 0)
        return {"layout": "ordered", "prefix_bytes": prefix + (16 if self.tenants else 0), "spread_bits": 0 if prefix else self.spread}

    def place(self, row, qualifier):
        return place(b"cell", self.id, row, qualifier)

    def read(self, row, cells):
        """Returns the row, or None if it was deleted or has expired."""
        check(row.startswith(self.token), "a row of another tenant")
        if self.expiring and b"" not in cells:
            return None
        content, write = self.open_key_cell(row, cells)
        if self.conditional:
            if not content:
                return None
            cells = {q: v for q, v in cells.items() if v}
        result, content = self.read_parts(row, content)
        expires, content = self.cut_expiry(content)
        if expires is not None and self.now >= expires:
            self.expired.add(row + write)
            return None
        own, last = {b""}, b""
        indexed = dict(self.indexes.get(row, {}))
        older = any(column.id in [content[i:i + 4] for i in range(len(content))] for column in self.former)
        while content:
            check(content[:4] > last, "entries are not in ascending order")
            last = content[:4]
            stored, value, content = self.cut_entry(content)
            if last in self.by_id:  # otherwise it was dropped
                column = self.by_id[last]
                if column.served and column in self.columns:
                    self.read_indexed(column, row, cells, value, indexed.pop("s" + last.hex(), None))
                check(column.name not in result, "a column has two values")
                result[column.name] = self.read_column(column, row, cells, stored, value, write)
                if column in self.former:
                    self.converting.update(c.id + row + write for c in self.columns if c.name == column.name)
                if value is None:
                    own.add(last)
        check(older or not any("s" + c.id.hex() in indexed for c in self.columns), "an index has a value of a column that is null")
        for qualifier in cells.keys() - own:
            check(self.left_over(cells[b""], qualifier, result), "the key cell lists other columns than there are cells")
        self.held[row + write] = result
        return result

    def read_indexed(self, column, row, cells, packed, indexed):
        """Checks what a row has in an index of the database."""
        check(indexed is not None and indexed.startswith(column.lead), "an index does not have the value of a row")
        search, value = indexed[len(column.lead):], packed
        if packed is None and column.clear:
            value = open_plain(cells[column.id])[0]
        elif packed is None:
            sealed = unseal_any(column.cell_keys, cells[column.id], self.place(row, column.id))[0]
            check(sealed.startswith(search), "an index has another ciphertext than the cell")
            value = sealed[len(search):]
        if column.encryption == "deterministic":
            check(search == column.token(value), "a token in an index is wrong")
        else:
            column.ciphertext(search, value)

    def read_parts(self, row, content):
        """Returns the values of the parts of a row key, to which it is held, and what follows them."""
        result, rest = {}, row[len(self.token):]
        for part in self.parts:
            value, content = cut_sized(content)
            result[part.name] = part.type.text(value)
            if part.encryption == "hashed":
                check(rest[:16] == part.token(value), "a hash in a row key is wrong")
                rest = rest[16:]
            elif part.encryption == "ordered":
                part.ciphertext(rest[:part.size], value)
                rest = rest[part.size:]
                if not part.type.exact:
                    check(rest[:16] == part.token(value), "the hash behind a ciphertext is wrong")
                    rest = rest[16:]
            else:
                plain, rest = cut_sortable(part.type, rest)
                check(plain == part.type.canonical(value), "a plain part is not that of the key cell")
        check(rest == b"", "a row key is too long")
        return result, content

    def cut_expiry(self, content):
        if content[:4] != bytes(4):
            return None, content
        check(self.expiring and content[4] == 10 and len(content) >= 13, "an expiry that cannot be")
        return int.from_bytes(content[5:13], "big"), content[13:]

    def cut_entry(self, content):
        """Returns how a column is stored, the value that is packed or None, and what follows."""
        stored, content = cut_number(content[4:])
        if stored < 2:
            return stored, None, content
        check(len(content) >= stored - 2, "cut short")
        return stored, content[:stored - 2], content[stored - 2:]

    def read_postings(self, postings):
        """Checks what postings hold, after the rows were read, and returns how many say that a row is being deleted that is gone."""
        late, rows = 0, {held[:-16] for held in self.held}
        for posting, cells in postings.items():
            if not self.copying:
                check(cells == {b"": b""}, "a posting has content")
            elif self.adding and posting[:4] == bytes(4):
                check(all(len(q) == 8 and v == b"" for q, v in cells.items()), "not a deletion")
                late += posting[4 + len(self.token):] not in rows
            elif posting[:4] not in self.dropped:
                doubts = [q for q in cells if q != b""]
                check(all(len(q) == 9 and q[:1] == b"\xff" and cells[q] == b"" for q in doubts) and not (self.adding and doubts), "a posting has other cells")
                if b"" in cells and not doubts:
                    self.read_posting(self.by_id[posting[:4]], posting, cells[b""])
        return late

    def read_posting(self, column, posting, value):
        if value == b"" and self.conditional and not column.covering:
            return  # of before a column covered
        if value[:1] in (b"\0", b"\xff"):  # pending or doubtful
            check(len(value) == 9, "a posting without a copy has other content")
            return
        check(column.covering, "a copy in a posting of a column that does not cover")
        n = len(column.lead) + column.carried
        row, write = posting[n:-16], posting[-16:]
        if self.clear:
            content, its_write = open_plain(value)
        else:
            content, its_write = unseal_any(self.row_keys, value, self.place(row, posting[:n]))
        check(its_write == write, "a copy of another write")
        result, content = self.read_parts(row, content)
        expires, content = self.cut_expiry(content)
        if expires is not None and self.now >= expires:
            return
        last = b""
        while content:
            check(content[:4] > last, "entries are not in ascending order")
            last = content[:4]
            stored, packed, content = self.cut_entry(content)
            check(stored >= 2, "a value is not in the copy")
            if last in self.by_id:  # otherwise it was dropped
                of = self.by_id[last]
                check(of.name not in result, "a column has two values")
                result[of.name] = of.type.text(packed)
        check(row + write in self.held, "a copy of no row")
        held = self.held[row + write]
        if column.copied is not None:
            names = {f.name for f in self.parts} | {c.name for c in self.columns if c.id.hex() in column.copied}
            held = {name: text for name, text in held.items() if name in names}
            result = {name: text for name, text in result.items() if name in names}
        check(result == held, "a copy is not of its row")

    def left_over(self, key_cell, qualifier, result):
        """Whether a cell that the key cell does not say is there does not count."""
        column, version = self.by_id.get(qualifier), policy_version(key_cell)
        return (column is None or column in self.former or column.since > version or column.by_policy and self.policy > version
                or self.packed and not column.posted and column.name in result)

    def read_column(self, column, row, cells, stored, packed, write):
        # Which policy a row was written under is not known.
        ways = set()
        for clear in (True, False) if column.by_policy else (column.clear,):
            packs = self.packed and not column.posted and (self.clear or not clear)
            ways.add(2 if packs else 1 if clear else 0)
        check(min(stored, 2) in ways, "a column is not stored as its encryption and layout say")
        if packed is not None:
            return column.type.text(packed)
        check(column.id in cells and stored == (1 if cells[column.id][0] == 1 else 0), "a cell is not stored as the key cell says")
        return self.read_cell(column, row, cells[column.id], write)

    def rows(self, rows):
        """Returns what rows hold, in the order of their keys."""
        read = (self.read(row, rows[row]) for row in sorted(rows))
        return [row for row in read if row is not None]

    def dangling(self, postings):
        """Checks that all rows have their postings, and returns how many others there are."""
        late = self.read_postings(postings)
        postings = {p for p in postings if not self.adding or p[:4] != bytes(4)}
        check(self.expected <= postings, "the postings are not those of the rows")
        return late + sum(p[:4] not in self.dropped and not p.endswith(tuple(self.expired)) and not self.relied_on(p) for p in postings - self.expected)

    def relied_on(self, posting):
        """Whether a conversion may be about to store the row that a posting leads to."""
        column = self.by_id.get(posting[:4])
        return column is not None and posting[:4] + posting[len(column.lead) + column.carried:] in self.converting

    def open_key_cell(self, row, cells):
        if self.clear:
            return open_plain(cells[b""])
        return unseal_any(self.row_keys, cells[b""], self.place(row, b""))

    def read_cell(self, column, row, cell, write):
        search = b""
        if column.clear if not column.by_policy else cell[0] == 1:
            value, its_write = open_plain(cell)
            if column.mutable:
                search = column.code_token(column.type.code(value))
            elif column.searched:
                search = (column.type.code(value) - column.type.domain[0]).to_bytes(column.size, "big")
        else:
            value, its_write = unseal_any(column.cell_keys, cell, self.place(row, column.id))
            if column.searched:
                n = 16 if column.encryption == "deterministic" else column.size
                search, value = value[:n], value[n:]
        check(its_write == write, "a row of two writes")
        if column.searched:
            if column.encryption == "deterministic":
                check(search == column.token(value), "a token is wrong")
            else:
                column.ciphertext(search, value)
            if column.posted:
                self.expected.add(column.lead + search + row + write)
        return column.type.text(value)


class Paged(Table):
    """A table whose rows are in pages."""

    def __init__(self, meta, keys):
        super().__init__(meta, keys)
        check(meta["layout"] in ("paged", "paged, earlier keys are apart"), "a way that rows in pages cannot have")
        check(not self.conditional and not self.tenants and not self.former and "ttl" not in meta, "what a table of pages cannot have")
        check(all(c.encryption in ("plain", "randomised") for c in self.columns), "a column that is searched, in pages")
        check(not any(p.stateful for p in self.parts) and 0 <= self.spread <= 8, "a row key that is not for pages")
        self.page_rows, self.version = meta["page_rows"], meta["version"]
        self.fields = {f.number: f for f in self.parts + self.columns}
        check(len(self.fields) == len(self.parts + self.columns), "two columns of one number")
        check(all(0 < n <= meta["numbers"] for n in self.fields), "a number that was not given")

    def rows(self, pages):
        """Checks the pages, and returns the rows that they hold, in the order of their keys."""
        parts, result = {}, []
        for key in sorted(pages):
            parts.setdefault(self.least(key), []).append(Page(self, key, pages[key]))
        for least, chain in sorted(parts.items()):
            check(chain[0].key == least, "the first page of a part is gone")
            last = None
            for page in self.chained(chain):
                below = page.following.key if page.following else None
                for row_key, exact, row in page.keyed[:page.holds]:
                    check(last is None or last < row_key, "rows are not in the order of their keys")
                    if exact:
                        check(page.key <= row_key and (below is None or row_key < below), "a row is in the wrong page")
                        check(self.least(row_key) == least, "a row is in the wrong part")
                    last = row_key
                    result.append(row)
        return result

    def least(self, key):
        """Returns the least key of the part that a key is in."""
        spec = self.spec()
        n, bits = spec["prefix_bytes"], spec["spread_bits"]
        check(len(key) >= n, "a key without a whole prefix")
        if bits:
            first = (key[n:] + b"\0")[0]
            return key[:n] + bytes([first >> 8 - bits << 8 - bits])
        return key[:n] or b"\0"

    def chained(self, chain):
        """Checks that no page of a part is missing. Notes which page follows each, and how many rows are its own."""
        for page, following in zip(chain, chain[1:] + [None]):
            page.following, key = following, following.key if following else b""
            made = [i for i, (_, k) in enumerate(page.cuts) if k == key]
            if not made:
                check(page.next == key, "a page is missing, or one is too many")
                continue
            # The page is left in the middle of being cut: the pages from this cut on are there.
            page.holds = page.cuts[made[0]][0]
            keys = [p.key for p in chain]
            check(all(k in keys for _, k in page.cuts[made[0]:]), "a page of a cut is missing")
            after = keys.index(page.next) if page.next else len(keys)
            check(after > keys.index(page.cuts[-1][1]) and chain[after - 1].next == page.next, "the pages of a cut do not lead on")
        return chain

    def dangling(self, postings):
        check(not postings, "postings of pages")
        return 0


class Page:
    def __init__(self, table, key, cells):
        check(set(cells) == {b"v", b"p", b"s"}, "a page has three cells")
        self.key, plain, sealed = key, cells[b"p"], cells[b"s"]
        if table.clear:
            content, write = open_plain(sealed)
            check(content == b"", "what nobody sealed beside what is plain")
        else:
            where = place(b"cell", table.id, key, b"s", hashlib.sha256(plain).digest())
            content, write = unseal_any(table.row_keys, sealed, where)
        check(cells[b"v"] == write[:8], "a page of two writes")
        version = policy_version(sealed)
        check(0 < version <= table.version, "a page of a schema that was not yet")
        check(plain[:1] == b"\1", "another format of pages")
        n, plain = cut_number(plain[1:])
        count, plain = cut_number(plain)
        self.cuts = []
        for _ in range(count):
            row, plain = cut_number(plain)
            cut_key, plain = cut_sized(plain)
            self.cuts.append((row, cut_key))
        self.next, plain = cut_sized(plain)
        check(n <= table.page_rows or self.cuts, "a page of too many rows")
        lists = {}
        for columns, in_plain in ((self.columns(plain, n), True), (self.columns(content, n), False)):
            for i, values in columns:
                check(i not in lists, "a column is in a page twice")
                lists[i] = values
                f = table.fields.get(i)  # or it was dropped
                check(f is None or f.clear == in_plain, "a column is in the wrong mini-page")
                check(f is None or f.since <= version, "a column that was not yet")
        self.keyed = []  # a row key, whether it is exact or only in the order of it, and the row
        for i in range(n):
            of = {f.name: lists[f.number][i] for f in table.fields.values() if f.number in lists}
            key_parts = [f.key_bytes(of[f.name]) for f in table.parts]
            row = {f.name: f.type.text(of[f.name]) for f in table.fields.values() if of.get(f.name) is not None}
            self.keyed.append((b"".join(b for b, _ in key_parts), not any(s for _, s in key_parts), row))
        keys = [k for k, _, _ in self.keyed]
        check(keys == sorted(set(keys)), "rows of a page are not in the order of their keys")
        self.check_cuts(n)
        self.following, self.holds = None, n

    def check_cuts(self, n):
        before, above = 0, self.key
        for row, key in self.cuts:
            check(before < row < n and above < key, "cuts are not ascending")
            if all(exact for _, exact, _ in self.keyed):
                check(self.keyed[row][0].startswith(key) and self.keyed[row - 1][0] < key, "the key of a cut is not that of its first row")
            before, above = row, key
        check(self.next == b"" or self.next > above, "the next page is before this one")

    @staticmethod
    def columns(b, n):
        """Yields numbers, each with the n values of the column, of which some are None."""
        while b:
            i, b = cut_number(b)
            check(len(b) >= 1, "cut short")
            head, b = b[0], b[1:]
            there = [True] * n
            if head & 1:
                size = (n + 7) // 8
                check(len(b) >= size, "cut short")
                bits = int.from_bytes(b[:size], "little")
                check(bits >> n == 0, "a row beyond the last one has a value")
                there, b = [bits >> j & 1 == 1 for j in range(n)], b[size:]
                check(not all(there), "no row is null, and the page says that some are")
            check(any(there), "a column that is null in all rows")
            lengths = [(head >> 1) - 1] * sum(there)
            if head >> 1 == 0:
                for j in range(len(lengths)):
                    lengths[j], b = cut_number(b)
                check(len(set(lengths)) > 1 or lengths[0] > 126, "lengths that are equal")
            check(sum(lengths) <= len(b), "cut short")
            values = []
            for has in there:
                value = None
                if has:
                    length = lengths.pop(0)
                    value, b = b[:length], b[length:]
                values.append(value)
            yield i, values


def part_elsewhere(text):
    """The bytes of a value of a row key of the application."""
    kind, _, text = text.partition(" ")
    if kind == "int":
        n = int(text)
        return b"i" + n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
    if kind == "timestamp":
        return b"s" + struct.pack(">q", int(text))
    if kind == "inet":
        return b"a" + ipaddress.ip_address(text).packed
    if kind == "boolean":
        return b"o" + bytes([["false", "true"].index(text)])
    return {"text": b"t", "blob": b"b", "uuid": b"u"}[kind] + (text.encode() if kind == "text" else bytes.fromhex(text))


def read_elsewhere(meta, keys, cells):
    """Returns the values of cells of a table that the application keeps."""
    check(meta["key"] == [] and not meta["row_keys"] and meta["spread_bits"] == 0, "a table elsewhere that has rows here")
    fields = {f["name"]: Field(f, keys) for f in meta["columns"]}
    check(not any(f.clear or f.stateful or f.covering or f.served or "share" in m or m.get("confidentiality")
                  for f, m in zip(fields.values(), meta["columns"])), "a column that can only be here")
    values = []
    for cell in cells:
        f, sealed = fields[cell["column"]], bytes.fromhex(cell["sealed"])
        where = place(b"elsewhere", bytes.fromhex(meta["id"]), f.id, *[part_elsewhere(text) for text in cell["row"]])
        ids = [hkdf(key, b"rangecrypt/seal/2 id", 16) for key in f.cell_keys]
        value = unseal(f.cell_keys[ids.index(sealed[1:17])], sealed, where)[0]
        search = bytes.fromhex(cell["search"])
        check(value.startswith(search) and (len(search) > 0) == f.searched, "a value is not found by what is sealed")
        value = value[len(search):]
        if f.encryption == "deterministic":
            check(search == f.token(value), "a token is wrong")
        elif f.searched:
            check(len(search) == f.size, "a ciphertext of the wrong length")
            f.ciphertext(search, value)
        values.append(f.type.text(value))
    for f in fields.values():
        if f.encryption == "ordered":
            f.check_order()
    return values


def join_archive(meta, archives):
    """Puts earlier keys of a table before those that its entry has."""
    numbers = meta.get("archived", {})
    for n in reversed(range(numbers.get("from", 0), numbers.get("to", 0))):
        check("earlier keys are apart" in meta["layout"], "keys are apart, and the layout does not say so")
        earlier = archives.pop(b"\5" + bytes.fromhex(meta["id"]) + struct.pack(">I", n))
        meta["row_keys"] = earlier.get("row_keys", []) + meta["row_keys"]
        for f in meta["columns"]:
            for f in [f] + f.get("former", []):
                if f["id"] in earlier.get("cell_keys", {}):
                    f["cell_keys"] = earlier["cell_keys"][f["id"]] + f["cell_keys"]


def check_migration(m):
    phases = ["prepared", "copying", "verified", "cut over", "dropped", "aborted"]
    check(m["round"] > 0 and m["source"] and m["phase"] in phases and m["prepared"] > 0, "a migration that nobody began")
    check((m["phase"] in ("cut over", "dropped")) == ("cut_over" in m) and (m["phase"] == "dropped") == ("dropped" in m), "times of another phase")
    for which in ("copy", "verify"):
        end = -1
        for first, below in m[which].get("spans", []):
            check(end < first < below <= 1 << 32, "spans of a migration that meet")
            end = below
        check(all(n > 0 for n in m[which]["rows"].values()), "a count of no rows")
    whole = m["copy"].get("spans") == [[0, 1 << 32]]
    check(("copied" in m) == whole, "all is copied, and it does not say so")


def main(path):
    with open(path) as f:
        dump = json.load(f)
    Table.now = dump.get("now") or int(time.time())
    master = bytes.fromhex(dump["key"])
    families, specs, indexes = {}, {}, {}
    for family in dump["families"]:
        indexes[family["name"]] = {
            bytes.fromhex(row["key"]): {n: bytes.fromhex(v) for n, v in row.get("indexed", {}).items()} for row in family["rows"]}
        for names in indexes[family["name"]].values():
            check(all(name in family["indexes"] for name in names), "a value in no index")
        specs[family["name"]] = {k: family[k] for k in ("layout", "prefix_bytes", "spread_bits")}
        families[family["name"]] = {
            bytes.fromhex(row["key"]): {bytes.fromhex(q): bytes.fromhex(v) for q, v in row["cells"]} for row in family["rows"]}

    # The catalogue.
    check(specs["catalogue"] == {"layout": "wide", "prefix_bytes": 0, "spread_bits": 0}, "the catalogue's layout")
    catalogue = families.pop("catalogue")
    check(list(catalogue) == [b"catalogue"], "the catalogue is one row")
    cells = catalogue[b"catalogue"]
    root = cells.pop(b"\0")
    catalogue_format = root[0]
    check(catalogue_format in (2, 3, 4, 5), "another format of the catalogue")
    n = 3 + struct.unpack(">H", root[1:3])[0]
    wrapped = root[3:n]
    database_key = unseal(derive(master, "wrap"), wrapped, place(b"database key"))[0]
    key, names, digests, tenant_names = (derive(database_key, "catalogue", label) for label in ("seal", "names", "digest", "tenants"))
    bound = [b"catalogue", b"\0", wrapped] + ([root[:1]] if catalogue_format > 2 else [])
    root = json.loads(unseal(key, root[n:], place(*bound))[0])
    check(catalogue_format == 5 or ("lease" in root) == (catalogue_format == 4), "a lease in another format, or none in its own")
    if "lease" in root:
        lease = root["lease"]
        check(set(lease) == {"grant", "wait", "since"} and 0 <= lease["grant"] <= lease["wait"] <= 60000 and lease["wait"] >= 100
              and 0 < lease["since"] <= root["version"], "a lease that nobody may have")
    digest, states = 0, {}
    nodes = {q: cells.pop(q) for q in list(cells) if q[:1] == b"\0"}  # of the tree
    progress = {q: cells.pop(q) for q in list(cells) if q[:1] == b"\3"}  # of conversions
    migrations = {q: cells.pop(q) for q in list(cells) if q[:1] == b"\4"}
    archives = {q: json.loads(unseal(key, cells.pop(q), place(b"catalogue", q))[0]) for q in list(cells) if q[:1] == b"\5"}
    macs = {q: mac(digests, place(b"entry", q, sealed))[:16] for q, sealed in cells.items()}
    if catalogue_format == 2:
        check(not nodes, "a tree in a catalogue of a format without")
        for entry_mac in macs.values():
            digest ^= int.from_bytes(entry_mac, "big")
    else:
        expected, digest = tree(digests, macs)
        check(nodes == expected, "the tree is not that of the entries")
    check(digest == int(root["digest"], 16), "entries of different times")
    result, of_tenants, orphans, dangling, elsewhere, tenants, metas = {}, {}, {}, {}, {}, [], []
    for qualifier, sealed in sorted(cells.items()):
        entry = json.loads(unseal(key, sealed, place(b"catalogue", qualifier))[0])
        check(1 <= len(entry["changes"]) <= 16 and all(len(change) == 16 for change in entry["changes"]), "changes of the wrong form")
        if "tenant" in entry:
            check("table" not in entry, "an entry of a table and of a tenant")
            tenants.append(Tenant(entry["tenant"], database_key))
            check(qualifier == b"\2" + mac(tenant_names, tenants[-1].name.encode()), "an entry under another name")
            check(0 < tenants[-1].since <= root["version"], "an entry of a version that was not yet")
        elif "table" in entry:
            metas.append(entry["table"])
            check(qualifier == b"\1" + mac(names, entry["table"]["name"].encode()), "an entry under another name")
            check(0 < entry["table"]["version"] <= root["version"], "an entry of a version that was not yet")
        # Otherwise the table or tenant is gone.
    gone = False
    for meta in metas:
        if meta["layout"] == "elsewhere":
            keys = ElsewhereKeys(root["database"], database_key, meta["id"])
            elsewhere[meta["name"]] = read_elsewhere(meta, keys, dump.get("elsewhere", {}).get(meta["name"], []))
            continue
        keys = Keys(root["database"], database_key, meta["id"])
        join_archive(meta, archives)
        table = (Paged if meta["layout"].split(", ")[0] == "paged" else Table)(meta, keys)
        check(specs[table.data] == table.spec(), "the layout of a table")
        rows, postings = families.pop(table.data), {}
        if table.postings in families:
            spec = {"layout": "ordered", "prefix_bytes": 20 if table.tenants else 4, "spread_bits": table.spread}
            check(specs[table.postings] == spec, "the layout of an index")
            postings = families.pop(table.postings)
        if table.tenants:
            shares = [(t.name, Table(meta, TenantKeys(keys, t))) for t in tenants]
            for _, share in shares:
                share.indexes = indexes[table.data]
            of_tenants[table.name] = {}
            for name, share in shares:
                of_tenants[table.name][name] = share.rows({row: rows.pop(row) for row in list(rows) if row.startswith(share.token)})
                own = {p: cells for p, cells in postings.items() if p[4:20] == share.token}
                dangling[table.name] = dangling.get(table.name, 0) + share.dangling(own)
                for posting in own:
                    del postings[posting]
            orphans[table.name] = len(rows)
            gone = gone or len(rows) > 0
            check(gone or not postings, "postings of nobody")
            shares = [share for _, share in shares]
            for t in tenants:
                for policy in [t.policies[meta["id"]]] if meta["id"] in t.policies else []:
                    # It may name columns that were dropped since.
                    check(all(len(c) == 8 for c in policy.get("sensitive", [])) and 0 < policy["since"] <= root["version"], "a policy of no columns")
        else:
            table.indexes = indexes[table.data]
            result[table.name] = table.rows(rows)
            dangling[table.name] = table.dangling(postings)
            shares = [table]
        places = [b"\3" + table.id + share.token for share in shares]
        for qualifier in [q for q in progress if q in places]:
            sweep = json.loads(unseal(key, progress.pop(qualifier), place(b"catalogue", qualifier))[0])
            check(0 < sweep["target"] <= root["version"] and sweep["round"] > 0 and sweep["over"] == all(sweep["parts"]), "progress of no conversion")
            n, end = len(sweep["parts"]), 0
            for first, below in sweep.get("spans", []):
                check(end == 0 or end < first, "spans of a conversion that meet")
                check(0 <= first < below <= 1 << 32, "a span of no table")
                end = below
                for i, done in enumerate(sweep["parts"]):
                    low, high = (i << 32) // n, (i + 1 << 32) // n
                    check(not (first <= low and high <= below) and not (done and first < high and low < below), "a span of a part that is done")
        qualifier = b"\4" + table.id
        if qualifier in migrations:
            check_migration(json.loads(unseal(key, migrations.pop(qualifier), place(b"catalogue", qualifier))[0]))
        for share in shares:
            for f in share.parts + share.columns + share.former:
                if f.encryption == "ordered":
                    f.check_order()
                if f.stateful:
                    states.setdefault(f.state, []).append(f)
    check(gone or not progress, "progress of no table")
    check(not any(archives.values()), "earlier keys that no entry names")
    for family in {family for family, _ in states}:
        check(specs[family] == {"layout": "wide", "prefix_bytes": 0, "spread_bits": 0}, "the layout of an index")
        for row, cells in families.pop(family).items():
            check(row[:1] == b"u", "not a unit")
            name = next((unit for f, unit in states if f == family and row[1:].decode().startswith(unit)), None)
            if name is None and gone:
                continue  # of a tenant that is gone
            for f in states[family, name]:
                f.units[row[1 + len(name):]] = Unit(cells)
    for fields in states.values():
        for f in fields:
            check(f.units or not f.pairs, "rows have values, and there is no index")
            if f.units:
                index = read_index(f, f.units)
                codes = [code for _, code in index]
                check(codes == sorted(set(codes)), "an index is not in order")
                if f.ranked:
                    f.check_ranks(index)
                elif f.mutable:
                    check({code for _, code in f.pairs} <= set(codes), "a value of a row is not in the index")
                else:
                    check(set(f.pairs) <= set(index), "a ciphertext of a row is not in the index")
    # Families stay when the columns that they were for are changed or dropped.
    stay = {kind + meta["id"] for meta in metas for kind in "xi"} | {"i" + root["database"]}
    check(set(families) <= stay, "families of no table")
    json.dump({"tables": result, "tenants": of_tenants, "orphans": orphans, "dangling": dangling, "elsewhere": elsewhere}, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
