"""P4 programs with tokens removed, repeated, swapped and replaced: python -m tests.sanitize.sources [--texts N] [--seed N].

Each must compile, or be refused in a sentence: not by a traceback, a message of the C compiler, or after a long time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from inalab.switches.embedded.build import RUNTIME, c_compiler
from inalab.switches.embedded.compiler import compile_p4
from inalab.switches.embedded.errors import CompileError
from tests.sanitize.subjects import PROGRAMS

TOKEN = re.compile(r"\s+|\w+|\"[^\"\n]*\"|[^\w\s]")
MOST_SECONDS = 20.0  # that a compilation may take


def sources() -> list[Path]:
    """The programs whose texts are changed."""
    return [*sorted(PROGRAMS.glob("*.p4")), Path("p4/switchml.p4")]


def changed(text: str, rng: random.Random) -> str:
    """A text with one or two changes."""
    tokens = TOKEN.findall(text)
    solid = [i for i, token in enumerate(tokens) if not token.isspace()]
    for _ in range(rng.choice([1, 1, 2])):
        i, j = rng.choice(solid), rng.choice(solid)
        match rng.randrange(5):
            case 0:
                tokens[i] = ""
            case 1:
                tokens[i] += " " + tokens[i]
            case 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 3:
                tokens[i] = tokens[j]
            case 4:
                tokens[i] = rng.choice(
                    ["0", "1", "999999999999", "-1", "128", "{", "}", "(", ")", "<", ">", ";", "_", "int", "varbit<8>"]
                )
    return "".join(tokens)


def outcome(path: Path, c_errors: bool) -> tuple[str, str]:
    """How a compilation ends, in a word, and what was said."""
    begun = time.monotonic()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            text = compile_p4(path, {}, [PROGRAMS, Path("p4"), Path("p4/include")])
    except CompileError as error:
        sentences = str(error)
        word = "failed" if "defect" in sentences or "\n" in sentences else "refused"
        return ("slow" if time.monotonic() - begun > MOST_SECONDS else word), sentences
    except Exception as error:  # whatever it is, the author of a program must not see it
        return "raised", f"{type(error).__name__}: {error}"
    if c_errors:
        command = [c_compiler(), "-fsyntax-only", "-I", str(RUNTIME), "-x", "c", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            return "failed", next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
    return "compiled", ""


def run(texts: int, seed: int, c_errors: bool = True) -> tuple[Counter[str], list[str]]:
    """How so many texts ended, and a line for each that ended as none may."""
    rng, ends, wrong = random.Random(seed), Counter[str](), []
    known = [path.read_text() for path in sources()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.p4"
        for number in range(texts):
            text = changed(rng.choice(known), rng)
            path.write_text(text)
            word, sentences = outcome(path, c_errors)
            ends[word] += 1
            if word not in ("compiled", "refused"):
                kept = Path(tempfile.gettempdir()) / f"inalab-source-{seed}-{number}.p4"
                kept.write_text(text)
                wrong.append(f"{kept}: {word}: {sentences}")
    return ends, wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize.sources", description=__doc__)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends, wrong = run(options.texts, options.seed)
    print("\n".join([*wrong, ", ".join(f"{n} {word}" for word, n in sorted(ends.items()))]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
