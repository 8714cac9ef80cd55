#!/usr/bin/env python3
"""Checks who includes whom: an include goes to a lower level, never sideways, never up.

Reads every #include "folder/..." below include/, src/, apps/, bench/ and tests/; prints one line per
breach and exits with 1 if there is any. Its own rules are tried on made-up includes first.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

LEVELS = [
    ["base"],
    ["step"],
    ["gguf", "kernels", "kv"],
    ["model", "sampling", "tokenizer"],
    ["control", "draft", "verify", "accept", "stream"],
    ["engine"],
    ["measure"],
    ["apps", "bench"],
]
LEVEL = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}

# Not levels of the table: the public headers stand on base alone (their options may be read by every
# level), and tests may look at everything.
PUBLIC = "tahmin"
PUBLIC_FOR_ALL = {"tahmin/options.h"}
TESTS = "tests"

# Sideways, in tests only, with the reason. Keep this list short.
TEST_EXCEPTIONS = {
    ("kernels", "gguf"): "the values that packed blocks must stand for come from gguf/dequantize.h",
}

# What a test is, or serves tests only.
TEST_SUFFIXES = ("_test", "_bench", "_fixture")

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """The folder of the table that a file of the project belongs to, or None."""
    parts = path.parts
    if parts[0] == "src":
        return parts[1]
    if parts[0] == "include":
        return PUBLIC
    return parts[0]


def breach(source, is_test, included):
    """What is wrong with a file of folder `source` including `included`, or None."""
    target = included.split("/")[0]
    if "/" not in included or source == target or source == TESTS:
        return None
    if target == TESTS:
        return None if is_test or source == "bench" else "only tests include tests/"
    if target == PUBLIC:
        if included in PUBLIC_FOR_ALL or LEVEL[source] >= LEVEL["engine"]:
            return None
        return f"{source} is below engine and may include only " + ", ".join(sorted(PUBLIC_FOR_ALL))
    if target not in LEVEL:
        return None  # a third-party header
    if source == PUBLIC:
        return None if target == "base" else "public headers stand on base alone"
    if LEVEL[target] < LEVEL[source] or (is_test and (source, target) in TEST_EXCEPTIONS):
        return None
    return "sideways" if LEVEL[target] == LEVEL[source] else "up"


def self_test():
    cases = [
        ("kernels", False, "base/half.h", True),
        ("kernels", False, "kernels/isa.h", True),
        ("kernels", False, "gguf/dequantize.h", False),
        ("kernels", True, "gguf/dequantize.h", True),
        ("gguf", False, "kernels/isa.h", False),
        ("draft", False, "model/model.h", True),
        ("draft", False, "verify/verifier.h", False),
        ("draft", False, "engine/sequence.h", False),
        ("base", False, "tahmin/options.h", True),
        ("base", False, "tahmin/engine.h", False),
        ("model", True, "tests/data/tiny_model.h", True),
        ("model", False, "tests/data/tiny_model.h", False),
        ("apps", False, "engine/sequence.h", True),
        ("engine", False, "apps/command.h", False),
        ("engine", False, "absl/status/status.h", True),
    ]
    for source, is_test, included, is_allowed in cases:
        if (breach(source, is_test, included) is None) != is_allowed:
            sys.exit(f"check_layers: self-test: {source} -> {included} must be "
                     f"{'allowed' if is_allowed else 'refused'}")


def main():
    self_test()
    num_files = num_breaches = 0
    for top in ["include", "src", "apps", "bench", "tests"]:
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in {".h", ".cc", ".inc"}:
                continue
            num_files += 1
            path = file.relative_to(ROOT)
            source = folder_of(path)
            if source not in LEVEL and source not in {PUBLIC, TESTS}:
                sys.exit(f"check_layers: {path}: folder '{source}' is not in the table")
            is_test = file.stem.endswith(TEST_SUFFIXES)
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                reason = match and breach(source, is_test, match.group(1))
                if reason:
                    num_breaches += 1
                    print(f"{path}:{number}: {source} -> {match.group(1)}: {reason}")
    print(f"check_layers: {num_files} files, {num_breaches} breaches")
    return 1 if num_breaches else 0


if __name__ == "__main__":
    sys.exit(main())
