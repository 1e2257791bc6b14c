"""Signatures of artifacts by an ssh key, made and checked by ssh-keygen (its PROTOCOL.sshsig), which most readers have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dutlab.errors import InputError, ToolMissing
from dutlab.hosts.passwords import child_environment
from dutlab.reason import reason_in

NAMESPACE = "dutlab-artifact"
"""Purpose in the signature: one made for another purpose does not count."""
SUFFIX = ".sig"
_GOOD = re.compile(r"\bsignature with (?P<kind>\S+) key (?P<key>SHA256:\S+)")
_LONGEST_S = 300.0
"""Time limit of a call; a person may have to type a passphrase or touch a token."""


@dataclass(frozen=True)
class Signer:
    """Key that signed an artifact."""

    key: str
    """Kind and fingerprint, as `ED25519 SHA256:…`."""
    principal: str
    """Name that the reader's list of signers gives to the key; empty without such a list."""


def sign(file: Path, key: Path) -> Path:
    """Sign a file with a private key, or with a public one whose private key an agent has; return the file of the signature.

    Raises InputError if the key cannot sign, ToolMissing.
    """
    goal = file.with_name(f"{file.name}{SUFFIX}")
    goal.unlink(missing_ok=True)
    done = _keygen("sign", "-q", "-f", str(key), "-n", NAMESPACE, str(file))
    if done.returncode or not goal.is_file():
        raise InputError(f"{key}: cannot sign: {_reason(done)}", remedy="name a private ssh key, or the public key of one in your agent")
    return goal


def verify(file: Path, allowed: Path | None) -> Signer:
    """Check the signature of a file; with `allowed`, a file of allowed signers (ssh-keygen(1)), also whose it is.

    Raises InputError for a wrong signature or an unknown signer, ToolMissing.
    """
    signature = file.with_name(f"{file.name}{SUFFIX}")
    checked = _keygen("check-novalidate", "-n", NAMESPACE, "-s", str(signature), stdin=file)
    if checked.returncode or not (match := _GOOD.search(checked.stdout)):
        raise InputError(f"the signature is wrong: {_reason(checked)}", remedy="do not use this file; ask its author for another copy")
    signer = f"{match['kind']} {match['key']}"
    if allowed is None:
        return Signer(signer, "")
    principals = _keygen("find-principals", "-f", str(allowed), "-s", str(signature))
    principal = next(iter(principals.stdout.splitlines()), "").strip()
    if principals.returncode or not principal:
        raise InputError(
            f"{signer} signed it, and {allowed} does not have this key", remedy="ask the author for the fingerprint of the key"
        )
    done = _keygen("verify", "-f", str(allowed), "-I", principal, "-n", NAMESPACE, "-s", str(signature), stdin=file)
    if done.returncode:
        raise InputError(
            f"the signature by {principal} is not valid: {_reason(done)}", remedy=f"check the validity of the key in {allowed}"
        )
    return Signer(signer, principal)


def can_verify() -> bool:
    """Return whether ssh-keygen is installed."""
    return shutil.which("ssh-keygen") is not None


def _keygen(operation: str, *words: str, stdin: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = ["ssh-keygen", "-Y", operation, *words]
    try:
        with (stdin or Path(os.devnull)).open("rb") as source:
            return subprocess.run(
                argv, stdin=source, capture_output=True, text=True, errors="replace", check=False, timeout=_LONGEST_S,
                env=child_environment(os.environ),
            )  # fmt: skip
    except FileNotFoundError:
        raise ToolMissing(
            "ssh-keygen is missing", tool="ssh-keygen", host="this machine", remedy="install it: apt-get install openssh-client"
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"ssh-keygen did not end within {_LONGEST_S:g} s", remedy="unlock the key first, as with ssh-add") from None


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    return reason_in(done.stderr) or reason_in(done.stdout) or f"ssh-keygen ended with {done.returncode}"
