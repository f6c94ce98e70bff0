"""A deliberate fault, and how it is put into the code."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """*text*, which the *file* has once, becomes *instead*."""

    file: str
    text: str
    instead: str


class Mutant(NamedTuple):
    """A fault: *text*, which the *file* has once, becomes *instead*.

    Attributes:
        breaks: what is promised, and no longer true.
        also: where several places guard the promise, the others: one alone would break nothing.
        needs: the kinds of faults, and the parts, of a world that show it; none: any world does. A hunt begins with
            worlds in which they are many.
        found: a world has failed with it, in a hunt.
        seed: of a world in which it shows early; a hunt begins there. When worlds change, it may show elsewhere.
        test: where no world can see the fault: the test that fails with it.
        why: no world can see it.
    """

    name: str
    file: str
    text: str
    instead: str
    breaks: str
    also: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    found: bool = False
    seed: int | None = None
    test: str = ""
    why: str = ""

    def spoiled(self, root: Path) -> Mapping[str, str]:
        """The code of its files with the fault, by their paths below *root*.

        Raises:
            ValueError: a file does not have its text exactly once.
        """
        codes: dict[str, str] = {}
        for file, text, instead in (Edit(self.file, self.text, self.instead), *self.also):
            code = codes.get(file) or (root / file).read_text()
            if (count := code.count(text)) != 1:
                raise ValueError(f"{file} has the text of {self.name} {count} times: write it as the code is now")
            codes[file] = code.replace(text, instead)
        return codes
