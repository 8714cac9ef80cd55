"""Hostile and clumsy use of the program: `cli_errors_test.py PROGRAM WRITE_TINY_MODEL`. Needs no download.

Exit code 2 and the flag's name for a wrong option value, 1 for everything else that goes wrong, never a crash.
"""
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM, WRITER = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
ROOT = pathlib.Path(FOLDER.name)
MODEL, DRAFT = (str(ROOT / name) for name in ("model.gguf", "draft.gguf"))
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)


def call(*arguments, stdin=b"", **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, timeout=120,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


def expect(code, word, *arguments, **options):
    """The exit code, and what stderr must name."""
    result = call(*arguments, **options)
    error = (result.stderr or b"").decode(errors="replace")
    check(result.returncode == code and word in error,
          f"{arguments}: exit code {result.returncode}, expected {code} and '{word}' in: {error[-300:]}")
    return result


def write_model(path, *options):
    subprocess.run([WRITER, "--out", path, *options], check=True)


def run(*arguments, **options):
    return call("run", "-m", MODEL, *arguments, **options)


def check_option_values():
    wrong = {"-n": ["0", "-2", "x", "99999999999"], "-t": ["-1", "1025"], "-c": ["1", "-1", "99999999"],
             "--temp": ["-1", "nan", "inf", "x"], "--top-p": ["0", "2", "nan"], "--min-p": ["1", "-1"],
             "--top-k": ["-5"], "--seed": ["-1", " 5", "x", "", "18446744073709551616"],
             "--logit-bias": ["1", "=", "1=", "1=x", "1=nan", "1=inf", "999=1", "-1=1", "99999999999=1"],
             "--draft-max": ["0", "100000"], "--prefill-chunk": ["0"], "--stop": [""], "--logprobs": ["-1", "321"],
             "--repeat-penalty": ["0", "nan"], "--frequency-penalty": ["nan"], "--repeat-last-n": ["-2"],
             "--kv-type": ["f64"], "--draft-kv-type": ["f64"], "--spec": ["x", "junk", "draft"], "--lookup-min": ["0"],
             "--accept": ["x"], "--pre": ["x"]}
    names = {"-n": "--predict", "-t": "--threads", "-c": "--ctx-size"}
    for flag, values in wrong.items():
        for value in values:
            word = "" if flag == "-n" else names.get(flag, flag)
            expect(2, word, "run", "-m", MODEL, "-p", "hi", "--json", flag, value)
    base = ("run", "-m", MODEL, "-p", "hi")
    for arguments in [("--nonsense",), ("-n",), ("-n", 1, "-n", 2), ("--system", "x"), ("--logprobs", 2),
                      ("--json", "--color"), ("--lookup-min", 5, "--lookup-max", 3), ("-f", "x"), ("--stop", "a", "b"),
                      ("--chat", "--chat-template", "x")]:
        expect(2, "error", *base, *arguments)
    expect(2, "nonsense", "nonsense")
    # B33: what is not there is refused with its name, with a drafter and without one.
    for drafter in [(), ("--spec", "lookup"), ("-md", DRAFT)]:
        for option in ["--beams", "--best-of"]:
            expect(2, option, *base, *drafter, option, 4)
    for arguments in [(), ("--temps", "-1"), ("--temps", "nan"), ("--drafters", "x"), ("--drafters", "draft"),
                      ("--threads-list", "0"), ("--draft-max", "0"), ("--seeds", "-1"), ("--groups", "x")]:
        prompt = ("-p", "hi") if arguments else ()
        expect(2, "", "audit", "-m", MODEL, *prompt, *arguments)
    for arguments in [("--acceptance", "nan"), ("--draft-cost", "nan"), ("--draft-cost", "-1")]:
        expect(2, arguments[0], "theory", *arguments)
    for rows in ["0", "2,1", "1,1", "1,,2", "x"]:
        expect(2, "--curve", "inspect", "-m", MODEL, "--curve", rows)
    # A stop string in brackets is a text, not a list.
    result = run("-p", "hi", "-n", 4, "--temp", 0, "--json", "--stop", "[e,d]")
    check(json.loads(result.stdout)["finish_reason"] == "length", f"--stop [e,d]: {result.stdout}")


def check_notes():
    """B44: an option without effect is named."""
    for word, arguments in [("--lookup-min", ("--lookup-min", 2)), ("--draft-max", ("--draft-max", 2, "--spec", "none")),
                            ("--top-k", ("--temp", 0, "--top-k", 3)), ("--draft-kv-type", ("--draft-kv-type", "f32")),
                            ("--accept", ("--accept", "rejection", "--spec", "none")), ("--datastore", ("--datastore", MODEL, "--spec", "lookup")),
                            ("--suffix-store", ("--suffix-store", ROOT / "unused", "--spec", "lookup")), ("--suffix-store-mb", ("--suffix-store-mb", 2)),
                            ("--lookahead-window", ("--lookahead-window", 2)), ("--draft-width", ("--draft-width", 2, "--spec", "lookup")),
                            ("--repeat-last-n", ("--repeat-last-n", 3)),
                            ("--model-draft", ("-md", DRAFT, "--spec", "lookup"))]:
        expect(0, f"note: {word}", "run", "-m", MODEL, "-p", "hi", "-n", 2, *arguments)
    for word, arguments in [("--accept", ("--accept", "keyed", "--spec", "none")), ("--ctx-size-draft", ("-cd", 9)),
                            ("--repeat-penalty", ("--repeat-penalty", 1.5, "--repeat-last-n", 0)),
                            ("--ctx-size-draft", ("-md", DRAFT, "-c", 64, "-cd", 64)),
                            ("--logit-bias", ("--ignore-eos", "--logit-bias", "1=5"))]:
        for command in ["run", "chat"]:
            prompt = ("-p", "hi") if command == "run" else ()
            expect(0, f"note: {word}", command, "-m", MODEL, *prompt, "-n", 2, *arguments)
    ids = ROOT / "note_ids"
    ids.write_text("1 2 3")
    logits = ("logits", "-m", MODEL, "--ids-file", ids, "--hash")
    audit = ("audit", "-m", MODEL, "-p", "hi", "-n", 2, "--drafters")
    for word, arguments in [("--pre", ("inspect", "-m", MODEL, "--pre", "gpt-2")),
                            ("--ctx-size-draft", ("inspect", "-m", MODEL, "-cd", 9)),
                            ("--tensors", ("inspect", "-m", MODEL, "--json", "--tensors")),
                            ("--pre", (*logits, "--pre", "gpt-2")), ("--prefill-chunk", (*logits, "--prefill-chunk", 2)),
                            ("--draft-max", (*audit, "none", "--draft-max", 2)),
                            ("--seeds", (*audit, "junk", "--seeds", 2, "--temps", 0)),
                            ("--threads", (*audit, "junk", "-t", 2, "--threads-list", 1)),
                            ("--model-draft", (*audit, "junk", "-md", DRAFT)),
                            ("lookup drafted nothing", (*audit, "lookup", "--temps", 0, "--draft-max", 1))]:
        expect(0, f"note: {word}", *arguments)
    expect(2, "--drafters", "bench", "-m", MODEL, "--prompts", ids, "--drafters", "none@4")
    result = run("-p", "hi", "-n", 2, "--spec", "lookup", "--lookup-min", 2, "--seed", 1)
    check(b"note" not in result.stderr, f"a note for an option that has an effect: {result.stderr}")


def check_context():
    """The default fits the model; more than it was trained for is said; the draft's own limit is said once (B24)."""
    asked = ("run", "-m", MODEL, "-p", "hi", "-n", 2)
    trained = json.loads(call("inspect", "-m", MODEL, "--json").stdout)["metadata"]["llama.context_length"]
    check(trained == "512", f"the tiny model's trained context: {trained}")
    result = run("-p", "hi", "-n", -1, "--ignore-eos", "--temp", 0, "--json")
    output = json.loads(result.stdout)
    check(len(output["ids"]) + len(output["prompt_ids"]) == 512 and b"warning" not in result.stderr,
          f"default context: {len(output['ids'])} tokens, {result.stderr}")
    for context, is_warned in [(512, False), (513, True), (0, False)]:
        error = expect(0, "memory plan: ", *asked, "-c", context).stderr
        check((b"warning: --ctx-size 513 is more than the 512 tokens" in error) == is_warned, f"-c {context}: {error}")
    stretched = ROOT / "stretched.gguf"
    write_model(stretched, "--rope-scaling", "linear")
    error = expect(0, "", "run", "-m", stretched, "-p", "hi", "-n", 2, "-c", 2048).stderr
    check(b"warning" not in error, f"a stretched context is warned about: {error}")
    # B24: past its context the draft model is silent, and that is said.
    arguments = ("-md", MODEL, "-c", 200, "-n", -1, "--ignore-eos", "--temp", 0)
    plain = json.loads(run("-p", "hello", *arguments, "--spec", "none", "--json").stdout)
    arguments += ("--spec", "draft", "--draft-max", 4)
    result = run("-p", "hello", *arguments, "-cd", 40, "--json")
    short, full = json.loads(result.stdout), run("-p", "hello", *arguments, "--json")
    check(short["ids"] == plain["ids"] == json.loads(full.stdout)["ids"], "a short draft context changes the text")
    note = b"the draft model's context of 40 tokens was full"
    check(result.stderr.count(note) == 1 and b"context of" not in full.stderr, f"draft context: {result.stderr}")
    check(short["stats"]["draft_context_full_steps"] > 100 and short["stats"]["drafted"] > 0, f"stats: {short['stats']}")
    check(json.loads(full.stdout)["stats"]["draft_context_full_steps"] == 0, "a roomy draft context counts as full")
    result = call("chat", "-m", MODEL, "-md", MODEL, "-c", 400, "-n", 60, "--ignore-eos", "--temp", 0, "-cd", 40, "--spec", "draft",
                  "--draft-max", 4, stdin=b"hello\nhello\n")
    check(result.stderr.count(note) == 1, f"chat says it once: {result.stderr}")
    error = expect(0, "", *asked, "-md", DRAFT, "-c", 4096, "-cd", 600).stderr
    check(b"warning: --ctx-size-draft 600 is more than the 512 tokens" in error, f"-cd 600: {error}")


def check_files():
    empty, text, short = ROOT / "empty", ROOT / "text.gguf", ROOT / "short.gguf"
    empty.write_bytes(b"")
    text.write_text("this is no model")
    data = pathlib.Path(MODEL).read_bytes()
    short.write_bytes(data[:100000])
    for path in [empty, text, short, ROOT, ROOT / "missing", "/dev/null"]:
        for command in [("run", "-p", "x"), ("tokenize", "-p", "x"), ("inspect",)]:
            expect(1, str(path), *command, "-m", path)
    for path in [ROOT, ROOT / "missing"]:
        expect(1, str(path), "run", "-m", MODEL, "-f", path)
    expect(1, "no tokens", "run", "-m", MODEL, "-f", empty)
    result = run("-n", 2, "-c", 100, stdin=b"hello " * 1000)
    check(result.returncode == 1 and b"and the context holds 100" in result.stderr, f"too long: {result.stderr}")
    result = run("-n", 8, "--temp", 0, "--json", stdin=b"a\0b\xff\xfe\xc3")
    check(len(json.loads(result.stdout)["ids"]) == 8, f"invalid UTF-8: {result}")
    # The weights are the end of the file: NaN in all of the last matrix.
    (ROOT / "nan.gguf").write_bytes(data[:-4352] + b"\xff" * 4352)
    (ROOT / "nan_ids").write_text("1 2 3")
    expect(1, "finite", "run", "-m", ROOT / "nan.gguf", "-p", "x", "-n", 2)
    expect(1, "finite", "logits", "-m", ROOT / "nan.gguf", "--ids-file", ROOT / "nan_ids", "--top", 2)
    number = struct.pack("<Q", 20) + b"llama.context_length"
    at = data.index(number) + len(number) + 4
    (ROOT / "large.gguf").write_bytes(data[:at] + struct.pack("<I", 2**31 - 1) + data[at + 4:])
    limited = ["bash", "-c", f'ulimit -v 8000000; exec "{PROGRAM}" run -m "{ROOT}/large.gguf" -p x -n 2 -c 0']
    result = subprocess.run(limited, capture_output=True, timeout=120)
    check(result.returncode == 1 and re.search(rb"error: .*memory", result.stderr), f"no memory holds this: {result}")


def check_output():
    ids = ROOT / "ids"
    ids.write_text("1 2 3")
    # What is no regular file is written in place, never replaced: a pipe stands for a device here.
    pipe = ROOT / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    expect(0, "", "logits", "-m", MODEL, "--ids-file", ids, "--out", pipe)
    check(pipe.is_fifo() and len(os.read(reader, 1 << 16)) == 4 * 320 * 3, "--out replaced a pipe")
    os.close(reader)
    expect(1, "--out", "logits", "-m", MODEL, "--ids-file", ids, "--out", ROOT)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            expect(1, "standard output", "run", "-m", MODEL, "-p", "hi", "-n", 2, "--temp", 0, stdout=full)
            expect(1, "standard output", "tokenize", "-m", MODEL, "-p", "hi", stdout=full)
    kept = ROOT / "kept.json"
    kept.write_text("before")
    expect(1, "room", "run", "-m", MODEL, "-p", "hello", "-c", 2, "--json-file", kept)
    check(kept.read_text() == "before", "a failed run changed --json-file")
    check(not list(ROOT.glob("*.part")), "a partial file was left behind")
    # A reader that goes away ends the program, by signal or by error, at once.
    for restored in [True, False]:
        process = subprocess.Popen([PROGRAM, "run", "-m", MODEL, "-p", "hi", "-n", "400", "--ignore-eos"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=restored)
        process.stdout.read(1)
        process.stdout.close()
        code = process.wait(timeout=60)
        check(code in (-signal.SIGPIPE, 0, 1), f"closed pipe: exit code {code}")
        process.stderr.close()
    check_output_targets()


def check_output_targets():
    """Links are followed, standard output is no second file, and whoever ends the program finds no half of a file."""
    target, link = ROOT / "target.json", ROOT / "link.json"
    target.write_text("before")
    link.symlink_to(target)
    expect(1, "no tokens", "run", "-m", MODEL, "-p", "", "--json-file", link)
    check(target.read_text() == "before", "a failed run changed what a link stands for")
    expect(0, "", "run", "-m", MODEL, "-p", "hi", "-n", 2, "--temp", 0, "--json-file", link)
    check(link.is_symlink() and json.loads(target.read_text())["ids"], "--json-file does not follow a link")
    with open(ROOT / "both.txt", "wb") as both:
        expect(1, "standard output", "run", "-m", MODEL, "-p", "hi", "-n", 2, "--json-file", "/dev/stdout", stdout=both)
    # A pipe that nobody reads: the file is written all the same, and the end is a pipe's.
    reader, writer = os.pipe()
    os.close(reader)
    whole = ROOT / "whole.json"
    result = run("-p", "hi", "-n", 30, "--ignore-eos", "--temp", 0, "--json-file", whole, stdout=writer)
    os.close(writer)
    check(result.returncode == -signal.SIGPIPE and json.loads(whole.read_text())["ids"] and not result.stderr.count(b"error"),
          f"closed pipe: {result}")
    process = subprocess.Popen([PROGRAM, "run", "-m", MODEL, "-p", "hi", "-c", "65536", "--ignore-eos", "--json-file",
                                ROOT / "term.json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    process.terminate()
    check(process.wait(timeout=60) == -signal.SIGTERM, "SIGTERM does not end a run")
    check(not list(ROOT.glob("*.part")), f"left behind: {list(ROOT.glob('*.part'))}")
    # A datastore replaces no pipe and nothing that it is made from.
    text, pipe = ROOT / "text.txt", ROOT / "pipe"
    text.write_text("some text\n" * 20)
    for path in [text, pipe, ROOT, MODEL]:
        expect(1, "-o", "datastore", "build", "-m", MODEL, "-o", path, text)
    check(text.read_text() == "some text\n" * 20 and pipe.is_fifo(), "datastore build replaced a file")
    # A store that could not be written at the end is refused before the work.
    for path in [ROOT, pipe, ROOT / "missing" / "store"]:
        expect(1, str(path), "run", "-m", MODEL, "-p", "hi", "--suffix-store", path)
    for option in ["--json-file", "--datastore", "--suffix-store", "--md", "--file", "--spec"]:
        expect(2, option, "run", "-m", MODEL, "-p", "hi", option, "")
    expect(2, "--drafters", "bench", "-m", MODEL, "--prompts", text, "--drafters", "lookup,")
    # A cost file that would need all of the stack, one with times that cannot be, and a pipe: measured again.
    cache = ROOT / "cache" / "tahmin"
    cache.mkdir(parents=True)
    costs = cache / "step_costs.json"
    good = None
    for damage in [None, "{\"a\":" + "[" * 100000 + "]" * 100000 + "}", "times", "pipe"]:
        if damage == "times":
            damage = json.dumps({key: {**value, "ms": [1e300 for _ in value["ms"]]} for key, value in good.items()})
        costs.unlink(missing_ok=True)
        if damage == "pipe":
            os.mkfifo(costs)
        elif damage:
            costs.write_text(damage)
        expect(0, "", "run", "-m", MODEL, "-p", "hi", "-n", 8, "--temp", 0,
               env={**os.environ, "XDG_CACHE_HOME": str(ROOT / "cache")})
        saved = json.loads(costs.read_text())
        good = good or saved
        check(all(max(value["ms"]) < 1e6 for value in saved.values() if isinstance(value, dict)), f"costs: {saved}")
    odd = ROOT / os.fsdecode(b"odd\xff.gguf")
    odd.symlink_to(MODEL)
    expect(0, "", "run", "-m", odd, "-p", "hi", "-n", 8, "--temp", 0,
           env={**os.environ, "XDG_CACHE_HOME": str(ROOT / "cache")})


def check_speculation():
    """Odd combinations: the ids and log-probabilities of plain decoding."""
    for options in [("--temp", 0), ("--seed", 3), ("--seed", 3, "--repeat-penalty", 1.3, "--presence-penalty", 0.5),
                    ("--temp", 0, "--ignore-eos", "-c", 48), ("--temp", 0, "-n", 1)]:
        if "-n" not in options and "-c" not in options:
            options += ("-n", 40)
        arguments = ("-p", "hello hello hello", "--json", "--logprobs", 3, *options)
        plain = json.loads(run(*arguments).stdout)
        for drafter in [("--spec", "lookup"), ("-md", DRAFT, "--spec", "draft", "--draft-max", 7), ("-md", MODEL, "--spec", "draft", "--draft-max", 3),
                        ("-md", DRAFT), ("-md", DRAFT, "--spec", "draft+suffix+recycling", "--draft-width", 3), ("--spec", "lookahead")]:
            other = json.loads(run(*arguments, *drafter).stdout)
            for field in ["ids", "text", "finish_reason", "logprobs"]:
                check(plain[field] == other[field], f"{options} {drafter}: {field} differs from plain decoding")
        if "-c" in options:
            total = len(plain["ids"]) + len(plain["prompt_ids"])
            check(plain["finish_reason"] == "length" and total == 48, f"full context: {plain}")


def read_until(descriptor, word, seconds=60):
    text, end = b"", time.time() + seconds
    while word not in text and time.time() < end:
        try:
            text += os.read(descriptor, 4096)
        except OSError:
            break
    return text


def check_chat():
    result = call("chat", "-m", MODEL, "-n", 4, "--temp", 0, "--stats", stdin=b"hello\n\nagain\n/clear\nhello\n")
    lines = result.stdout.split(b"\n")
    check(result.returncode == 0 and result.stderr.count(b"output: ") == 3, f"chat: {result}")
    check(b"tokens reused" in result.stderr, f"chat prefills everything again: {result.stderr}")
    cold = run("--chat", "-p", "hello", "-n", 4, "--temp", 0)
    check(result.stdout.startswith(cold.stdout), f"chat {lines} differs from a cold run {cold.stdout}")
    # One object a message, with the fields and the text of `run`; a message that fails has its own.
    arguments = ("-m", MODEL, "-n", 4, "--temp", 0, "--json", "--logprobs", 2)
    result = call("chat", *arguments, stdin=b"hello\n/clear\nhello\n" + b"x" * 900 + b"\nhello\n")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    cold = json.loads(call("run", "--chat", "-p", "hello", *arguments).stdout)
    check(len(answers) == 4 and result.returncode == 1, f"chat --json: {result}")
    check("room" in answers[2]["error"] and len(answers[2]) == 1, f"chat --json, a message too long: {answers[2]}")
    for answer in (answers[0], answers[1], answers[3]):
        check(answer.keys() == cold.keys(), f"chat --json has other fields than run: {answer.keys() ^ cold.keys()}")
    for answer in answers[:2]:
        for field in ["ids", "text", "prompt_ids", "finish_reason"]:
            check(answer[field] == cold[field], f"chat --json: {field} differs from run")
    check(answers[3]["stats"]["cached_prompt_tokens"] > 0, "chat --json forgot the conversation")
    expect(2, "--logprobs", "chat", "-m", MODEL, "--logprobs", 2)
    expect(2, "--color", "chat", "-m", MODEL, "--json", "--color")
    # A conversation that outgrows the context says so, and goes on after /clear.
    result = call("chat", "-m", MODEL, "-c", 64, "--temp", 0, "--ignore-eos", stdin=b"a\nb\n/clear\nc\n")
    check(result.returncode == 1 and b"is full" in result.stderr and b"no room" in result.stderr and
          result.stderr.count(b"is full") == 2, f"full context: {result}")
    # Ctrl-C ends the answer, not the program.
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(PROGRAM, [PROGRAM, "chat", "-m", MODEL, "-c", "65536", "--ignore-eos"])
    read_until(terminal, b"> ")
    os.write(terminal, b"hello\n")
    time.sleep(1.5)
    os.write(terminal, b"\x03")
    check(b"> " in read_until(terminal, b"> "), "no prompt after Ctrl-C")
    os.write(terminal, b"/quit\n")
    _, status = os.waitpid(pid, 0)
    check(os.waitstatus_to_exitcode(status) == 0, f"chat ended with {status} after Ctrl-C and /quit")
    os.close(terminal)
    process = subprocess.Popen([PROGRAM, "run", "-m", MODEL, "-p", "hi", "-c", "65536", "--ignore-eos", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    check(process.returncode == 130 and json.loads(out)["finish_reason"] == "cancelled",
          f"Ctrl-C in run: exit code {process.returncode}, {out[-200:]}")


write_model(MODEL)
write_model(DRAFT, "--seed", "2")
for case in [check_option_values, check_notes, check_context, check_files, check_output, check_speculation, check_chat]:
    case()
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
