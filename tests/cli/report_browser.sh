# SPDX-License-Identifier: Apache-2.0
# The report page in a browser (tests/browser/look_at_report.py). CKM_UPDATE_GOLDEN=1 takes its pictures anew.
. "$(dirname "$0")/lib.sh"

command -v chromium > /dev/null || skip "chromium is not installed"
command -v chromedriver > /dev/null || skip "chromedriver is not installed (Debian package chromium-driver)"
/usr/bin/python3 -c 'import selenium, PIL' 2> /dev/null || skip "python3-selenium or python3-pil is not installed"
# Chromium keeps files here, and they go with the folder.
HOME=$work
export HOME

# A page of 14 blocks with every kind of memory in it, one of 2,000 operators, one with names that bite.
/usr/bin/python3 - << 'PYTHON'
import json


def graph(n, path, name=lambda i: f"block{i // 4}/layer{i % 4}"):
    tensors, ops = [], []

    def tensor(label, size):
        tensors.append({"name": label, "bytes": size})
        return len(tensors) - 1
    size = [int(40e6 * (1 - 0.7 * i / n)) * (2 if i % 4 == 1 else 1) for i in range(n)]
    last, skip, reads, outs = tensor("images", 30_000_000), None, [], []
    for i in range(n):
        operands = [last] + ([skip] if i % 4 == 3 and skip is not None else [])
        out = tensor(name(i) + "/out", size[i])
        ops.append({"name": name(i), "kind": "forward", "cost": (i * 37 % 11 + 1) * 10 ** 8, "inputs": operands,
                    "outputs": [out], "workspace_bytes": 25_000_000 if i % 4 == 2 else 0})
        reads.append(operands)
        outs.append(out)
        last, skip = out, out if i % 4 == 3 else skip
    loss = tensor("loss", 4)
    ops.append({"name": "loss", "kind": "loss", "cost": 10 ** 6, "inputs": [last], "outputs": [loss]})
    gradients = {last: [tensor("grad_out", size[-1])]}
    ops.append({"name": "grad_loss", "kind": "backward", "cost": 10 ** 6, "inputs": [loss, last], "outputs": gradients[last]})
    for i in reversed(range(n)):
        results = [tensor(f"grad of {tensors[a]['name']} by {name(i)}", tensors[a]["bytes"]) for a in reads[i] if a != 0]
        for a, result in zip([a for a in reads[i] if a != 0], results):
            gradients.setdefault(a, []).append(result)
        ops.append({"name": "grad " + name(i), "kind": "backward", "cost": 2 * ops[i]["cost"],
                    "inputs": gradients[outs[i]] + reads[i] + [outs[i]], "outputs": results})
    with open(path, "w") as file:
        json.dump({"format": "checkmate-graph", "version": 1, "name": "a small network" if n < 100 else path,
                   "fixed_bytes": 60_000_000, "tensors": tensors, "ops": ops}, file)


graph(56, "small.json")
graph(999, "large.json")
graph(40, "hostile.json", lambda i: f"</script><script>window.hostile=true</script><img src=x onerror=window.hostile=true>{i}")
PYTHON
for page in small large hostile; do
    expect 0 solve $page.json --budget 60% --strategy chen-greedy -o $page-schedule.json
    expect 0 report $page.json $page-schedule.json -o $page.html
done
[ "$failed" -eq 0 ] || finish
update=''
[ "${CKM_UPDATE_GOLDEN:-0}" = 1 ] && update=--update
/usr/bin/python3 "$here/../browser/look_at_report.py" "$work" "$golden_dir" $update || fail "the page is not as it should be"
finish
