"""The transcript host: it answers what it holds, as things stand, and nothing else."""

from __future__ import annotations

import pytest

from dutlab.errors import CommandFailed
from transcript import NotInTranscript, TranscriptHost, read_transcript

TEXT = """\
# made for this test
state light=off
text song
| la
| la la

$ light
if light=off
> it is dark
$ light
if light=on
> \\e[1mit is light\\e[0m
$ switch on
if light=off
! there you are
then light=on
$ switch on
if light=on
! it is on
= 3
$ sing -f -
< @song
> @song
$ 'two words' "and 'quotes'"
$ absent
= 127
put /etc/motd
< hello
then motd=new
"""


@pytest.fixture
def dut() -> TranscriptHost:
    return TranscriptHost("dut", TEXT)


async def test_what_it_answers_depends_on_what_was_done_before(dut: TranscriptHost) -> None:
    assert (await dut.run(["light"])).text == "it is dark\n"
    assert (await dut.run(["switch", "on"])).stderr == b"there you are\n"
    assert (await dut.run(["light"])).text == "\x1b[1mit is light\x1b[0m\n"
    with pytest.raises(CommandFailed, match="ended with 3"):
        await dut.run(["switch", "on"])
    assert (await dut.run(["switch", "on"], check=False)).status == 3
    assert dut.commands == ["light", "switch on", "light", "switch on", "switch on"]


async def test_a_command_an_input_or_a_state_that_it_has_not_seen_is_refused(dut: TranscriptHost) -> None:
    with pytest.raises(NotInTranscript, match=r"`switch off`.*`switch on`"):
        await dut.run(["switch", "off"], check=False)
    # Standard input belongs to the command.
    assert (await dut.run(["sing", "-f", "-"], stdin=b"la\nla la\n")).text == "la\nla la\n"
    with pytest.raises(NotInTranscript, match=r"-la la\n\+lo lo"):
        await dut.run(["sing", "-f", "-"], stdin=b"la\nlo lo\n")
    # A state that it has not seen is refused.
    dut.state["light"] = "broken"
    with pytest.raises(NotInTranscript, match=r"{'light': 'broken'}"):
        await dut.run(["light"])


async def test_files_words_and_programs_that_are_not_there(dut: TranscriptHost) -> None:
    await dut.put(b"hello\n", "/etc/motd")
    assert dut.state["motd"] == "new"
    with pytest.raises(NotInTranscript):
        await dut.put(b"hello\n", "/etc/passwd")
    assert (await dut.run(["two words", "and 'quotes'"])).status == 0
    with pytest.raises(CommandFailed, match="install absent on dut"):
        await dut.run(["absent"])


def test_what_nobody_asked_for_is_told_and_a_line_that_is_none_is_refused(dut: TranscriptHost) -> None:
    assert dut.unused()[0] == "7: light"
    with pytest.raises(ValueError, match=r"line 1 .*> too early"):
        read_transcript("> too early")
