"""The parts of a response with files, as they stand after what the platform objected to. Pure.

Parts that were sent keep their numbers, whatever is cut or left out afterwards: pieces take the place of their part, a
part whose files are all left out stays in place without them, and the sentence about them is the last part.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from shared.channels import part_cuts
from shared.channels.base import OutgoingFile, Part
from shared.core.errors import FilesRefused, PartTooLong


class FilesUnsendable(FilesRefused):
    """Some files of a part can't be sent, whatever the platform says: they are gone, changed or too large.

    Args:
        problems: the reason of each, by its path.
    """

    def __init__(self, problems: Mapping[Path, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


Render = Callable[..., tuple[Part, ...]]
"""``Channel.render``."""


@dataclass(frozen=True)
class PartPlan:
    """What goes out for one response.

    Attributes:
        cuts: the parts that were cut so far, in that order, each by its number at that time.
        unsent: the files that are left out, by their place in *files*, with the reason.
    """

    render: Render
    text: str
    files: tuple[OutgoingFile, ...] = ()
    cuts: tuple[int, ...] = ()
    unsent: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts, those that were sent included. One without text and files is left out when its turn comes."""
        whole = part_cuts.cut_all(self._rendered, self.cuts)
        if not self.unsent:
            return whole
        gone = {self.files[place].path for place in self.unsent}
        kept = (replace(each, files=tuple(file for file in each.files if file.path not in gone)) for each in whole)
        return (*kept, *self.render(self.note))

    @cached_property
    def _rendered(self) -> tuple[Part, ...]:
        return self.render(self.text, self.files) if self.files else self.render(self.text)

    @property
    def note(self) -> str:
        """What the person reads about the files that are left out."""
        return "\n\n".join(told(self.files[place].name, self.unsent[place]) for place in sorted(self.unsent))

    def cut(self, index: int) -> "PartPlan | None":
        """With part *index* in smaller pieces; None where it can't be cut."""
        whole = part_cuts.cut_all(self._rendered, self.cuts)
        if len(part_cuts.cut(whole, index)) == len(whole):
            return None
        return replace(self, cuts=(*self.cuts, index))

    def without(self, problems: Mapping[Path, str]) -> "PartPlan":
        """Without these files."""
        places = {each.path: place for place, each in enumerate(self.files)}
        found = {places[path]: reason for path, reason in problems.items()}
        return replace(self, unsent={**self.unsent, **found})

    def after(self, error: PartTooLong | FilesRefused, index: int) -> "PartPlan | None":
        """After an objection to part *index*; None where nothing can be changed.

        An album whose files are refused goes out file by file; then a file that is refused is left out.
        """
        if isinstance(error, FilesUnsendable):
            return self.without(error.problems)
        files = self.parts[index].files
        smaller = self.cut(index) if isinstance(error, PartTooLong) or len(files) > 1 else None
        if smaller is not None or isinstance(error, PartTooLong):
            return smaller
        return self.without({each.path: str(error) for each in files})


def told(name: str, reason: str) -> str:
    """The sentence about a file that was not sent."""
    return f"(The file {name} was not sent: {reason}.)"


def is_empty(part: Part) -> bool:
    """Whether nothing of the part is left to send."""
    return not part.files and not part.text.strip()


def stored(unsent: Mapping[int, str]) -> list[list[int | str]]:
    """*unsent* for its column."""
    return [[place, reason] for place, reason in sorted(unsent.items())]


def read(pairs: Sequence[Sequence[int | str]]) -> dict[int, str]:
    """*unsent* from its column."""
    return {int(place): str(reason) for place, reason in pairs}
