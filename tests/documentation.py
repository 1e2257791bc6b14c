"""The documentation as a site, built in a folder of a test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from capability import need

ROOT = Path(__file__).parents[1]
SOURCES = ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "LICENSE")


def site(tree: Path, **own: str) -> subprocess.CompletedProcess[str]:
    """Build a site of the project's pages, or of `own` pages alone."""
    for name in SOURCES:
        (tree / name).write_text("# Page\n") if own and name.endswith(".md") else shutil.copy(ROOT / name, tree)
    for name in ("docs", "examples", "contracts"):
        (tree / name).mkdir() if own else shutil.copytree(ROOT / name, tree / name)
    for name, text in own.items():
        (tree / f"docs/{name}.md").write_text(text)
    if not (tree / ".venv").exists():
        need("mkdocs", (ROOT / ".venv/bin/mkdocs").exists())
        (tree / ".venv").symlink_to(ROOT / ".venv")
    return subprocess.run([ROOT / "scripts/site"], cwd=tree, capture_output=True, text=True, check=False)
