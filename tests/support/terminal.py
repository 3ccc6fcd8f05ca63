"""What a person sees of a command on a terminal: a real one (a pty), whose output a small model of a screen reads."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

ROWS = 30
_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


def screen_after(command: list[str], columns: int) -> list[str]:
    """The lines on a terminal that wide when the command has ended, without the empty ones at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    unsized = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=unsized | {"TERM": "xterm"}):
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:  # the command has closed its end
            pass
    os.close(ours)
    return shown(written.decode(), columns)


def shown(text: str, columns: int) -> list[str]:
    """The lines of a screen on which this was written; knows no more controls than rich uses, and never scrolls."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(text):
        if control := _CONTROL.match(text, at):
            at = control.end()
            if control[2] == "A":
                row -= int(control[1] or 1)
            elif control[2] == "K":
                lines[row] = "" if control[1] == "2" else lines[row][:column]
            else:
                assert control[2] in "mhl", control[0]  # colours, and whether the cursor is seen
            continue
        character, at = text[at], at + 1
        if character == "\r":
            column = 0
            continue
        if character == "\n" or column == columns:
            row, column = row + 1, 0 if character != "\n" else column
            lines += [""] * (row + 1 - len(lines))
        if character != "\n":
            lines[row] = lines[row].ljust(column)[:column] + character + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines if line.strip()]
