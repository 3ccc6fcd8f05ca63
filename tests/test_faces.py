"""A room's face: what others import of a package stands in its `__all__`; everything else is private to the room."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
WALLS = "codea1_jax", "codea1_judge", "data_pipeline", "sandbox", "configs", "launch"
USERS = *WALLS, "benches", "scripts", "tests"
PAGES = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
SOURCES = [path.read_text(encoding="utf-8") for user in USERS for path in (ROOT / user).rglob("*.py")]


def room_of(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The package that a module belongs to: a folder of codea1_jax, or another wall."""
    return parts[:2] if parts[0] == "codea1_jax" else parts[:1]


@cache
def face_of(package: tuple[str, ...]) -> frozenset[str]:
    """The names in a package's `__all__`: modules, and what it hands on."""
    tree = ast.parse((ROOT.joinpath(*package) / "__init__.py").read_text(encoding="utf-8"))
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return frozenset(name for each in lists for name in ast.literal_eval(each))


def imports_of(path: Path) -> Iterator[tuple[str, ...]]:
    """What a file imports of this project, each name with its packages."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in WALLS:
            yield from ((*node.module.split("."), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (tuple(each.name.split(".")) for each in node.names if each.name.partition(".")[0] in WALLS)


def steps_into(imported: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The packages that an import enters, from its room on, each with the name that it takes there."""
    for depth in range(len(room_of(imported)), len(imported)):
        if (ROOT.joinpath(*imported[:depth]) / "__init__.py").exists():
            yield imported[:depth], imported[depth]


def used_by_others(users: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Files that import what is not of their room: the file, a package, the name that is taken there."""
    for path in (path for user in users for path in sorted((ROOT / user).rglob("*.py"))):
        own = room_of(path.relative_to(ROOT).parts)
        for imported in imports_of(path):
            if room_of(imported) != own:
                yield from ((str(path.relative_to(ROOT)), *step) for step in steps_into(imported))


def test_rooms_import_of_each_other_what_stands_in_the_face():
    assert [
        f"{file}: {name} of {'.'.join(package)}"
        for file, package, name in used_by_others(WALLS)
        if name not in face_of(package)
    ] == []


def test_nothing_stands_in_a_face_that_nobody_else_uses():
    used = {(package, name) for _, package, name in used_by_others(USERS)}
    packages = [path.parent.relative_to(ROOT).parts for wall in WALLS for path in (ROOT / wall).rglob("__init__.py")]
    assert [
        f"{name} of {'.'.join(package)}"
        for package in packages
        for name in sorted(face_of(package))
        if (package, name) not in used
        and not any(name in page for page in PAGES)
        and not any(f"{package[-1]}.{name}" in source for source in SOURCES)
    ] == []
