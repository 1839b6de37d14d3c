"""Check a recorded history: `python -m histories FOLDER [BUDGET]`.

Exits with 0 if it is legal, 1 if it is illegal, and 2 if it is undecided.
"""

from __future__ import annotations

import sys

from histories import BUDGET, check, read


def main(words: list[str]) -> int:
    """Print the judgement."""
    judgement = check(read(words[0]), budget=int(words[1]) if len(words) > 1 else BUDGET)
    print(judgement)
    return ("legal", "illegal", "undecided").index(judgement.name)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
