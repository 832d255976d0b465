"""demo.json in the data folder: how to sign in to the demonstration. Mode 0600, replaced whole or not at all."""

import json
import os
from pathlib import Path

from portal.dashboard.demonstration import ACCOUNTS, SignIns

FILE_NAME = "demo.json"


def sign_ins_read(data_dir: Path) -> SignIns | None:
    """What the file keeps; None if it is missing or makes no sense, then new passwords are due."""
    try:
        kept = json.loads((data_dir / FILE_NAME).read_text())
        passwords = {str(account["username"]): str(account["password"]) for account in kept["accounts"]}
        return SignIns(passwords, str(kept["token"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def sign_ins_write(data_dir: Path, url: str, sign_ins: SignIns) -> None:
    """Write it beside the old one, then put it in its place."""
    accounts = [
        {"role": account.role, "username": account.username, "password": sign_ins.passwords[account.username]}
        for account in ACCOUNTS
    ]
    text = json.dumps({"url": url, "token": sign_ins.token, "accounts": accounts}, indent=2) + "\n"
    partial = data_dir / f".{FILE_NAME}.{os.getpid()}"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(data_dir / FILE_NAME)
