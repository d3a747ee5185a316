"""Writes the lists of persons and verbs that the cache's verifier uses, from WordNet 3.0.

    python -m loadtest.word_classes /usr/share/wordnet

The folder holds `index.noun`, `data.noun` and so on (Debian's package wordnet-base). A word is what it is most often:
the part of speech with the most senses found in text, and its first sense there.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import hasten.cache.guards

PERSON = 18
"""WordNet's number of the nouns that denote people."""
PARTS = ("noun", "verb", "adj", "adv")


def entries(folder: Path, part: str) -> Iterator[tuple[str, int, str]]:
    """Each single word of a part of speech: how many senses have been found in text, and its first sense."""
    for line in (folder / f"index.{part}").read_text().splitlines():
        fields = line.split()
        if not line.startswith(" ") and fields[0].isascii() and fields[0].isalpha() and len(fields[0]) > 2:
            pointers = int(fields[3])
            yield fields[0], int(fields[pointers + 5]), fields[pointers + 6]


def persons(folder: Path) -> set[str]:
    """The senses of nouns that denote people."""
    lines = (folder / "data.noun").read_text().splitlines()
    return {line.split()[0] for line in lines if not line.startswith(" ") and int(line.split()[1]) == PERSON}


def classes(folder: Path) -> tuple[list[str], list[str]]:
    """The words for people and the verbs, sorted."""
    best: dict[str, tuple[int, str, str]] = {}
    for part in PARTS:
        for word, found, sense in entries(folder, part):
            if found > best.get(word, (0, "", ""))[0]:
                best[word] = (found, part, sense)
    people = persons(folder)
    who = sorted(word for word, (_, part, sense) in best.items() if part == "noun" and sense in people)
    return who, sorted(word for word, (_, part, _) in best.items() if part == "verb")


def main(folder: Path) -> None:
    """Writes both lists beside the guards."""
    target = Path(hasten.cache.guards.__file__).parent
    for name, words in zip(("persons", "verbs"), classes(folder), strict=True):
        (target / f"{name}.txt").write_text("\n".join(words) + "\n")
        print(f"{name}: {len(words)} words")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
