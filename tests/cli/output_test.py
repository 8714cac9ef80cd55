"""Each command's JSON holds the fields that its help promises."""
import json
import math
import tempfile
import xml.etree.ElementTree

from program import CASE, PROMPTS, SMALL, check, check_fields, model, run, run_json

STATS = {"tokens_per_second": float, "prefill_ms": float, "draft_ms": float, "total_ms": float, "ttft_ms": float,
         "prompt_tokens": int, "steps": int, "drafted": int, "accepted": int, "acceptance_by_depth": list,
         "tokens_per_step": float}
CURVE = {"curve": list, "weight_bytes": int, "packed_bytes": int, "macs_per_row": int, "extra_rows_fraction": float,
         "streaming_bytes_per_second": float, "int8_macs_per_second": float, "fp32_macs_per_second": float}
SVG = "http://www.w3.org/2000/svg"
BENCH = {"id": str, "group": str, "drafter": str, "round": int, "ids_hash": str, "identical": bool, "decode_ms": float,
         "draft_ms": float, "speedup": (float, type(None)), "tokens_per_step": float, "drafted": int, "accepted": int,
         "acceptance_by_depth": list}


def check_run():
    arguments = ("run", "-m", path, "-c", 256, "-p", "One, two, three, one, two,", "-n", 8, "--seed", 5)
    output = run_json(*arguments, "--spec", "lookup", "--logprobs", 2)
    check_fields(output, {"text": str, "ids": list, "finish_reason": str, "seed": int, "stats": dict}, "run")
    check_fields(output["stats"], STATS, "run stats")
    check(output["seed"] == 5 and output["finish_reason"] in ("stop", "length"), f"run: {output}")
    check(1 <= len(output["ids"]) <= 8, f"run: ids {output['ids']}")
    check(run_json(*arguments)["ids"] == output["ids"], "run: plain decoding gives other ids")
    check(run(*arguments)[0].rstrip("\n") == output["text"].rstrip("\n"), "run: the text differs from the JSON's")


def check_tokenize_and_logits():
    text = "Two words\n"
    output = run_json("tokenize", "-m", path, "-p", text)
    check_fields(output, {"ids": list, "pieces": list}, "tokenize")
    check(output["ids"] == run_json("tokenize", "-m", path, stdin=text)["ids"], "tokenize: stdin differs from -p")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/ids", "w") as file:
            file.write(" ".join(map(str, output["ids"])))
        logits = run_json("logits", "-m", path, "-c", 256, "--ids-file", f"{folder}/ids", "--top", 3, "--hash", "--out",
                          f"{folder}/out")
        with open(f"{folder}/out", "rb") as file:
            num_bytes = len(file.read())
    check_fields(logits, {"positions": list, "forward_calls": int, "vocab_size": int}, "logits")
    check(num_bytes == 4 * logits["vocab_size"] * len(output["ids"]), f"logits --out: {num_bytes} bytes")
    for position in logits["positions"]:
        check_fields(position, {"top_ids": list, "top_logprobs": list, "hash": str}, "logits position")
        logprobs = position["top_logprobs"]
        check(len(logprobs) == 3 and sorted(logprobs, reverse=True) == logprobs, f"logits: {logprobs}")
        check(sum(map(math.exp, logprobs)) <= 1 + 1e-6, f"logits: {logprobs}")


def check_inspect():
    output = run_json("inspect", "-m", path, "--curve", "1,2", "--rounds", 1, "--context", 8)
    check_fields(output, {"metadata": dict, "tensors": list, "memory_plan": dict, "isa": str, **CURVE}, "inspect")
    for point in output["curve"]:
        check_fields(point, {"rows": int, "ms": float, "attention_ms": float, "stage_ms": dict}, "inspect curve")
        check(0.5 * point["ms"] < sum(point["stage_ms"].values()) <= 1.5 * point["ms"], f"stages of a pass: {point}")
    check([point["rows"] for point in output["curve"]] == [1, 2], f"inspect: {output['curve']}")
    check(output["packed_bytes"] <= 1.04 * output["weight_bytes"], "inspect: packed weights are too large")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as curve:
        json.dump(output, curve)
        curve.flush()
        check_theory("--curve", curve.name)


def check_theory(*arguments):
    output = run_json("theory", "--acceptance", 0.7, "--draft-max", 5, "--draft-cost", 0.28, *arguments)
    check_fields(output, {"expected_tokens": float, "speedup": float, "best_draft_max": int}, "theory")
    check(round(output["expected_tokens"], 2) == 2.94, f"theory: {output}")


def check_bench():
    out, _ = run("bench", "-m", path, "-c", 512, "--prompts", PROMPTS, "--limit", 1, "-n", 8, "--rounds", 2,
                 "--drafters", "lookup@3", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    check(len(lines) == 4, f"bench: {len(lines)} lines, expected plain and lookup in two rounds")
    for line in lines:
        check_fields(line, BENCH, "bench")
        check(line["identical"] and line["ids_hash"] == lines[0]["ids_hash"], f"bench: {line}")
    check_bench_report()


def check_bench_report():
    """The page is well-formed and holds the charts, a row for each drafter and group, and nothing from elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        out, _ = run("bench", "-m", path, "-c", 512, "--prompts", PROMPTS, "--groups", "code,qa", "--per-group", 1,
                     "-n", 8, "--rounds", 1, "--drafters", "none,lookup@3", "--report", f"{folder}/bench.html")
        with open(f"{folder}/bench.html") as file:
            text = file.read()
    check("none again" in out and "predicted" in out, f"bench: {out}")
    page = xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])
    check(len(page.findall(f".//{{{SVG}}}svg")) == 3, "bench --report: expected three charts")
    rows = [[cell.text for cell in row] for row in page.findall(".//tr")]
    cells = {(row[0], row[1]) for row in rows[1:]}
    check(cells == {(drafter, group) for drafter in ("none", "none again", "lookup@3")
                    for group in ("code", "qa", "all")}, f"bench --report: {cells}")
    check("http" not in text.replace(SVG, "") and "<script" not in text, "bench --report: the page fetches something")


def check_exit_codes():
    _, error = run("run", "-m", "/nowhere.gguf", "-p", "x", expected_code=1)
    check("/nowhere.gguf" in error, f"the error does not name the file: {error}")
    for arguments in [(), ("nonsense",), ("run",), ("theory", "--acceptance", "2"), ("theory", "--nonsense")]:
        _, error = run(*arguments, expected_code=2)
        check(error.strip(), f"{arguments}: no word of what is wrong")
    for command in ["run", "chat", "tokenize", "logits", "inspect", "audit", "theory", "bench"]:
        out, _ = run(command, "--help")
        check("Examples:" in out, f"{command} --help shows no example")


if CASE == "no_model":
    check_theory()
    check_exit_codes()
else:
    path = model(SMALL)
    check_run()
    check_tokenize_and_logits()
    check_inspect()
    check_bench()
