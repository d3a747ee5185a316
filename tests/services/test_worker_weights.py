"""The embedded models: made once, whole or not at all, and counted by the same tokenizer as the engine's."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from tokenizers import Tokenizer

from hasten import weights
from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import LARGE, SMALL
from hasten.weights import WeightsMissing, folder, prepare, ready
from hasten.worker.engines import End
from hasten.worker.engines.llama import LlamaEngine

DATA = Path(__file__).parents[2] / ".hasten"
TEXTS = (
    "How much is the yearly plan for 25 seats, and is VAT included?",
    "  two  spaces,\n\n\ttabs and CAPS; it's 48213 not 48231 — €1,299.00",
    "Größe 日本語 नमस्ते \U0001f469\u200d\U0001f467 \u0301 a\u0301",
    "def f(x):\n    return x ** 2  # don't",
    "<|im_end|> is a control token",
)


@pytest.fixture(scope="module")
def data() -> Path:
    """The data folder with the embedded models."""
    prepare(DATA, lambda line: None)
    return DATA


@pytest.fixture
def without_tokenizer(data: Path, tmp_path: Path) -> Path:
    """A data folder that lacks the tokenizer and the template, in which an earlier try was cut off."""
    models = folder(tmp_path)
    (models / SMALL.tokenizer).mkdir(parents=True)
    for model in (SMALL, LARGE):
        (models / model.engine.path).symlink_to(folder(data).resolve() / model.engine.path)
    (models / SMALL.tokenizer / ".tokenizer.json.part").write_text('{"cut off')
    return tmp_path


def test_what_is_there_is_not_made_again(data: Path) -> None:
    lines: list[str] = []
    prepare(data, lines.append)
    assert ready(data)
    assert lines == []


def test_only_what_is_missing_is_made_and_leaves_nothing_half(data: Path, without_tokenizer: Path) -> None:
    assert not ready(without_tokenizer)
    lines: list[str] = []
    prepare(without_tokenizer, lines.append)
    assert lines == ["making tokenizer.json", "making chat_template.jinja"]
    assert ready(without_tokenizer)
    made = folder(without_tokenizer) / SMALL.tokenizer
    assert sorted(path.name for path in made.iterdir()) == ["chat_template.jinja", "tokenizer.json"]
    assert (made / "tokenizer.json").read_bytes() == (folder(data) / SMALL.tokenizer / "tokenizer.json").read_bytes()


def test_two_at_once_make_it_once(without_tokenizer: Path) -> None:
    lines: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: prepare(without_tokenizer, lines.append), range(2)))
    assert len(lines) == 2


def test_weights_that_are_not_installed_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "PACKAGE", "no_such_package")
    with pytest.raises(WeightsMissing, match="run `hasten models fetch`"):
        prepare(tmp_path, lambda line: None)
    assert not ready(tmp_path)


def test_a_text_survives_the_tokenizer(data: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder(data) / SMALL.tokenizer / "tokenizer.json"))
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


async def test_counts_agree_with_the_engine(data: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder(data) / SMALL.tokenizer / "tokenizer.json"))
    one_slot = msgspec.structs.replace(SMALL, engine=msgspec.structs.replace(SMALL.engine, slots=1))
    engine = LlamaEngine.from_config(one_slot, data)
    await engine.start()
    for text in TEXTS[:-1]:
        turns = [Turn(role="system", content="Answer in one sentence."), Turn(role="user", content=text)]
        request = Generate(messages=turns, max_tokens=1, temperature=0.0)
        (end,) = [event async for event in engine.generate("r", request) if isinstance(event, End)]
        rendered = "".join(f"<|im_start|>{turn.role}\n{turn.content}<|im_end|>\n" for turn in turns)
        assert end.usage.prompt_tokens == len(tokenizer.encode(rendered + "<|im_start|>assistant\n").ids)
    await engine.close()
