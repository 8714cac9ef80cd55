"""The logits of a position have the same bits whatever the number of ids fed at a time."""
import tempfile

from program import CASE, SMALL, TARGET, check, model, run, run_json

TEXT = """The ferry left at nine, an hour late, because the captain had waited for the baker's boy. "Bread
first," she said, "then the tide." On deck: 3 goats, 12 crates of apples (7.5 kg each) and a piano.

int add(int a, int b) { return a + b; }  // nobody on board could say what this was for
"""
# The small model's text is longer than the longest pass: 512 ids really go in at once.
CASES = {"small": (SMALL, TEXT * 7, (1, 2, 3, 4, 5, 8, 16, 64, 512), (512 + 1, 900)),
         "target": (TARGET, TEXT[:170], (1, 2, 3, 4, 5, 8, 16, 64), (35, 120))}

name, text, row_counts, (fewest, most) = CASES[CASE]
path = model(name)
ids = [int(word) for word in run("tokenize", "-m", path, "-p", text)[0].split()]
check(fewest <= len(ids) <= most, f"{len(ids)} ids: the text no longer fits the test")

hashes = {}
with tempfile.NamedTemporaryFile("w", suffix=".ids") as ids_file:
    ids_file.write(" ".join(map(str, ids)))
    ids_file.flush()
    for rows in row_counts:
        output = run_json("logits", "-m", path, "-c", 1024, "--ids-file", ids_file.name, "--hash", "--rows", rows)
        hashes[rows] = [position["hash"] for position in output["positions"]]
        check(output["forward_calls"] == -(-len(ids) // rows), f"--rows {rows}: {output['forward_calls']} forward calls")

first = hashes[row_counts[0]]
check(len(first) == len(ids), f"{len(first)} rows for {len(ids)} ids")
check(len(set(first)) > len(ids) // 2, "hardly any two rows differ: the hashes say nothing")
for rows, found in hashes.items():
    different = [i for i, (a, b) in enumerate(zip(first, found)) if a != b]
    check(len(found) == len(first) and not different, f"--rows {rows}: positions {different} differ")
print(f"{len(ids)} rows are the same for --rows {', '.join(map(str, row_counts))}")
