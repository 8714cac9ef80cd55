"""B40: what a run takes at its peak is what the plan said before it began, within a tenth."""
import json
import os
import tempfile

from program import CASE, DRAFT, PROGRAM, SMALL, TARGET, check, model, run_json

if CASE == "small":
    arguments, drafter = ["-m", model(SMALL)], "lookup"
else:
    arguments, drafter = ["-m", model(TARGET), "-md", model(DRAFT)], "draft"
# The context is filled, so that all of the planned cache is used; so is all of the prefill's scratch.
arguments += ["-c", "512", "--prefill-chunk", "128"]
planned = run_json("inspect", *arguments)["memory_plan"]["total_bytes"]

with tempfile.TemporaryDirectory() as folder:
    report = os.path.join(folder, "report.json")
    # wait4 gives the peak of this child alone.
    child = os.spawnv(os.P_NOWAIT, PROGRAM,
                      [PROGRAM, "run", *arguments, "--spec", drafter, "--temp", "0", "--ignore-eos", "-n", "-1", "-p",
                       "All work and no play. " * 74, "--json-file", report])
    _, status, usage = os.wait4(child, 0)
    check(os.waitstatus_to_exitcode(status) == 0, f"run ended with status {status}")
    with open(report, encoding="utf-8") as file:
        output = json.load(file)
check(output["finish_reason"] == "length" and output["stats"]["prompt_tokens"] > 384, f"run: {output['stats']}")

peak = usage.ru_maxrss * 1024
print(f"planned {planned / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB")
check(abs(peak - planned) <= 0.1 * planned, "the peak is more than a tenth away from the plan")
