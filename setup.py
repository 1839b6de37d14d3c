"""What pyproject.toml cannot say: the description that a package index shows.

It is the README. Its links are relative, so that they work in a clone and on every host of git; on
an index they would lead nowhere, so there they begin with the address of the source.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
SOURCE = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["urls"]["Source"]


def description() -> str:
    """The README with absolute links."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(\]\()(?![a-z]+:|#)", rf"\g<1>{SOURCE}", text)


setup(long_description=description(), long_description_content_type="text/markdown")
