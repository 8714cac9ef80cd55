"""`tahmin datastore`: `datastore_test.py PROGRAM WRITE_TINY_MODEL`. Needs no download.

A store of this repository's own texts, what info says of it, and every way in which it can go wrong.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, WRITER = sys.argv[1:3]
TEXTS = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs").glob("*.md"))
FOLDER = tempfile.TemporaryDirectory()
ROOT = pathlib.Path(FOLDER.name)
DOCS = ROOT / "docs"  # copies of the texts and nothing else
MODEL, OTHER, STORE = ROOT / "model.gguf", ROOT / "other.gguf", ROOT / "docs.store"
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)


def call(*arguments):
    return subprocess.run([PROGRAM, "datastore", *map(str, arguments)], capture_output=True, timeout=120)


def expect(code, word, *arguments):
    result = call(*arguments)
    error = result.stderr.decode(errors="replace")
    check(result.returncode == code and word in error,
          f"{arguments}: exit code {result.returncode}, expected {code} and '{word}' in: {error[-300:]}")
    return result


def build(store, *arguments, code=0, word=""):
    return expect(code, word, "build", "-m", MODEL, "-o", store, *arguments)


def info(store):
    return json.loads(expect(0, "", "info", store, "--json").stdout)


def tokenize(path, model=MODEL):
    result = subprocess.run([PROGRAM, "tokenize", "-m", model, "-f", path], capture_output=True, check=True)
    return [int(word) for word in result.stdout.split()]


def check_build():
    docs = sorted(DOCS.glob("*.md"))
    result = build(STORE, DOCS)
    check(result.stdout == b"" and b"M tokens/s" in result.stderr and b"\r" not in result.stderr, f"build: {result}")
    output = info(STORE)
    num_tokens = sum(len(tokenize(path)) for path in docs)
    check(output["documents"] == len(docs) and output["tokens"] == num_tokens, f"info: {output}, {num_tokens} tokens")
    check(output["file_bytes"] == STORE.stat().st_size and output["version"] == 1, f"info: {output}")
    check(output["chunks"] == [{"entries": num_tokens + len(docs), "suffixes": num_tokens}], f"chunks: {output}")
    text = expect(0, "", "info", STORE, "-m", MODEL).stdout.decode()
    check(output["fingerprint"] in text and f"{num_tokens} of {len(docs)} documents" in text, f"info: {text}")
    # The same bytes whatever the threads; other chunks hold the same tokens.
    again = ROOT / "again.store"
    build(again, DOCS, "-t", 1)
    check(again.read_bytes() == STORE.read_bytes(), "one thread makes another store")
    build(again, DOCS, "--chunk-tokens", 1000)
    check(info(again)["tokens"] == num_tokens and len(info(again)["chunks"]) > num_tokens // 1000, f"{info(again)}")
    build(again, DOCS, "--max-tokens", 1234)
    check(info(again)["tokens"] == 1234, f"--max-tokens: {info(again)}")
    # A second look at the same texts adds nothing.
    result = build(again, DOCS, docs[0])
    check(again.read_bytes() == STORE.read_bytes() and b"1 copies" in result.stderr, f"copies: {result.stderr}")


def check_inputs():
    tree = ROOT / "tree"
    (tree / "b").mkdir(parents=True)
    (tree / ".git").mkdir()
    (tree / "b" / "z.txt").write_text("last")
    (tree / "a.txt").write_text("first")
    (tree / ".git" / "hidden").write_text("hidden")
    (tree / "zeros").write_bytes(b"a\0b")
    (tree / "latin").write_bytes(b"caf\xe9")
    (tree / "empty").write_bytes(b"")
    (tree / "link").symlink_to(tree / "a.txt")
    (tree / "lines.jsonl").write_text('{"text": "one"}\n\n{"turns": ["two", "three"]}\n')
    (tree / "tokens.ids").write_text("1 2 3\n4 5\n")
    store = ROOT / "tree.store"
    result = build(store, tree)
    expected = ["first", "last", "one", "two\n\nthree"]
    lengths = 5
    for text in expected:
        (ROOT / "text").write_text(text)
        lengths += len(tokenize(ROOT / "text"))
    output = info(store)
    check(output["tokens"] == lengths and output["documents"] == 6, f"tree: {output}, expected {lengths} tokens")
    check(b"2 files that are no text" in result.stderr, f"tree: {result.stderr}")
    # The text of a control token is text, as a model would have to write it.
    (ROOT / "text").write_text("<|im_end|>")
    build(store, ROOT / "text")
    check(len(tokenize(ROOT / "text")) == 1 < info(store)["tokens"], f"a control token came out of a text: {info(store)}")


def check_errors():
    for arguments in [(), ("build",), ("info",), ("build", "-m", MODEL, "-o", STORE), ("build", "-m", MODEL, DOCS),
                      ("info", STORE, "--pre", "gpt-2"), ("nonsense",), ("info", STORE, STORE)]:
        expect(2, "error", *arguments)
    for arguments in [("--max-tokens", -1), ("--chunk-tokens", 1), ("--chunk-tokens", 2**30), ("-t", -1), ("--pre", "x")]:
        build(ROOT / "none", DOCS, *arguments, code=2, word=arguments[0])
    missing = ROOT / "missing"
    build(ROOT / "none", missing, code=1, word=str(missing))
    build(missing / "store", DOCS, code=1, word=str(missing))
    expect(1, str(missing), "info", missing)
    expect(1, str(missing), "build", "-m", missing, "-o", ROOT / "none", DOCS)
    expect(1, "not a regular file", "info", ROOT)
    build(ROOT / "none", ROOT / "tree" / "zeros", code=1, word="expected text")
    build(ROOT / "none", ROOT / "tree" / "empty", code=1, word="at least one token")
    for name, line in [("x.jsonl", '{"text": 3}'), ("x.jsonl", "no JSON"), ("x.jsonl", '{"turns": "x"}'),
                       ("x.ids", "1 x"), ("x.ids", "-1"), ("x.ids", "99999999999"), ("x.ids", "100000")]:
        (ROOT / name).write_text(f"\n{line}\n")
        build(ROOT / "none", ROOT / name, code=1, word=f"{name}, line 2: expected")
    check(not list(ROOT.glob("none*")), "a failed build left a file behind")
    before = STORE.read_bytes()
    build(STORE, ROOT / "tree" / "empty", code=1)
    check(STORE.read_bytes() == before, "a failed build changed the store")
    # Another vocabulary, with both fingerprints.
    error = expect(1, info(STORE)["fingerprint"], "info", STORE, "-m", MODEL, "--pre", "qwen2").stderr
    check(b"expected fingerprint" in error, f"another tokenizer: {error}")
    expect(0, "", "info", STORE, "-m", OTHER)  # more padding is no other vocabulary
    # Damaged files.
    damaged = ROOT / "damaged.store"
    for length in [0, 1, 63, 64, 1000, len(before) - 1]:
        damaged.write_bytes(before[:length])
        expect(1, "truncated", "info", damaged)
    damaged.write_bytes(before[:20] + b"\xff" + before[21:])
    expect(1, "checksum", "info", damaged)
    damaged.write_text("this is no store" * 10)
    expect(1, "not a datastore", "info", damaged)


def check_interrupt():
    """Ctrl-C ends a build with 130 and leaves nothing behind."""
    pipe = ROOT / "endless.jsonl"
    os.mkfifo(pipe)
    store = ROOT / "interrupted.store"
    process = subprocess.Popen([PROGRAM, "datastore", "build", "-m", MODEL, "-o", store, pipe], stderr=subprocess.PIPE)
    with contextlib.suppress(BrokenPipeError), open(pipe, "w") as writer:
        writer.write('{"text": "one"}\n')
        writer.flush()
        deadline = time.time() + 60
        while not list(ROOT.glob("interrupted.store.*")) and time.time() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        with contextlib.suppress(BrokenPipeError):  # it may be gone already
            writer.write('{"text": "two"}\n')
            writer.flush()
    error = process.communicate(timeout=60)[1]
    check(process.returncode == 130 and b"interrupted" in error, f"Ctrl-C: exit code {process.returncode}, {error}")
    check(not list(ROOT.glob("interrupted.store*")), "an interrupted build left a file behind")


DOCS.mkdir()
for text in TEXTS:
    shutil.copy(text, DOCS)
subprocess.run([WRITER, "--out", MODEL], check=True)
subprocess.run([WRITER, "--out", OTHER, "--vocab-size", "400"], check=True)
check_build()
check_inputs()
check_errors()
check_interrupt()
for failure in failures:
    print(f"FAILED: {failure}")
sys.exit(1 if failures else 0)
