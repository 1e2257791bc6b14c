"""Command `artifact`: pack runs for strangers, and check such a file by repeating its runs."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dutlab.cli.manner import CommonOptions, manner_options
from dutlab.cli.options import JSON, RUNS, TESTBED_WORDS
from dutlab.cli.terminal import say, say_words
from dutlab.cli.userns import become_root
from dutlab.errors import DutlabError, StoreError

CANNOT_TELL = 4
"""Exit status of `artifact check` where no claim differs and not all were repeated: 2 means wrong input everywhere."""


class _PacksByDefault(click.Group):
    """Group whose arguments belong to `pack` unless they begin with a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with `artifact RUN…` as `artifact pack RUN…`."""
        is_command = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_command else ["pack", *args])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, else `pack`: the name is a run."""
        return super().get_command(ctx, cmd_name) or self.commands["pack"]


@click.group(cls=_PacksByDefault)
def artifact() -> None:
    """`dutlab artifact RUN…` is short for `dutlab artifact pack RUN…`.

    \b
    Example:
      dutlab artifact runs/2026-11-21T0801Z-firewall-modes-3f2a -o firewall-modes.zip --sign ~/.ssh/id_ed25519
      dutlab artifact check firewall-modes.zip --trust
    """


@artifact.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path, dir_okay=False), help="The file.  [NAME OF THE FIRST RUN.zip]")
@click.option("--title", default="", help="Title.  [made from the experiments]")
@click.option("--author", "authors", multiple=True, metavar="NAME", help="'Given Family <https://orcid.org/…>'; repeatable.  [anonymous]")
@click.option("--licence", default="", metavar="SPDX", help="Licence of the measurements, as CC-BY-4.0.  [none is stated]")
@click.option("--wheel", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The package of dutlab.  [the one in dist/]")
@click.option("--sign", "key", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="KEY", help="Sign with this ssh key.")
@JSON
def pack(
    *, runs: tuple[Path, ...], out: Path | None, title: str, authors: tuple[str, ...], licence: str, wheel: Path | None, key: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Write one zip file with runs, claims, metadata, the program and instructions. Check first that addresses, serial numbers and
    additions in the runs may be public.

    \b
    Example:
      dutlab artifact pack runs/2026-11-21T0801Z-firewall-modes-3f2a --author "Ada Byron" --licence CC-BY-4.0
    """
    from dutlab.publish.artifact import ArtifactRequest, make_artifact
    from dutlab.publish.crate import Author
    from dutlab.report.model.words import plural

    asked = ArtifactRequest(
        out or Path(f"{runs[0].resolve().name}.zip"), title, tuple(map(Author.parsed, authors)), licence, wheel or _built_wheel(), key
    )
    made = make_artifact(runs, asked)
    if as_json:
        row = {"path": str(made.path), "sha256": made.sha256, "claims": made.claims, "files": made.files, "notes": list(made.notes)}
        say(json.dumps({"schema_version": 1, **row}, indent=1))
        return
    say(f"{made.path}: {plural(made.claims, 'claim')}, {plural(made.files, 'file')}")
    say(f"sha256 {made.sha256}")
    for note in made.notes:
        say_words(note)


def _built_wheel() -> Path | None:
    """Return the newest wheel of this version for this machine in dist/; None if there is none."""
    from dutlab.release import version

    wheels = Path("dist").glob(f"dutlab-{version()}-*{platform.machine()}.whl")
    return max(wheels, key=lambda path: path.stat().st_mtime, default=None)


@contextmanager
def _failures_exit_cannot_tell() -> Iterator[None]:
    """Give failures that elsewhere end with 1, such as a full disk, the status CANNOT_TELL: here 1 means that a claim differs."""
    try:
        yield
    except DutlabError as error:
        if error.exit_status == 1:
            error.exit_status = CANNOT_TELL
        raise
    except OSError as error:
        failure = StoreError(str(error))
        failure.exit_status = CANNOT_TELL
        raise failure from error


@artifact.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--testbed", "testbed_file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help=TESTBED_WORDS)
@click.option("--plan", "only_plan", is_flag=True, help="Verify the file and list the runs that it would start; measure nothing.")
@click.option("--trust", is_flag=True, help="Run the commands in it without asking.")
@click.option("--allowed-signers", "signers", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="File of signers, as of ssh-keygen(1): refuse a file that none of them signed.")  # fmt: skip
@click.option("--repeated", "repeated", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="RUN",
              help="Judge by this run, which repeats one of the file; repeatable. Measure nothing.")  # fmt: skip
@RUNS
@manner_options
def check(
    *, file: Path, testbed_file: Path | None, only_plan: bool, trust: bool, signers: Path | None, repeated: tuple[Path, ...], runs: Path,
    manner: CommonOptions,
) -> None:  # fmt: skip
    """Repeat the runs of such a file in the lab or on your testbed, and judge its claims.

    First the digests, the signature and the claims are verified: a file in which anything is wrong is refused. If another user or machine
    made it, its commands are shown, and nothing runs until you agree. Then each run is repeated. A claim is repeated if the median of each
    figure is inside its prediction interval. On other processors the ratios of modes decide.

    Exit 0: every claim was repeated; 1: one differs; 2: the file or an option is wrong; 3: the testbed cannot be used; 4: cannot tell.

    \b
    Example:
      dutlab artifact check firewall-modes.zip --plan
      dutlab artifact check firewall-modes.zip --trust
      dutlab artifact check firewall-modes.zip --testbed mine.yaml --allowed-signers signers
    """
    from dutlab.cli.artifact_check import ArtifactCheck
    from dutlab.publish.opened_artifact import open_artifact
    from dutlab.spec.drive_models import with_models
    from dutlab.spec.loader import given_testbed
    from dutlab.spec.yaml_source import read_file

    bed = None
    if testbed_file is not None:
        bed = (given_testbed(text := read_file(testbed_file), testbed_file), with_models(text, testbed_file))
    if bed is None and not only_plan and not repeated:
        become_root()
    with _failures_exit_cannot_tell(), tempfile.TemporaryDirectory(prefix="dutlab-artifact-") as place:
        checking = ArtifactCheck(file, open_artifact(file, Path(place), signers), bed, runs, manner)
        if only_plan:
            checking.show_plan()
            return
        judged = checking.by_runs(repeated) if repeated else checking.by_measuring(trusted=trust)
        state = checking.tell(judged)
    click.get_current_context().exit({"repeated": 0, "differs": 1}.get(state, CANNOT_TELL))
