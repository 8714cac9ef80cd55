#!/usr/bin/env python3
"""Times Tahmin against other engines on the same file, threads and prompts, in one session.

Needs engines that you have built yourself: folders that hold llama-bench and llama-server (llama.cpp,
ik_llama.cpp and other relatives). Every round runs each engine once for each figure, the order turned
round by round, so that a machine whose speed drifts treats all alike.

  bench/peers/compare.py -m target.gguf --peer llama.cpp=DIR --peer ik_llama.cpp=DIR
  bench/peers/compare.py -m target.gguf -md draft.gguf --peer ik_llama.cpp=DIR --rounds 5 --json > peers.json
  bench/peers/compare.py -m target.gguf --peer "ik_llama.cpp=DIR -rtr 1" --figures plain,rows,prefill
  bench/peers/compare.py -m target.gguf --peer ik_llama.cpp=DIR --free "ik_llama.cpp=--spec-type suffix --spec-autotune"

Figures:
  plain     tokens/s of plain decoding                 peers: llama-bench, Tahmin: one-row passes of inspect --curve
  rows      T(n)/T(1) of passes over n rows            peers: llama-bench prompts of n tokens (logits of one row only,
                                                       Tahmin: logits of every row)
  prefill   tokens/s over a prompt of --prefill tokens peers: llama-bench, Tahmin: run (prefill_ms)
  draft     tokens/s with a draft model, and whether   peers: llama-server with and without -md, Tahmin: bench
            the text is the engine's own plain text    (each engine against its own plain decoding too)
  free      tokens/s without a draft model, by group   peers: llama-server with the flags of each --free, of which
            of prompts                                 the best counts for each group; Tahmin: bench with auto

Prints medians, ratios to each peer and the spread (smallest to largest round). Exit code 1 when an engine fails.
"""

import argparse
import collections
import contextlib
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing
import urllib.error
import urllib.request

START_SECONDS = 180  # most time a server may take to load
REQUEST_SECONDS = 900


def stop_with_usage_error(message):
    print(f"compare.py: {message}", file=sys.stderr)
    sys.exit(2)


class EngineFailure(Exception):
    """What an engine's program did instead of an answer."""


