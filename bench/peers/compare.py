#!/usr/bin/env python3
"""Times Tahmin against other engines on the same file, threads and prompts, in one session.

Needs engines that you have built yourself: folders that hold llama-bench and llama-server (llama.cpp,
ik_llama.cpp and other relatives). Every round runs each engine once for each figure, the order turned
round by round, so that a machine whose speed drifts treats all alike.

  bench/peers/compare.py -m target.gguf --peer llama.cpp=DIR --peer ik_llama.cpp=DIR
  bench/peers/compare.py -m target.gguf -md draft.gguf --peer ik_llama.cpp=DIR --rounds 5 --json > peers.json
  bench/peers/compare.py -m target.gguf --peer "ik_llama.cpp=DIR -rtr 1" --figures plain,rows,prefill

Figures:
  plain     tokens/s of plain decoding                 peers: llama-bench, Tahmin: one-row passes of inspect --curve
  rows      T(n)/T(1) of passes over n rows            peers: llama-bench prompts of n tokens (logits of one row only,
                                                       Tahmin: logits of every row)
  prefill   tokens/s over a prompt of --prefill tokens peers: llama-bench, Tahmin: run (prefill_ms)
  draft     tokens/s with a draft model, and whether   peers: llama-server with and without -md, Tahmin: bench
            the text is the engine's own plain text    (each engine against its own plain decoding too)

Prints medians, ratios to each peer and the spread (smallest to largest round). Exit code 1 when an engine fails.
"""

import argparse
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


class Tahmin:
    """Tahmin's own command line."""

    name = "tahmin"

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
        """One {plain, draft, identical} for each prompt: tokens per second."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
            file.flush()
            text = run_program(self._command(
                "bench", "-m", self.options.model, "-md", self.options.draft, "--prompts", file.name, "--rounds", "1",
                "--drafters", f"draft@{self.options.draft_max}", "-n", str(self.options.predict)))
        found = {}
        for run in map(json.loads, text.splitlines()):
            row = found.setdefault(run["id"], {"identical": True})
            row["plain" if run["drafter"] == "none" else "draft"] = run["tokens_per_second"]
            row["identical"] = row["identical"] and run["identical"]
        return [found[prompt["id"]] for prompt in prompts]


class Peer:
    """An engine with llama.cpp's programs."""

    def __init__(self, options, name, folder, flags):
        self.options, self.name, self.flags = options, name, flags
        self.bench = os.path.join(folder, "llama-bench")
        self.server = os.path.join(folder, "llama-server")
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
            for flag in ("--spec-draft-n-max", "--draft-max"):
                if flag in shown:
                    self._draft_flags = [flag, str(self.options.draft_max)]
                    break
            else:
                raise EngineFailure(f"{self.server} --help names no flag for the number of draft tokens")
        return self._draft_flags

    @contextlib.contextmanager
    def _serve(self, with_draft):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [self.server, "-m", self.options.model, "-t", str(self.options.threads), "-c", "4096", "-np", "1",
                   "--host", "127.0.0.1", "--port", str(port)]
        if with_draft:
            command += ["-md", self.options.draft, *self._find_draft_flags()]
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
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

    def draft(self, prompts):
        texts, speeds = {}, {}
        for method in ("plain", "draft"):
            with self._serve(method == "draft") as address:
                self._answer(address, {"turns": ["Say yes."]})  # warm
                for prompt in prompts:
                    texts[method, prompt["id"]], speeds[method, prompt["id"]] = self._answer(address, prompt)
        return [{"plain": speeds["plain", p["id"]], "draft": speeds["draft", p["id"]],
                 "identical": texts["plain", p["id"]] == texts["draft", p["id"]]} for p in prompts]


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
        rows = engine.draft(prompts)
        found["draft tokens/s"] = statistics.geometric_mean([row["draft"] for row in rows])
        found["draft / own plain"] = statistics.geometric_mean([row["draft"] / row["plain"] for row in rows])
        found["draft / own plain, worst prompt"] = min(row["draft"] / row["plain"] for row in rows)
        found["same text as own plain"] = statistics.fmean(float(row["identical"]) for row in rows)
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
    parser.add_argument("--figures", help="of plain,rows,prefill,draft; default: all that the files allow")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="2,4,8,16", help="row counts of T(n)")
    parser.add_argument("--prefill", type=int, default=256, help="tokens of the prefill figure")
    parser.add_argument("--prompts", default=os.path.join(root, "bench", "prompts", "prompts.jsonl"))
    parser.add_argument("--limit", type=int, default=8, help="prompts of the draft figure, spread over the file")
    parser.add_argument("--predict", "-n", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--draft-max", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object with every round")
    options = parser.parse_args()
    known = ["plain", "rows", "prefill", "draft"]
    options.figures = (options.figures.split(",") if options.figures else
                       [figure for figure in known if figure != "draft" or options.draft])
    for figure in options.figures:
        if figure not in known:
            parser.error(f"--figures: expected some of {','.join(known)}; found '{figure}'")
    if "draft" in options.figures and not options.draft:
        parser.error("the figure draft needs a draft model: add -md FILE.gguf")
    if min(options.rounds, options.threads, options.limit, options.prefill // 8) < 1:
        parser.error("--rounds, --threads and --limit are at least 1, --prefill at least 8")
    try:
        options.rows = sorted({int(text) for text in options.rows.split(",")} - {1})
    except ValueError:
        parser.error(f"--rows: expected numbers separated by commas, found '{options.rows}'")
    for file in filter(None, (options.model, options.draft, options.tahmin, options.prompts)):
        if not os.path.exists(file):
            parser.error(f"no such file: {file}")
    return options


def make_peers(options):
    peers = []
    for text in options.peer:
        name, separator, rest = text.partition("=")
        words = shlex.split(rest)
        if not separator or not name or not words or name == Tahmin.name:
            stop_with_usage_error(f"--peer: expected NAME=DIR [FLAGS], found '{text}'")
        peers.append(Peer(options, name, words[0], words[1:]))
    return peers


def read_prompts(options):
    with open(options.prompts, encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file if line.strip()]
    stride = max(1, len(prompts) // options.limit)
    return prompts[::stride][: options.limit]


def main():
    options = parse_arguments()
    engines = [Tahmin(options), *make_peers(options)]
    prompts = read_prompts(options) if "draft" in options.figures else []
    results = {engine.name: [] for engine in engines}
    try:
        for round_index in range(options.rounds):
            order = engines if round_index % 2 == 0 else engines[::-1]
            for engine in order:
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
