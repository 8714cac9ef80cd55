"""A chat that waits for its user takes no processor time, before the first answer and after it."""
import os
import subprocess
import time

from program import PROGRAM, SMALL, check, model

IDLE_SECONDS = 2.0


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_still(process, limit=120.0):
    """Until half a second took no time at all: loading, or the answer, is over."""
    start = time.monotonic()
    spent = processor_seconds(process)
    while time.monotonic() - start < limit:
        time.sleep(0.5)
        now = processor_seconds(process)
        if now == spent and now > 0.1:
            return
        spent = now
    check(False, f"still busy after {limit} s")


def check_idle(process, when):
    wait_until_still(process)
    before = processor_seconds(process)
    time.sleep(IDLE_SECONDS)
    share = (processor_seconds(process) - before) / IDLE_SECONDS
    print(f"{when}: {100 * share:.1f} % of a core")
    check(share < 0.02, f"{when}: an idle chat takes {100 * share:.1f} % of a core")


path = model(SMALL)
process = subprocess.Popen([PROGRAM, "chat", "-m", path, "-c", "512", "-n", "12", "--spec", "lookup"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
try:
    check_idle(process, "after loading")
    before = processor_seconds(process)
    process.stdin.write("Name a colour.\n")
    process.stdin.flush()
    start = time.monotonic()
    while processor_seconds(process) - before < 0.05:
        check(time.monotonic() - start < 60, "no answer was begun")
        time.sleep(0.05)
    check_idle(process, "after an answer")
    answer, _ = process.communicate(timeout=60)
    check(process.returncode == 0 and answer.strip(), f"exit code {process.returncode}, answer {answer!r}")
finally:
    process.kill()
