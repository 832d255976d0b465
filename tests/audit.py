"""`make audit`: known faults in the pinned packages; a package that could not be checked fails it too."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = ROOT / "requirements" / "embedded.txt"


def faults(report: dict) -> list[str]:
    """A line for each known fault and for each package that was skipped."""
    lines = []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            lines.append(f"{package['name']}: not checked ({package['skip_reason']})")
        for fault in package.get("vulns", ()):
            fixed = ", ".join(fault["fix_versions"]) or "no release yet"
            lines.append(f"{package['name']} {package['version']}: {fault['id']}, fixed in {fixed}")
    return lines


def main() -> int:
    """Exit code 0 only when every pinned package was checked and none has a known fault."""
    command = [str(Path(sys.executable).with_name("pip-audit")), "--no-deps", "--disable-pip", "--require-hashes"]
    command += ["--progress-spinner", "off", "--format", "json", "--requirement", str(PINNED)]
    finished = subprocess.run(command, capture_output=True, text=True, env=os.environ, stdin=subprocess.DEVNULL)
    try:
        found = faults(json.loads(finished.stdout))
    except ValueError:
        print(finished.stderr, file=sys.stderr)
        print("make audit: the list of known faults could not be read; nothing was checked.", file=sys.stderr)
        return 1
    print("\n".join(found) or "Every pinned package was checked and none has a known fault.")
    return 1 if found else finished.returncode


if __name__ == "__main__":
    sys.exit(main())
