"""B44: every option of `tahmin run` does something that can be seen: `option_effects_test.py PROGRAM WRITE_TINY_MODEL`.

The table says for each option which run it is added to and what changes; an option that --help lists and the table
does not is a failure. Notes about options without effect are in cli_errors_test.py. Needs no download.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM, WRITER = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
ROOT = pathlib.Path(FOLDER.name)
MODEL, DRAFT, OTHER = (str(ROOT / f"{name}.gguf") for name in ("model", "draft", "other"))
PROMPT = ("-p", "hello hello hello")
BASE = ("--seed", 3, "-n", 24, "-c", 128)
SAMPLED = (*BASE, "--temp", 1.5)
# Text of three letters: much of it has been there before.
COLORED = (*BASE, "-md", MODEL, "--spec", "draft", "--draft-max", 4)  # the model drafts for itself: all is accepted
LOOKUP = (*BASE, "--draft-max", 4, "--spec", "lookup", "--logit-bias", "101=40", "--logit-bias", "102=40", "--logit-bias", "103=40")
LOOKAHEAD = (*BASE, "--spec", "lookahead", *LOOKUP[-6:])
DRAFTED = (*SAMPLED, "-md", DRAFT, "--spec", "draft", "--draft-max", 4)
STORE = str(ROOT / "texts.store")
failures = []


def call(*arguments):
    return subprocess.run([PROGRAM, "run", *map(str, arguments)], capture_output=True, timeout=120, stdin=subprocess.DEVNULL)


def seen(arguments):
    """What a run shows that does not depend on the clock."""
    with tempfile.NamedTemporaryFile(dir=ROOT, suffix=".json") as report:
        target = () if "--json" in arguments or "--json-file" in arguments else ("--json-file", report.name)
        result = call(*(() if "-m" in arguments else ("-m", MODEL)), *arguments, *target)
        text = pathlib.Path(report.name).read_text() if target else ""
    if result.returncode != 0:
        failures.append(f"{arguments}: exit code {result.returncode}, {result.stderr[-300:]}")
        return {}
    if re.search(rb"note: .*no effect", result.stderr):
        failures.append(f"{arguments}: {result.stderr}")
    output = json.loads(text) if text else {}
    stats = {name: value for name, value in output.get("stats", {}).items() if not name.endswith(("_ms", "_per_second"))}
    error = re.sub(rb"[0-9.]+ (ms|tokens/s)", b"", result.stderr)
    stdout = result.stdout if not result.stdout.startswith(b"{") else b"JSON"
    return {**output, "stats": stats, "stdout": stdout, "stderr": error, "written": (ROOT / "written.json").exists()}


file_prompt = ROOT / "prompt"
file_prompt.write_text("hello from a file")
# option: (the run without it, what is added, what differs)
TABLE = {
    "--model": (BASE, ("-m", OTHER), "ids"),
    "--model-draft": (SAMPLED, ("-md", DRAFT), "stderr"),  # the memory plan
    "--ctx-size-draft": (DRAFTED, ("-cd", 30), "stats"),
    "--draft-kv-type": (DRAFTED, ("--draft-kv-type", "f32"), "stderr"),  # the memory plan
    "--draft-repack": (DRAFTED, ("--draft-repack", "stored"), "stderr"),
    "--draft-head": (DRAFTED, ("--draft-head", "frequent"), "stderr"),
    "--draft-head-tokens": ((*DRAFTED, "--draft-head", "frequent"), ("--draft-head-tokens", 20), "stderr"),
    "--threads": ((*BASE, "-t", 1, "--stats"), ("-t", 2), "stderr"),
    "--ctx-size": (BASE, ("-c", 30), "ids"),
    "--kv-type": (BASE, ("--kv-type", "f32"), "stderr"),
    "--prefill-chunk": (BASE, ("--prefill-chunk", 2), "stderr"),
    "--spec": (BASE, ("--spec", "lookup"), "drafter"),
    "--draft-max": (LOOKAHEAD, ("--draft-max", 1), "stats"),
    "--draft-width": ((*BASE, "--spec", "recycling", "--draft-max", 6), ("--draft-width", 1), "stats"),
    "--lookahead-window": (LOOKAHEAD, ("--lookahead-window", 2), "stats"),
    "--lookahead-ngram": (LOOKAHEAD, ("--lookahead-ngram", 2), "stats"),
    "--lookahead-guesses": (LOOKAHEAD, ("--lookahead-guesses", 1, "--draft-max", 40), "stats"),
    "--datastore": (BASE, ("--datastore", STORE), "stats"),  # one more drafter under auto
    "--suffix-store": (BASE, ("--suffix-store", ROOT / "earlier.store"), "stderr"),  # the memory plan
    "--suffix-store-mb": ((*BASE, "--suffix-store", ROOT / "earlier.store"), ("--suffix-store-mb", 2), "stderr"),
    "--lookup-min": (LOOKUP, ("--lookup-min", 4), "stats"),
    "--lookup-max": (LOOKUP, ("--lookup-max", 2), "stats"),
    "--accept": (DRAFTED, ("--accept", "rejection"), "ids"),
    "--predict": (BASE, ("-n", 5), "ids"),
    "--temp": (BASE, ("--temp", 3), "ids"),
    "--top-k": (SAMPLED, ("--top-k", 1), "ids"),
    "--top-p": (SAMPLED, ("--top-p", 0.05), "ids"),
    "--min-p": (SAMPLED, ("--min-p", 0.95), "ids"),
    "--repeat-penalty": (BASE, ("--repeat-penalty", 3), "ids"),
    "--frequency-penalty": (BASE, ("--frequency-penalty", 3), "ids"),
    "--presence-penalty": (BASE, ("--presence-penalty", 5), "ids"),
    "--repeat-last-n": ((*BASE, "--repeat-penalty", 3), ("--repeat-last-n", 2), "ids"),
    "--logit-bias": (BASE, ("--logit-bias", "101=30"), "ids"),
    "--seed": (SAMPLED, ("--seed", 4), "ids"),
    "--stop": ((*BASE, "--logit-bias", "101=30"), ("--stop", "a"), "finish_reason"),
    "--ignore-eos": (("-c", 500, "--seed", 3, "--temp", 4, "--top-k", 0, "--top-p", 1, "--min-p", 0), ("--ignore-eos",), "ids"),
    "--logprobs": (BASE, ("--logprobs", 2), "logprobs"),
    "--prompt": (BASE, ("-p", "other words"), "prompt_ids"),
    "--file": (BASE, ("-f", file_prompt), "prompt_ids"),
    "--chat": (BASE, ("--chat",), "prompt_ids"),
    "--system": ((*BASE, "--chat"), ("--system", "You are brief."), "prompt_ids"),
    "--chat-template": ((*BASE, "--chat"), ("--chat-template", "llama3"), "prompt_ids"),
    "--color": (COLORED, ("--color",), "stdout"),
    "--stats": (BASE, ("--stats",), "stderr"),
    "--json": (BASE, ("--json",), "stdout"),
    "--json-file": (BASE, ("--json-file", ROOT / "written.json"), "written"),
}


def replace(base, added):
    """`base` with `added` in place of the same options: none may be given twice."""
    kept, names = [], {str(word) for word in added if str(word).startswith("-")}
    words = list(base)
    while words:
        word = words.pop(0)
        values = []
        while words and not re.match(r"-+[a-z]", str(words[0])):
            values.append(words.pop(0))
        if word not in names:
            kept += [word, *values]
    return (*kept, *added)


for path, seed in [(MODEL, 1), (DRAFT, 2), (OTHER, 3)]:
    # A logit scale at which sampling has a choice.
    subprocess.run([WRITER, "--out", path, "--seed", str(seed), "--logit-scale", "4"], check=True)
texts = ROOT / "texts.txt"
texts.write_text("hello hello hello from a file " * 20)
subprocess.run([PROGRAM, "datastore", "build", "-m", MODEL, "-o", STORE, texts], check=True, capture_output=True)
for option, (base, added, field) in TABLE.items():
    has_prompt = "-p" in added or "-f" in added
    before = seen((*PROMPT, *base))
    after = seen(replace((*(() if has_prompt else PROMPT), *base), added))
    if before.get(field) == after.get(field):
        failures.append(f"{option}: {field} is {after.get(field)!r} with it and without it")
# --pre makes a file usable whose own pre-tokenizer is unknown.
data = pathlib.Path(MODEL).read_bytes()
key = b"tokenizer.ggml.pre"
at = data.index(key) + len(key) + 4
length = int.from_bytes(data[at:at + 8], "little")
(ROOT / "unknown.gguf").write_bytes(data[:at + 8] + b"x" * length + data[at + 8 + length:])
for code, added in [(1, ()), (0, ("--pre", "qwen2"))]:
    result = call("-m", ROOT / "unknown.gguf", *PROMPT, *BASE, *added)
    if result.returncode != code:
        failures.append(f"an unknown pre-tokenizer, {added}: {result}")
TABLE["--pre"] = None
help_text = call("--help").stdout.decode()
names = set(re.findall(r"^\s+(?:-{1,2}[a-z]+,)*(--[a-z-]+)", help_text, re.M)) - {"--help"}
if len(names) < 30:
    failures.append(f"--help lists only {names}")
for option in names ^ TABLE.keys():
    failures.append(f"{option} is in --help or in the table, not in both: what does it change?")
for failure in failures:
    print("FAILED:", failure)
print(f"{len(TABLE)} options")
sys.exit(1 if failures else 0)
