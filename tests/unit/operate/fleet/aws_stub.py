#!/usr/bin/env python3
"""A stand-in for the AWS CLI, as far as change_volumes.sh asks it: volumes in a JSON file, one
modification of each at a time, time that passes with each look. It writes down the requests that it
got.

AWS_STUB names the file: {"volumes": {ID: [type, GiB, IOPS, MiB/s, state]}, "modifications": {ID: {...}}, "calls": [...]};
"fail" there has the error for a volume; "late" for how many looks after a change it shows what was before.
"""

import fcntl
import json
import os
import sys
from datetime import UTC, datetime


def main() -> None:
    words = sys.argv[1:]
    options = {words[at][2:]: words[at + 1] for at in range(len(words) - 1) if words[at].startswith("--")}
    with open(os.environ["AWS_STUB"], "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)

        def save():
            file.seek(0)
            file.truncate()
            json.dump(state, file)

        def refuse(error):
            save()
            print(f"An error occurred ({error}) when calling", file=sys.stderr)
            raise SystemExit(255)

        def read_facts(what, volume):
            """Returns the answer to a look: after a change the older answer for a while, as EC2's
            API may."""
            older = state.get("older", {}).get(f"{what} {volume}")
            if older is None or not older["looks"]:
                return state[what].get(volume)
            older["looks"] -= 1
            return older["was"]

        call = words[1]
        if call == "get-caller-identity":
            print(state.get("account", "111111111111"))
        elif call == "describe-volumes":
            volume = options["filters"].split("Values=")[1]
            if result := read_facts("volumes", volume):
                print("\t".join("None" if entry is None else str(entry) for entry in result))
        elif call == "describe-volumes-modifications":
            volume = options["filters"].split("Values=")[1]
            texts = read_facts("modifications", volume)
            if texts:
                # Each look is a step: modifying, optimizing (the new volume), completed.
                steps = ["modifying", "optimizing", "completed"]
                if texts["state"] in steps[:2] and not texts.get("stuck"):
                    texts["state"] = steps[steps.index(texts["state"]) + 1]
                    if volume in state.get("breaks", []):
                        texts["state"] = "failed"
                    else:
                        state["volumes"][volume] = [*texts["target"], "in-use"]
                print("\t".join(str(part) for part in (texts["state"], texts["start"], *texts["target"])))
        elif call == "modify-volume":
            volume = options["volume-id"]
            state["calls"].append(words[1:])
            if volume in state.get("fail", {}):
                refuse(state["fail"][volume])
            before = state["volumes"][volume]
            kind = options["volume-type"]
            target = [
                kind,
                int(options.get("size", before[1])),
                int(options["iops"]) if "iops" in options else 100 if kind == "gp2" else None,
                int(options["throughput"]) if "throughput" in options else None,
            ]
            assert target[1] >= before[1], "it shrinks"
            for what in ("volumes", "modifications") if "late" in state else ():
                was = {"looks": state["late"], "was": state[what].get(volume)}
                state.setdefault("older", {})[f"{what} {volume}"] = was
            start = state.get("now") or datetime.now(UTC).isoformat(timespec="seconds")
            state["modifications"][volume] = {"state": "modifying", "start": start, "target": target}
            print(start)
        else:
            refuse(f"Unknown {words}")
        save()


if __name__ == "__main__":
    main()
