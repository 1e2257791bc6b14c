"""Whatever comes from files, hosts and other people's runs, no terminal obeys it."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.main import main
from dutlab.cli.plan import plan
from dutlab.cli.terminal import answer, say, say_shaded, tell, terminal
from dutlab.printable import printable, printable_lines

CLI = Path(__file__).parents[2] / "src" / "dutlab" / "cli"
HOSTILE = "a\x1b[2Jb\x07\u202ec\u2066d\x9be\u200bf\r"
PLAIN = "a?[2Jb??c?d?e?f?"
EXPERIMENT = """
experiment: x
testbed: {lab: three-node}
factors: {mode: [router], cable: ["\\u202eevil", "good\\u2066"]}
workloads: [{iperf3: {duration: 1s}}]
"""


def obeyed(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"} and c not in "\n\t"}


def test_everything_is_printed_by_one_function() -> None:
    for path in CLI.glob("*.py"):
        if path.name != "terminal.py":
            assert "click.echo(" not in path.read_text(), f"{path.name}: say() takes out what a terminal would obey"


def test_what_a_terminal_would_obey_is_shown_as_a_question_mark(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(HOSTILE) == PLAIN
    assert printable_lines(f"{HOSTILE}\n\tö €") == f"{PLAIN}\n\tö €"
    say(HOSTILE)
    answer(HOSTILE)
    tell(HOSTILE)
    tell(HOSTILE, renew=True)
    said = capsys.readouterr()
    assert said.out == f"{PLAIN}\n{PLAIN}\n"
    assert said.err == f"{PLAIN}\n\r{PLAIN}\n", "a line of ours that renews itself may; click keeps the rest for terminals"


def test_a_plan_turns_no_direction_of_writing(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = CliRunner().invoke(plan, [str(tmp_path / "e.yaml"), "--trials"])
    assert done.exit_code == 0
    assert "cable=?evil" in done.output
    assert not obeyed(done.output)


def test_an_error_that_names_a_hostile_file_is_printed_without_escapes(monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "plan.json").write_text('{"\x1b[2J": ')
    (tmp_path / "resolved.json").write_text("{}")
    (tmp_path / "trials").mkdir()
    odd = tmp_path / "x\x1b[31m\u202e"
    odd.mkdir()
    for path in (tmp_path, odd):
        monkeypatch.setattr(sys, "argv", ["dutlab", "report", "--format", "json", str(path)])
        with pytest.raises(SystemExit) as ended:
            main()
        error = capsys.readouterr().err
        assert ended.value.code and error and not obeyed(error)


def test_every_character_that_a_terminal_obeys_is_replaced_and_no_other() -> None:
    every = [chr(code) for code in (*range(0x3100), *range(0xD700, 0x10000, 3), *range(0xE0000, 0xE0200), sys.maxunicode)]
    shown = ["?" if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in every]
    assert printable("".join(every)) == "".join(shown)
    assert printable_lines("".join(every)) == "".join(c if c in "\n\t" else s for c, s in zip(every, shown, strict=True))


def test_of_a_shaded_line_the_colours_stay_and_nothing_else(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # as on a terminal
    say_shaded("\033[48;5;22m1.2\033[0m\033[2J\r")
    assert capsys.readouterr().out == "\033[48;5;22m1.2\033[0m?[2J?\n"


@pytest.mark.parametrize(
    ("tty", "env", "coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_take_them(
    monkeypatch: pytest.MonkeyPatch, *, tty: bool, env: dict[str, str], coloured: bool
) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "123", **env}.items():
        monkeypatch.setenv(name, value)
    if "NO_COLOR" not in env:
        monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty, raising=False)
    assert terminal() == (123, coloured)


def test_a_plan_is_shown_of_the_lab_or_testbed_that_a_run_would_be_given(tmp_path: Path) -> None:
    file, bed = tmp_path / "e.yaml", tmp_path / "bed.yaml"
    file.write_text("experiment: x\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nworkloads:\n- sweep: {frame_sizes: [64]}\n")
    bed.write_text(
        "testbed: t\nhosts: {source: {ssh: root@192.0.2.1}, dut: {ssh: root@192.0.2.2}, sink: {ssh: root@192.0.2.3}}\n"
        "links:\n  fast: {speed: 10G, path: [source:e0, dut:e0, dut:e1, sink:e0],\n"
        "         addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}\n"
    )
    of_bed = CliRunner().invoke(plan, [str(file), "--testbed", str(bed)])
    assert of_bed.exit_code == 0 and "link fast" in of_bed.output and "link a" not in of_bed.output, of_bed.output
    assert "link b" not in CliRunner().invoke(plan, [str(file), "--lab", "two-routers"]).output
    both = CliRunner().invoke(plan, [str(file), "--lab", "three-node", "--testbed", str(bed)])
    assert both.exit_code == 2 and "exclude one another" in both.output
