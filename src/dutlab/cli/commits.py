"""Commits of a git repository as versions: list and build them."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from dutlab import outside
from dutlab.bounds import BUILD_BYTES, BUILD_KEPT_BYTES, BUILD_S, COMMIT_FILE, GIT_S
from dutlab.errors import InputError
from dutlab.hosts.bounded import run_bounded
from dutlab.hosts.passwords import child_environment
from dutlab.outside import AtLink
from dutlab.store.replace import replace_file

_SHOWN_LINES = 5


class NoVersionKind(StrEnum):
    """Reason why a version cannot be made."""

    GIT = "git"
    """Refusal by git."""
    BUILD = "build"
    """Failed build, or build without the file."""
    LATE = "late"
    ENDLESS = "endless"
    """Output of a build, or file of a version, above the size limit."""
    UNFIT = "unfit"
    """Version that cannot be measured by time."""


class NoVersion(Exception):
    """Error of a version that cannot be made."""

    def __init__(self, kind: NoVersionKind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


def commits_of(repository: Path, span: str) -> list[tuple[str, str]]:
    """Return (commit, subject) from GOOD to BAD, by first parents, the oldest first. Raises InputError."""
    good, dots, bad = span.partition("..")
    if not dots or not good or not bad:
        raise InputError(f"--commits {span}: write GOOD..BAD", remedy="as in v1.0..main")
    try:
        words = git_output(repository, "log", "--first-parent", "--reverse", "--format=%H %s", f"{good}..{bad}").decode(errors="replace")
        begin = git_output(repository, "log", "-1", "--format=%H %s", good).decode(errors="replace")
    except NoVersion as error:
        raise InputError(f"{repository}: {error}", remedy="name a repository, and commits that it has") from None
    rows = [line.partition(" ") for line in (begin + words).splitlines() if line]
    return [(commit, subject) for commit, _, subject in rows]


def build_commit(repository: Path, commit: str, command: str, file: str, place: Path) -> None:
    """Build a commit in a separate work tree. Raises NoVersion with the last lines of a failed build."""
    with TemporaryDirectory(prefix="dutlab-build-") as folder:
        tree = Path(folder) / "tree"
        git_output(repository, "worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            environment = {**child_environment(os.environ), "DUTLAB_OUT": str(place), "DUTLAB_COMMIT": commit}
            try:
                done = run_bounded(
                    ["sh", "-ec", command], folder=tree, environment=environment,
                    timeout_s=BUILD_S, most_bytes=BUILD_BYTES, kept_bytes=BUILD_KEPT_BYTES,
                )  # fmt: skip
            except TimeoutError:
                raise NoVersion(NoVersionKind.LATE, f"the build did not end within {BUILD_S / 3600:g} h") from None
            except ValueError:
                raise NoVersion(NoVersionKind.ENDLESS, f"the build printed more than {BUILD_BYTES} bytes") from None
            if done.status:
                lines = " / ".join((done.stdout + done.stderr).strip().splitlines()[-_SHOWN_LINES:])
                raise NoVersion(NoVersionKind.BUILD, f"the build ended with {done.status}: {lines}")
            if not (tree / file).is_file():
                raise NoVersion(NoVersionKind.BUILD, f"the build made no {file}")
            replace_file(place / Path(file).name, outside.read(tree / file, COMMIT_FILE, AtLink.FOLLOWED))
        finally:
            git_output(repository, "worktree", "remove", "--force", str(tree))


def git_output(repository: Path, *words: str) -> bytes:
    """Return git's output. Raises NoVersion with its error message."""
    try:
        done = run_bounded(["git", "-C", str(repository), *words], timeout_s=GIT_S, most_bytes=COMMIT_FILE.most_bytes)
    except FileNotFoundError:
        raise NoVersion(NoVersionKind.GIT, "git is not installed") from None
    except TimeoutError:
        raise NoVersion(NoVersionKind.LATE, f"git {words[0]} did not end within {GIT_S / 60:g} min") from None
    except ValueError as error:
        raise NoVersion(NoVersionKind.ENDLESS, str(error)) from None
    if done.status:
        raise NoVersion(NoVersionKind.GIT, " / ".join(done.stderr.strip().splitlines()) or f"git {words[0]} failed")
    return done.out
