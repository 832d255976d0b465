"""Make .venv and install the pinned requirements into it: `python3 requirements/install.py`.

Runs on whatever `python3` the machine has, before anything is installed, so it uses the
standard library alone. Does nothing when the requirement files have not changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parent / ".venv"
STAMP = VENV / "commons-installed.txt"
OLDEST, NEWEST = (3, 11), (3, 13)
FILES = ("uv.txt", "dev.txt")
# What pip calls a setting, and what uv calls the same.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
SUPPORTED_CODE = f"import sys; sys.exit(not {OLDEST} <= sys.version_info[:2] <= {NEWEST})"


class SetupError(Exception):
    """A sentence that says what to do."""


def main():
    try:
        if STAMP.exists() and STAMP.read_text() == fingerprint():
            return 0
        if not is_supported(str(VENV / "bin" / "python")):
            make_venv(python_find())
        install()
        STAMP.write_text(fingerprint())
    except SetupError as error:
        print(f"make setup: {error}", file=sys.stderr)
        return 1
    return 0


def fingerprint():
    """Changes when a pinned file, this file or the interpreter of .venv does."""
    parts = [HERE.joinpath(name).read_bytes() for name in (*FILES, "install.py")]
    config = VENV / "pyvenv.cfg"
    parts.append(config.read_bytes() if config.exists() else b"")
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_supported(python):
    if not shutil.which(python):
        return False
    answer = subprocess.run([python, "-c", SUPPORTED_CODE], capture_output=True)
    return answer.returncode == 0


def python_find():
    wanted = os.environ.get("PYTHON")
    names = [wanted] if wanted else [sys.executable, "python3.13", "python3.12", "python3.11"]
    for name in names:
        if name and is_supported(name):
            return name
    raise SetupError(
        "Python 3.11, 3.12 or 3.13 is needed and none was found on PATH; install one "
        "(on Debian: apt-get install python3 python3-venv) or name it: make setup PYTHON=/path"
    )


def make_venv(python):
    print(f"make setup: making .venv with {python}", file=sys.stderr, flush=True)
    arguments = [python, "-m", "venv", "--clear", str(VENV)]
    first = subprocess.run(arguments, capture_output=True, text=True)
    if first.returncode == 0:
        return
    if not (os.geteuid() == 0 and shutil.which("apt-get")):
        raise SetupError(
            f"{python} can't make a virtual environment ({last_line(first)}); "
            "install its venv module (on Debian, as root: apt-get install python3-venv)"
        )
    venv_package_install(python)
    second = subprocess.run(arguments, capture_output=True, text=True)
    if second.returncode != 0:
        raise SetupError(f"{python} can't make a virtual environment: {last_line(second)}")


def venv_package_install(python):
    print("make setup: installing python3-venv with apt-get", file=sys.stderr, flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False)
    command = ["apt-get", "install", "-y", "-qq", "python3-venv"]
    if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode != 0:
        raise SetupError(
            f"apt-get could not install python3-venv, which {python} needs; "
            "see its message above, then run make setup again"
        )


def install():
    """uv takes seconds where pip takes a minute; pip remains for where uv doesn't run."""
    print("make setup: installing the pinned requirements", file=sys.stderr, flush=True)
    python = str(VENV / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    # A machine-wide constraint must not fight with what is pinned here by hash.
    environment = dict(os.environ, PIP_CONSTRAINT=os.devnull, PIP_DISABLE_PIP_VERSION_CHECK="1")
    brought = subprocess.run([*pip, "-r", str(HERE / "uv.txt")], env=environment)
    if brought.returncode == 0 and run_uv(python):
        return
    print("make setup: without uv this takes about a minute", file=sys.stderr, flush=True)
    if subprocess.run([*pip, "-r", str(HERE / "dev.txt")], env=environment).returncode != 0:
        raise SetupError(
            "the pinned requirements could not be installed; see pip's message above, check the "
            "network or PIP_INDEX_URL, then run make setup again"
        )


def run_uv(python):
    command = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", python]
    command += ["--require-hashes", "--no-deps", "--compile-bytecode"]
    command += ["-r", str(HERE / "dev.txt")]
    return subprocess.run(command, env=uv_environment(python)).returncode == 0


def uv_environment(python):
    """uv reads none of pip's settings, so that a mirror known to pip alone is handed on."""
    environment = dict(os.environ, UV_INDEX_STRATEGY="unsafe-best-match", UV_NO_PROGRESS="1")
    for name, value in pip_settings(python).items():
        target = UV_NAMES.get(name)
        if target and target not in environment:
            environment[target] = value
    if "UV_INDEX_URL" in os.environ:
        environment["UV_DEFAULT_INDEX"] = os.environ["UV_INDEX_URL"]
        del environment["UV_INDEX_URL"]
    links = environment.get("UV_FIND_LINKS", "").split()
    kept = [link for link in links if "://" in link or Path(link).is_dir()]
    environment["UV_FIND_LINKS"] = ",".join(kept)
    return environment


def pip_settings(python):
    """pip's index settings by name; what the environment says comes last and wins."""
    listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    settings = {}
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = " ".join(value.strip("'").replace("\\n", " ").split())
    return settings


def last_line(finished):
    lines = (finished.stderr + finished.stdout).strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {finished.returncode}"


if __name__ == "__main__":
    sys.exit(main())
