#!/usr/bin/env python3
"""Has Apache Spark run a pass over a table in parts, and adds up what the parts say.

    spark-submit --master spark://HOST:7077 parts.py PARTS rangecrypt table convert NAME --store STORE --key FILE
    spark-submit --master spark://HOST:7077 parts.py PARTS rangecrypt verify --table NAME --store STORE --key FILE

Each part is a task. It runs the command with --part and --parts on a worker, which has the program, and the file or
variable that --key names. Spark repeats a task whose worker died, or which could not reach the database, up to
spark.task.maxFailures times: that is harmless. It prints the errors of parts, and a line of JSON with the sums for each table.
The exit code is that of the worst part. It is 1 if a conversion is not over, as when the schema was changed meanwhile: run it again.
"""
import json
import subprocess
import sys

from pyspark.sql import SparkSession


def run(command, part, parts):
    """Runs a part, and returns its exit code, its lines and its errors. Codes 1, 2 and 3 would only come again."""
    done = subprocess.run([*command, "--part", str(part), "--parts", str(parts)], capture_output=True, text=True, check=False)
    errors = done.stderr.strip()[-2000:] if done.returncode else ""
    if done.returncode not in (0, 1, 2, 3):
        raise RuntimeError(f"part {part} of {parts} ends with code {done.returncode}: {errors}")
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], errors


def total(lines):
    """Adds up the counts of lines, for each table. Of done parts the largest number counts, as one that ended last may print first."""
    sums = {}
    for line in lines:
        of = sums.setdefault((line["record"], line["table"], line.get("tenant")), {"counted": 0})
        of["counted"] += 1
        for name, value in line.items():
            if name in ("done", "over"):
                of[name] = max(of.get(name, value), value)
            elif name in ("complete", "sound"):
                of[name] = of.get(name, True) and value
            elif name != "part" and name != "parts" and type(value) in (int, list):
                of[name] = of.get(name, type(value)()) + value
            elif isinstance(value, dict):
                of[name] = {k: of.get(name, {}).get(k, 0) + value.get(k, 0) for k in {**of.get(name, {}), **value}}
            elif name != "part":
                of[name] = value
    return list(sums.values())


def main():
    parts, command = int(sys.argv[1]), sys.argv[2:]
    spark = SparkSession.builder.appName("rangecrypt, in parts").getOrCreate()
    done = spark.sparkContext.parallelize(range(parts), parts).map(lambda part: run(command, part, parts)).collect()
    spark.stop()
    lines = [line for _, some, _ in done for line in some]
    sums = total(line for line in lines if line["record"] != "fault")
    for line in [line for line in lines if line["record"] == "fault"] + sums:
        print(json.dumps(line))
    for _, _, errors in done:
        if errors:
            print(errors, file=sys.stderr)
    codes = [code for code, _, _ in done]
    if not all(of.get("over", True) for of in sums):
        print("the conversion is not over: run it again", file=sys.stderr)
        codes.append(1)
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
