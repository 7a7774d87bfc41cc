"""Inputs made from good ones by a seeded hand, and trying them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
INTERESTING = b"\x00\x01\x02\x7f\x80\xff\x10\x20\x30\x82\xc0+#/$%\r\n:;\"'{}[]"


def kept(target: str) -> list[bytes]:
    """What broke something once, and what a search guided by coverage reached: lines of hex; `#` begins a remark."""
    path = CORPUS / f"{target}.hex"
    lines = path.read_text().splitlines() if path.exists() else []
    return [bytes.fromhex(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]


def keep(target: str, data: bytes, remark: str) -> Path:
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{target}.hex"
    with path.open("a") as file:
        file.write(f"{data.hex()}  # {remark}\n")
    return path


def mutated(random: Random, good: list[bytes]) -> bytes:
    data = bytearray(b"".join(random.choices(good, k=random.choice((1, 1, 2, 4)))))
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(data) + 1)
        match random.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1 if at < len(data):
                data[at] = random.choice(INTERESTING)
            case 2:
                del data[at : at + random.randint(1, 16)]
            case 3:
                data[at:at] = random.randbytes(random.randint(1, 8))
            case 4:
                data[at:at] = data[at : at + random.randint(1, 32)]
            case 5:
                data[at:] = random.choice(good)[random.randrange(8) :]
            case _:
                data[at:at] = bytes([random.choice(INTERESTING)]) * random.randint(1, 4)
    return bytes(data[:4096])


def inputs(target: str, seed: int, count: int) -> Iterator[bytes]:
    random, good = Random(f"{target}{seed}"), [*TARGETS[target].seeds, *kept(target)]
    for _ in range(count):
        yield mutated(random, good)
