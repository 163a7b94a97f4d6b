"""CTC and the directed acyclic transformer learn to copy and to reverse: a few thousand weights, seconds on a CPU."""

import pytest
import torch

from tfm_cli.nonautoregressive.ctc import Ctc
from tfm_cli.nonautoregressive.dag import Dag
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.transformer.batch import Batch
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import COUNT, END

SHAPE = Shape(dim=32, ffn_dim=64, heads=4, encoder_layers=1, decoder_layers=1, dropout=0.0)
WORDS, LONGEST = 12, 6


def sentences(count, generator):
    """Random words. Neighbours differ: to say a word twice, CTC must learn a blank between, which takes it much longer."""
    lengths = torch.randint(1, LONGEST + 1, (count,), generator=generator).tolist()
    steps = [torch.randint(1, WORDS, (n,), generator=generator).cumsum(0) for n in lengths]
    return [(COUNT + each % WORDS).tolist() for each in steps]


def pairs(sources, task):
    return Batch.of([[*s, END] for s in sources], [[*task(s), END] for s in sources])


def backwards(sentence):
    return sentence[::-1]


@pytest.mark.parametrize(("task", "glancing"), [(list, True), (backwards, False)], ids=["copy-glancing", "reverse"])
@pytest.mark.parametrize("family", [Ctc, Dag])
def test_learns_the_task(family, task, glancing):
    torch.manual_seed(0)
    model = family(Transformer(SHAPE, COUNT + WORDS, COUNT + WORDS), glancing=glancing)
    steps, generator = 450, torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, steps, pct_start=0.1)
    for step in range(steps):
        report = model.loss(pairs(sentences(32, generator), task), step / steps)
        optimizer.zero_grad()
        (report.sum / report.count).backward()
        optimizer.step()
        schedule.step()
    unseen = sentences(200, generator)
    found = model.eval().decode(pairs(unseen, task).source, NonAutoregressiveDecodeOptions())
    right = sum(each[0].tokens == task(source) for each, source in zip(found, unseen, strict=True))
    assert right >= 190, [(task(s), f[0].tokens) for s, f in zip(unseen, found, strict=True)][:5]
