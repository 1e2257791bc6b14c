"""Sigstore bundles of artifacts, `FILE.sigstore.json` next to FILE, checked by the program `sigstore` or `cosign` of a person who has it.

`sigstore --offline` uses the keys that this program brings, so a check needs no network. Newer keys need a newer program. `cosign` fetches
them and keeps them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dutlab import outside
from dutlab.bounds import BUNDLE
from dutlab.errors import InputError, ToolMissing
from dutlab.hosts.passwords import child_environment
from dutlab.outside import AtLink, UnfitFile
from dutlab.reason import reason_in, shortened

BUNDLE_SUFFIX = ".sigstore.json"
PROGRAMS: dict[str, tuple[str, ...]] = {
    "sigstore": ("verify", "identity", "--offline", "--bundle={bundle}", "--cert-identity={name}", "--cert-oidc-issuer={issuer}"),
    "cosign": ("verify-blob", "--bundle={bundle}", "--certificate-identity={name}", "--certificate-oidc-issuer={issuer}"),
}
"""Program → its arguments before the file, in order of preference."""
_LONGEST_S = 120.0
_WIDE = {"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb"}
"""Settings of the program's output: one line for each message, whose first words are a level."""


@dataclass(frozen=True)
class Identity:
    """Person or workflow that must have signed, and who vouches for it, as in the certificate."""

    name: str
    """E-mail address, or URL of a workflow."""
    issuer: str
    """URL of the OpenID Connect provider."""


def bundle_of(file: Path) -> Path | None:
    """Return the bundle next to an artifact; None if there is none."""
    bundle = file.with_name(f"{file.name}{BUNDLE_SUFFIX}")
    return bundle if bundle.exists() else None


def insist_on_identity(file: Path, identity: Identity) -> None:
    """Check that the bundle next to `file` is that of its content, made by `identity`.

    Raises InputError without a bundle, or for one that does not prove this; ToolMissing.
    """
    if (bundle := bundle_of(file)) is None:
        raise InputError(f"{file}: has no {file.name}{BUNDLE_SUFFIX} next to it", remedy="get it from its author, or leave --identity out")
    try:
        outside.read(bundle, BUNDLE, AtLink.FOLLOWED)
    except UnfitFile as error:
        raise InputError(error.what, remedy=error.remedy) from error
    except OSError as error:
        raise InputError(f"{bundle}: {error.strerror}", remedy="get it from the author again") from error
    program, done = _verified(file.resolve(), bundle.resolve(), identity)
    if done.returncode:
        raise InputError(
            f"{bundle}: {program} does not confirm that {identity.name} signed this file: {_reason(done.stderr or done.stdout)}",
            remedy="do not use this file; ask its author who signs, and for another copy",
        )


def _verified(file: Path, bundle: Path, identity: Identity) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Return the program that checked the bundle, and how it ended."""
    if (name := next(filter(shutil.which, PROGRAMS), None)) is None:
        first = next(iter(PROGRAMS))
        raise ToolMissing(
            f"{' and '.join(PROGRAMS)} are missing", tool=first, host="this machine",
            remedy=f"install one: pipx install {first}; or leave --identity out",
        )  # fmt: skip
    argv = [name, *(word.format(bundle=bundle, name=identity.name, issuer=identity.issuer) for word in PROGRAMS[name]), "--", str(file)]
    try:
        return name, subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, timeout=_LONGEST_S,
            env=child_environment(os.environ) | _WIDE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(f"{name} did not end within {_LONGEST_S:g} s", remedy="try the same command by hand") from None


def _reason(text: str) -> str:
    """Return the first error in a program's output. `sigstore` names the file before, with `FAIL:`."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    errors = [line for line in lines if line.lower().startswith("error") and "FAIL:" not in line]
    return shortened(errors[0].partition(" ")[2]) if errors else reason_in(text) or "it printed nothing"
