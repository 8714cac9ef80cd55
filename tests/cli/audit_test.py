"""The program's own audit: plain decoding against every drafter on a sample of the prompts."""
from program import CASE, DRAFT, PROMPTS, SMALL, TARGET, check, model, run_json

if CASE == "small":
    arguments, drafters = ["-m", model(SMALL)], "lookup,replay,junk"
else:
    arguments, drafters = ["-m", model(TARGET), "-md", model(DRAFT)], "draft"

output = run_json("audit", *arguments, "--drafters", drafters, "--prompts", PROMPTS, "--limit", 2, "-n", 24, "--draft-max", "3,8",
                  "--temps", "0,0.8", "--threads-list", "1,2", "-c", 512)
runs = {}
for row in output["rows"]:
    runs[row["drafter"]] = runs.get(row["drafter"], 0) + row["runs"]
for drafter in drafters.split(","):
    # prompts x draft lengths x temperatures x thread counts
    check(runs.get(drafter) == 2 * 2 * 2 * 2, f"{drafter}: {runs}")
check(output["differences"] == 0, f"differences: {output['first_differences']}")
check(sum(row["accepted"] for row in output["rows"]) > 0, "no draft token was ever accepted: nothing was tested")
for drafter in drafters.split(","):
    drafted = sum(row["drafted"] for row in output["rows"] if row["drafter"] == drafter)
    check(drafted > 0, f"{drafter} drafted nothing: nothing was tested")
for row in output["rows"]:
    if row["drafter"] in ("draft", "replay", "junk"):  # these guess in every setting; lookup needs a repetition
        check(row["drafted"] > 0, f"nothing was drafted: {row}")
    if row["drafter"] == "junk":
        check(row["accepted"] == 0, f"a junk token was accepted: {row}")
    if row["drafter"] == "replay":
        check(row["accepted"] == row["drafted"] > 0, f"a replayed token was rejected: {row}")
print(f"{output['runs']} runs, no difference")
