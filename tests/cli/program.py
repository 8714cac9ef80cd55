"""How the command-line tests start the program: `<test>.py PROGRAM [case]`, run by CTest.

A test whose model is missing ends with code 77, which CTest reports as skipped.
"""
import json
import os
import pathlib
import subprocess
import sys

SMALL = "smollm2-135m-instruct-q4_1.gguf"
TARGET = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"

PROGRAM = sys.argv[1]
CASE = sys.argv[2] if len(sys.argv) > 2 else ""
PROMPTS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "prompts" / "prompts.jsonl"


def model(name):
    """The path of a model; ends the test as skipped where it is missing."""
    folder = os.environ.get("TAHMIN_MODELS") or pathlib.Path.home() / ".cache" / "tahmin"
    path = pathlib.Path(folder) / name
    if not path.exists():
        print(f"skipped: {path} is missing (scripts/fetch_models)")
        sys.exit(77)
    return str(path)


def run(*arguments, expected_code=0, stdin=""):
    """Runs the program to its end; (standard output, standard error)."""
    result = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True)
    check(result.returncode == expected_code,
          f"{arguments}: exit code {result.returncode}, expected {expected_code}\n{result.stdout}\n{result.stderr}")
    return result.stdout, result.stderr


def run_json(*arguments, **options):
    return json.loads(run(*arguments, "--json", **options)[0])


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def check_fields(value, fields, name):
    """Every field is there and of its type; None allows null."""
    for field, kind in fields.items():
        check(field in value, f"{name}: no field {field} in {sorted(value)}")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if float in kinds:
            kinds += (int,)
        found = value[field]
        check(isinstance(found, kinds) and (bool in kinds or not isinstance(found, bool)),
              f"{name}: {field} is {found!r}, expected {kinds}")