def run_program(command):
    """Standard output of a program; EngineFailure with the end of its errors when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise EngineFailure(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def note(text):
    print(text, file=sys.stderr, flush=True)


class Answer(typing.NamedTuple):
    """One prompt, plain and drafted: tokens per second, and whether the text is the same."""

    group: str
    plain: float
    drafted: float
    is_identical: bool


class Tahmin:
    """Tahmin's own command line."""

    name = "tahmin"

    def begin_round(self):
        pass

    def __init__(self, options):
        self.options = options

    def _command(self, *arguments):
        return [self.options.tahmin, *arguments, "-t", str(self.options.threads), "--json"]

    def rows(self, counts):
        """Milliseconds of one pass for each row count."""
        text = run_program(self._command(
            "inspect", "-m", self.options.model, "--context", "1", "--rounds", "5",
            "--curve", ",".join(map(str, counts))))
        return {point["rows"]: point["ms"] for point in json.loads(text)["curve"]}

    def prefill(self, num_tokens):
        """Tokens per second over a prompt of about num_tokens tokens (real text)."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompt:
            sentence = "The harbour was quiet, and the old ferry left without a sound at seven. "
            prompt.write((sentence * (num_tokens // 8))[: num_tokens * 4])
            prompt.flush()
            result = json.loads(run_program(self._command(
                "run", "-m", self.options.model, "-f", prompt.name, "-n", "1", "--temp", "0", "--spec", "none")))
        return 1e3 * result["stats"]["prompt_tokens"] / result["stats"]["prefill_ms"]

    def draft(self, prompts):
        """One Answer for each prompt."""
        return self._bench(prompts, ["-md", self.options.draft, "--drafters", f"draft@{self.options.draft_max}"])

    def free(self, prompts):
        """For each draft-free mode one Answer for each prompt."""
        return [self._bench(prompts, ["--drafters", "auto"])]

    def _bench(self, prompts, flags):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
            file.flush()
            text = run_program(self._command(
                "bench", "-m", self.options.model, "--prompts", file.name, "--rounds", "1",
                "-n", str(self.options.predict), *flags))
        runs = {(run["id"], run["drafter"] == "none"): run for run in map(json.loads, text.splitlines())}
        return [Answer(prompt["group"], runs[prompt["id"], True]["tokens_per_second"],
                       runs[prompt["id"], False]["tokens_per_second"], runs[prompt["id"], False]["identical"])
                for prompt in prompts]


class Peer:
    """An engine with llama.cpp's programs."""

    def __init__(self, options, name, folder, flags):
        self.options, self.name, self.flags = options, name, flags
        self.server_flags = []
        self.free_flags = []  # one list for each draft-free mode
        self._plain = None  # of the current round: (text, tokens/s) of each prompt
        self.bench = os.path.abspath(os.path.join(folder, "llama-bench"))
        self.server = os.path.abspath(os.path.join(folder, "llama-server"))
        for program in (self.bench, self.server):
            if not os.access(program, os.X_OK):
                stop_with_usage_error(f"--peer {name}: expected a program at {program}")
        self._draft_flags = None

    def _llama_bench(self, prompts, generated):
        text = run_program([
            self.bench, "-m", self.options.model, "-t", str(self.options.threads), "-r", "3", "-o", "json",
            "-p", ",".join(map(str, prompts)), "-n", str(generated), *self.flags])
        return json.loads(text[text.index("["):])

    def rows(self, counts):
        found = {row["n_prompt"]: 1e3 * row["n_prompt"] / row["avg_ts"]
                 for row in self._llama_bench([n for n in counts if n > 1], 0)}
        for row in self._llama_bench([0], 32):
            if row["n_gen"] > 0:
                found[1] = 1e3 / row["avg_ts"]
        return found

    def prefill(self, num_tokens):
        return next(row["avg_ts"] for row in self._llama_bench([num_tokens], 0) if row["n_prompt"] == num_tokens)

    def _find_draft_flags(self):
        """The name of "most draft tokens" differs between engines and their ages."""
        if self._draft_flags is None:
            shown = subprocess.run([self.server, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True).stdout
            if "--spec-type SPEC[" in shown:
                self._draft_flags = ["--spec-type", f"draft:n_max={self.options.draft_max}"]
            elif "--spec-draft-n-max" in shown:
                self._draft_flags = ["--spec-draft-n-max", str(self.options.draft_max)]
                if "draft-simple" in shown:  # a draft model is loaded, and left alone unless it is asked for
                    self._draft_flags += ["--spec-type", "draft-simple"]
            elif "--draft-max" in shown:
                self._draft_flags = ["--draft-max", str(self.options.draft_max)]
            else:
                raise EngineFailure(f"{self.server} --help names no flag for the number of draft tokens")
        return self._draft_flags

    @contextlib.contextmanager
    def _serve(self, flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [self.server, "-m", self.options.model, "-t", str(self.options.threads), "-c", "4096", "-np", "1",
                   "--host", "127.0.0.1", "--port", str(port), *self.server_flags, *flags]
        with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryDirectory() as folder:
            # Some write a log file of their own where they run.
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            try:
                self._wait(process, port, log)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _wait(self, process, port, log):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.25)
        log.seek(0)
        raise EngineFailure(f"{self.server} does not answer:\n{log.read()[-2000:]}")

    def _answer(self, address, prompt):
        body = {"messages": [{"role": "user", "content": prompt["turns"][0]}], "temperature": 0, "top_k": 1,
                "max_tokens": self.options.predict, "cache_prompt": False, "seed": 1}
        request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:
                answer = json.load(response)
        except (urllib.error.URLError, OSError) as error:
            raise EngineFailure(f"{self.name}: request failed: {error}") from error
        return answer["choices"][0]["message"]["content"], answer["timings"]["predicted_per_second"]

    def _answers(self, prompts, flags):
        with self._serve(flags) as address:
            self._answer(address, {"turns": ["Say yes."]})  # warm
            return [self._answer(address, prompt) for prompt in prompts]

    def _against_plain(self, prompts, flags):
        if self._plain is None:
            self._plain = self._answers(prompts, [])
        drafted = self._answers(prompts, flags)
        return [Answer(prompt["group"], plain_speed, speed, plain_text == text)
                for prompt, (plain_text, plain_speed), (text, speed) in zip(prompts, self._plain, drafted)]

    def begin_round(self):
        self._plain = None

    def draft(self, prompts):
        return self._against_plain(prompts, ["-md", self.options.draft, *self._find_draft_flags()])

    def free(self, prompts):
        return [self._against_plain(prompts, flags) for flags in self.free_flags]


def measure(engine, figures, options, prompts):
    """One round of one engine: {figure: number}."""
    found = {}
    if "plain" in figures or "rows" in figures:
        times = engine.rows(sorted({1, *options.rows}))
        if "plain" in figures:
            found["plain tokens/s"] = 1e3 / times[1]
        if "rows" in figures:
            found.update({f"T({n})/T(1)": times[n] / times[1] for n in options.rows})
            found.update({f"T({n}) ms": times[n] for n in options.rows})
    if "prefill" in figures:
        found[f"prefill {options.prefill} tokens/s"] = engine.prefill(options.prefill)
    if "draft" in figures:
        answers = engine.draft(prompts)
        found["draft tokens/s"] = statistics.geometric_mean([answer.drafted for answer in answers])
        found["draft / own plain"] = statistics.geometric_mean([answer.drafted / answer.plain for answer in answers])
        found["draft / own plain, worst prompt"] = min(answer.drafted / answer.plain for answer in answers)
        found["draft, same text as own plain"] = statistics.fmean(float(answer.is_identical) for answer in answers)
    if "free" in figures:
        modes = engine.free(prompts)
        for group in sorted({prompt["group"] for prompt in prompts}):
            found[f"free {group} tokens/s"] = max(
                statistics.geometric_mean([answer.drafted for answer in mode if answer.group == group])
                for mode in modes)
        found["free / own plain, best mode"] = max(
            statistics.geometric_mean([answer.drafted / answer.plain for answer in mode]) for mode in modes)
        found["free, same text as own plain, worst mode"] = min(
            statistics.fmean(float(answer.is_identical) for answer in mode) for mode in modes)
    return found


def print_table(engines, results):
    figures = list(results[engines[0].name][0])
    width = max(map(len, figures)) + 2
    for figure in figures:
        ours = statistics.median(round_[figure] for round_ in results["tahmin"])
        cells = []
        for engine in engines:
            values = [round_[figure] for round_ in results[engine.name]]
            median = statistics.median(values)
            cell = f"{engine.name} {median:.3g} ({min(values):.3g} to {max(values):.3g})"
            if engine.name != "tahmin":
                cell += f", tahmin is {ours / median:.2f} of it" if median else ""
            cells.append(cell)
        print(f"{figure:<{width}}" + "; ".join(cells))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.join(here, "..", "..")
    parser.add_argument("-m", "--model", required=True, help="GGUF file of the target")
    parser.add_argument("-md", "--draft", help="GGUF file of the draft model")
    parser.add_argument("--peer", action="append", required=True, metavar="NAME=DIR [FLAGS]",
                        help="engine, the folder of its programs, extra flags for llama-bench; may be repeated")
    parser.add_argument("--tahmin", default=os.path.join(root, "build", "release", "tahmin"))
    parser.add_argument("--server", action="append", default=[], metavar="NAME=FLAGS",
                        help="flags for a peer's llama-server, whatever it does")
    parser.add_argument("--free", action="append", default=[], metavar="NAME=FLAGS",
                        help="flags that make a peer's llama-server draft without a draft model; may be repeated")
    parser.add_argument("--figures", help="of plain,rows,prefill,draft,free; default: all that the options allow")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="2,4,8,16", help="row counts of T(n)")
    parser.add_argument("--prefill", type=int, default=256, help="tokens of the prefill figure")
    parser.add_argument("--prompts", default=os.path.join(root, "bench", "prompts", "prompts.jsonl"))
    parser.add_argument("--per-group", type=int, default=1, help="prompts of each group, for draft and free")
    parser.add_argument("--predict", "-n", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--draft-max", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object with every round")
    options = parser.parse_args()
    known = ["plain", "rows", "prefill", "draft", "free"]
    has_files = {"draft": options.draft, "free": options.free}
    options.figures = (options.figures.split(",") if options.figures else
                       [figure for figure in known if has_files.get(figure, True)])
    for figure in options.figures:
        if figure not in known:
            parser.error(f"--figures: expected some of {','.join(known)}; found '{figure}'")
    if "draft" in options.figures and not options.draft:
        parser.error("the figure draft needs a draft model: add -md FILE.gguf")
    if "free" in options.figures and not options.free:
        parser.error("the figure free needs the peers' modes: add --free NAME=FLAGS")
    if min(options.rounds, options.threads, options.per_group, options.prefill // 8) < 1:
        parser.error("--rounds, --threads and --per-group are at least 1, --prefill at least 8")
    try:
        options.rows = sorted({int(text) for text in options.rows.split(",")} - {1})
    except ValueError:
        parser.error(f"--rows: expected numbers separated by commas, found '{options.rows}'")
    for file in filter(None, (options.model, options.draft, options.tahmin, options.prompts)):
        if not os.path.exists(file):
            parser.error(f"no such file: {file}")
    options.model = os.path.abspath(options.model)
    options.draft = options.draft and os.path.abspath(options.draft)
    return options


def make_peers(options):
    peers = []
    for text in options.peer:
        name, separator, rest = text.partition("=")
        words = shlex.split(rest)
        if not separator or not name or not words or name == Tahmin.name:
            stop_with_usage_error(f"--peer: expected NAME=DIR [FLAGS], found '{text}'")
        peers.append(Peer(options, name, words[0], words[1:]))
    for option, text in [("--server", text) for text in options.server] + [("--free", text) for text in options.free]:
        name, separator, flags = text.partition("=")
        named = [peer for peer in peers if peer.name == name]
        if not separator or not named or not flags.strip():
            stop_with_usage_error(f"{option}: expected NAME=FLAGS with the name of a --peer, found '{text}'")
        if option == "--server":
            named[0].server_flags += shlex.split(flags)
        else:
            named[0].free_flags.append(shlex.split(flags))
    if "free" in options.figures:
        for peer in peers:
            if not peer.free_flags:
                stop_with_usage_error(f"the figure free needs --free {peer.name}=FLAGS")
    return peers


def read_prompts(options):
    with open(options.prompts, encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file if line.strip()]
    chosen, num_of_group = [], collections.Counter()
    for prompt in prompts:
        num_of_group[prompt["group"]] += 1
        if num_of_group[prompt["group"]] <= options.per_group:
            chosen.append(prompt)
    return chosen


def main():
    options = parse_arguments()
    engines = [Tahmin(options), *make_peers(options)]
    prompts = read_prompts(options)
    results = {engine.name: [] for engine in engines}
    try:
        for round_index in range(options.rounds):
            order = engines if round_index % 2 == 0 else engines[::-1]
            for engine in order:
                engine.begin_round()
                note(f"round {round_index + 1} of {options.rounds}: {engine.name}")
                results[engine.name].append(measure(engine, options.figures, options, prompts))
    except EngineFailure as failure:
        print(f"compare.py: {failure}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"threads": options.threads, "rounds": options.rounds, "prompts": [p["id"] for p in prompts],
                          "results": results}))
    else:
        print_table(engines, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
