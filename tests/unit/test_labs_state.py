"""State files of labs, whose folder another process removes with its last lab at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.errors import LabError
from dutlab.labs.state import LabState, StateFolder


class BesideOthers(StateFolder):
    """Its folder is removed again, some times, once it was made."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__(path)
        self.left = times

    def _make(self) -> None:
        super()._make()
        if self.left and not list(self.path.iterdir()):
            self.left -= 1
            self.path.rmdir()
            self.path.parent.rmdir()


@pytest.mark.parametrize("times", [0, 1, 7])
async def test_a_lab_is_claimed_while_others_forget_their_last_one(tmp_path: Path, times: int) -> None:
    folder = BesideOthers(tmp_path / "dutlab" / "labs", times)
    async with folder.lock():
        assert folder.left == 0
    folder.left = times
    folder.claim(LabState.unknown("mine"))
    assert folder.labels() == ["mine"]
    folder.forget("mine")
    folder.left = times
    folder.rewrite(LabState.unknown("mine"))
    assert folder.labels() == ["mine"]


def test_a_folder_that_never_stays_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="No such file"):
        BesideOthers(tmp_path / "dutlab" / "labs", 10_000).claim(LabState.unknown("mine"))


def test_a_label_that_is_taken_is_refused(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.claim(LabState.unknown("mine"))
    with pytest.raises(LabError, match="exists already"):
        folder.claim(LabState.unknown("mine"))
